#include "kernels.h"

#if defined(__AVX2__)
#include "vector_avx2.h"
#include "common_impl.h"
#include "dot_avx2.h"
#include "linear_impl.h"
#include "rows_impl.h"
#include "attention_impl.h"
#include "sampling_impl.h"

namespace netgain {
const Kernels* kernels_avx2() {
  static const Kernels table = NETGAIN_KERNELS("avx2");
  return &table;
}
}  // namespace netgain
#else
namespace netgain {
const Kernels* kernels_avx2() { return nullptr; }
}  // namespace netgain
#endif
