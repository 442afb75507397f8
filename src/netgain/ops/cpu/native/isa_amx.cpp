#include "kernels.h"

// What AMX does not serve is taken from avx512_vnni: compiling it again would take long and change nothing.
#if defined(__AMX_INT8__) && defined(__AVX512VNNI__)
#include "vector_avx512.h"
#include "common_impl.h"
#include "dot_avx512_vnni.h"
#include "dot_amx.h"
#include "linear_impl.h"

namespace netgain {
const Kernels* kernels_amx() {
  const Kernels* base = kernels_avx512_vnni();
  if (base == nullptr) return nullptr;
  static const Kernels table = [base] {
    Kernels all = *base;
    all.name = "amx";
    all.linear = linear;
    all.gated = gated;
    return all;
  }();
  return &table;
}
}  // namespace netgain
#else
namespace netgain {
const Kernels* kernels_amx() { return nullptr; }
}  // namespace netgain
#endif
