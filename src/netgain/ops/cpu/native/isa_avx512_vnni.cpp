#include "kernels.h"

#if defined(__AVX512VNNI__)
#include "vector_avx512.h"
#include "common_impl.h"
#include "dot_avx512_vnni.h"
#include "linear_impl.h"
#include "rows_impl.h"
#include "attention_impl.h"
#include "sampling_impl.h"

namespace netgain {
const Kernels* kernels_avx512_vnni() {
  static const Kernels table = NETGAIN_KERNELS("avx512_vnni");
  return &table;
}
}  // namespace netgain
#else
namespace netgain {
const Kernels* kernels_avx512_vnni() { return nullptr; }
}  // namespace netgain
#endif
