// What a unit of kernels under test offers: functions over buffers, so that one caller serves all,
// in the same process or (for another processor) over a pipe to an emulated one.
#pragma once

#include <cstddef>

#define NETGAIN_TEST extern "C" __attribute__((visibility("default")))

using Buffers = void* const*;

template <class T>
T* array(Buffers buffers, int index) {
  return static_cast<T*>(buffers[index]);
}

template <class T>
T scalar(Buffers buffers, int index) {
  return *static_cast<T*>(buffers[index]);
}

struct Entry {
  const char* name;
  void (*call)(Buffers);
};

// Defined by every unit; ends with a null name.
extern const Entry kEntries[];
