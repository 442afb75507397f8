#include "kernels.h"

#if defined(__ARM_FEATURE_DOTPROD) && __has_include("dot_neon.h")
#include "vector_neon.h"
#include "common_impl.h"
#include "dot_neon.h"
#include "linear_impl.h"
#include "rows_impl.h"
#include "attention_impl.h"
#include "sampling_impl.h"

namespace netgain {
const Kernels* kernels_neon() {
  static const Kernels table = NETGAIN_KERNELS("neon");
  return &table;
}
}  // namespace netgain
#else
namespace netgain {
const Kernels* kernels_neon() { return nullptr; }
}  // namespace netgain
#endif
