#include "kernels.h"

// What AMX neither serves nor quantises otherwise is taken from avx512_vnni: compiling it again would take long and change nothing.
#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512VNNI__) && defined(__AVX512BF16__) && \
    defined(__AVX512VBMI__) && defined(__AVX512VBMI2__)
#include "tiles_amx.h"
#include "common_impl.h"
#include "linear_impl.h"
#include "linear_amx.h"
#include "rows_impl.h"
#include "attention_impl.h"

namespace netgain {
const Kernels* kernels_amx() {
  const Kernels* base = kernels_avx512_vnni();
  if (base == nullptr) return nullptr;
  static const Kernels table = [base] {
    Kernels all = *base;
    all.name = "amx";
    all.codes = CodeLayout::kByOutput;
    all.cutting = {2, kManyRows, 2, 500};
    all.linear = linear;
    all.gated = gated;
    all.embed = embed;
    all.quantize = quantize;
    all.rms_norm = rms_norm;
    all.attend = attend;
    all.merge = merge;
    all.attention_scratch_floats = attention_scratch_floats;
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
