#include "api.h"
#include "dispatch.h"

#ifndef NETGAIN_VERSION
#define NETGAIN_VERSION "unknown"
#endif

// Identifies the sources this library was built from.
NETGAIN_API const char* ng_version() { return NETGAIN_VERSION; }

NETGAIN_API const char* ng_isa() { return netgain::kernels().name; }

NETGAIN_API const char* ng_supported_isas() { return netgain::usable_kernels(); }

// 0, or 1 where the library or the processor lacks it.
NETGAIN_API int ng_choose_isa(const char* name) { return netgain::use_kernels(name) ? 0 : 1; }
