// Which kernels run: the best that compiler and processor have, unless chosen otherwise.
#pragma once

#include "kernels.h"

namespace netgain {

// The kernels in use.
const Kernels& kernels();

// Those of one name ("plain", "avx2", ...); null if the compiler or the processor lacks them.
const Kernels* kernels_named(const char* name);

// Uses those of one name from now on; false, and nothing changed, where `kernels_named` has none.
// For use before any kernel runs: whoever holds the former table goes on with it.
bool use_kernels(const char* name);

// Names of all usable kernels, the best first, separated by spaces.
const char* usable_kernels();

}  // namespace netgain
