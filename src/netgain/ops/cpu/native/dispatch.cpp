#include "dispatch.h"

#include <atomic>
#include <cstring>

#include "processor.h"

namespace netgain {
namespace {

constexpr int kMost = 6;

struct Usable {
  const Kernels* tables[kMost];
  int count = 0;
  char names[128] = "";

  void add(bool processor_has, const Kernels* table) {
    if (!processor_has || table == nullptr) return;
    if (count > 0) std::strcat(names, " ");
    std::strcat(names, table->name);
    tables[count++] = table;
  }

  Usable() {  // the best first
    Processor processor = detect_processor();
    add(processor.amx, kernels_amx());
    add(processor.avx512_vnni, kernels_avx512_vnni());
    add(processor.avx_vnni, kernels_avx_vnni());
    add(processor.avx2, kernels_avx2());
    add(processor.neon_dot, kernels_neon());
    add(true, kernels_plain());
  }
};

const Usable& usable() {
  static const Usable found;
  return found;
}

std::atomic<const Kernels*>& chosen() {
  static std::atomic<const Kernels*> table{usable().tables[0]};
  return table;
}

}  // namespace

const Kernels& kernels() { return *chosen().load(); }

const Kernels* kernels_named(const char* name) {
  const Usable& all = usable();
  for (int i = 0; i < all.count; ++i) {
    if (std::strcmp(all.tables[i]->name, name) == 0) return all.tables[i];
  }
  return nullptr;
}

bool use_kernels(const char* name) {
  const Kernels* table = kernels_named(name);
  if (table == nullptr) return false;
  chosen().store(table);
  return true;
}

const char* usable_kernels() { return usable().names; }

}  // namespace netgain
