// What the processor and the operating system allow.
#pragma once

namespace netgain {

struct Processor {
  bool avx2 = false;         // with FMA and 16-bit float conversion
  bool avx_vnni = false;     // the 256-bit form without AVX-512
  bool avx512_vnni = false;  // with F, BW, DQ and VL
  bool amx = false;          // of int8 and bfloat16, with AVX-512 BF16 and VBMI
  bool neon_dot = false;  // int8 dot products and 16-bit floats
};

// Asks the kernel for leave to use the AMX tiles, which Linux grants to a whole process once.
Processor detect_processor();

}  // namespace netgain
