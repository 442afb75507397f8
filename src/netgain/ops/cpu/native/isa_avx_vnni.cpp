#include "kernels.h"

// What VNNI does not serve is taken from avx2: compiling it again would take long and change nothing.
#if defined(__AVXVNNI__)
#include "vector_avx2.h"
#include "common_impl.h"
#include "dot_avx_vnni.h"
#include "linear_impl.h"

namespace netgain {
const Kernels* kernels_avx_vnni() {
  const Kernels* base = kernels_avx2();
  if (base == nullptr) return nullptr;
  static const Kernels table = [base] {
    Kernels all = *base;
    all.name = "avx_vnni";
    all.linear = linear;
    all.gated = gated;
    return all;
  }();
  return &table;
}
}  // namespace netgain
#else
namespace netgain {
const Kernels* kernels_avx_vnni() { return nullptr; }
}  // namespace netgain
#endif
