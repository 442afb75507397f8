// Serves a unit over standard input and output: for processors this machine only emulates.
//
// A request is uint32 length and bytes of the name, uint32 number of buffers, then of each uint64
// length and bytes; the answer is the bytes of all buffers.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "unit.h"

namespace {

bool read_all(void* to, size_t bytes) { return std::fread(to, 1, bytes, stdin) == bytes; }

template <class T>
bool read_one(T& value) {
  return read_all(&value, sizeof value);
}

}  // namespace

int main() {
  uint32_t length;
  while (read_one(length)) {
    std::string name(length, '\0');
    uint32_t count;
    if (!read_all(name.data(), length) || !read_one(count)) return 1;
    std::vector<std::vector<char>> contents(count);
    std::vector<void*> buffers;
    for (auto& content : contents) {
      uint64_t bytes;
      if (!read_one(bytes)) return 1;
      content.resize(bytes + 1);  // never null
      if (!read_all(content.data(), bytes)) return 1;
      buffers.push_back(content.data());
    }
    const Entry* entry = kEntries;
    while (entry->name && name != entry->name) ++entry;
    if (!entry->name) return 2;
    entry->call(buffers.data());
    for (auto& content : contents) std::fwrite(content.data(), 1, content.size() - 1, stdout);
    std::fflush(stdout);
  }
  return 0;
}
