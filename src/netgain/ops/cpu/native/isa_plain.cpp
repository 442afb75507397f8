#include "kernels.h"

#include "vector_plain.h"
#include "common_impl.h"
#include "dot_plain.h"
#include "linear_impl.h"
#include "rows_impl.h"
#include "attention_impl.h"
#include "sampling_impl.h"

namespace netgain {
const Kernels* kernels_plain() {
  static const Kernels table = NETGAIN_KERNELS("plain");
  return &table;
}
}  // namespace netgain
