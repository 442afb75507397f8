#include "kernels.h"

#if defined(__AMX_INT8__) && defined(__AVX512VNNI__)
#include "vector_avx512.h"
#include "common_impl.h"
#include "dot_avx512_vnni.h"
#include "dot_amx.h"
#include "linear_impl.h"
#include "rows_impl.h"
#include "attention_impl.h"
#include "sampling_impl.h"

namespace netgain {
const Kernels* kernels_amx() {
  static const Kernels table = NETGAIN_KERNELS("amx");
  return &table;
}
}  // namespace netgain
#else
namespace netgain {
const Kernels* kernels_amx() { return nullptr; }
}  // namespace netgain
#endif
