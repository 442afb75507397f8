// Functions that Python calls through ctypes.
#pragma once

#define NETGAIN_API extern "C" __attribute__((visibility("default")))
