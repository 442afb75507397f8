#include "kernels.h"

#if defined(__AVXVNNI__)
#include "vector_avx2.h"
#include "common_impl.h"
#include "dot_avx_vnni.h"
#include "linear_impl.h"
#include "rows_impl.h"
#include "attention_impl.h"
#include "sampling_impl.h"

namespace netgain {
const Kernels* kernels_avx_vnni() {
  static const Kernels table = NETGAIN_KERNELS("avx_vnni");
  return &table;
}
}  // namespace netgain
#else
namespace netgain {
const Kernels* kernels_avx_vnni() { return nullptr; }
}  // namespace netgain
#endif
