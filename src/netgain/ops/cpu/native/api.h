// Functions that Python calls through ctypes.
#pragma once

#define NG_API extern "C" __attribute__((visibility("default")))
