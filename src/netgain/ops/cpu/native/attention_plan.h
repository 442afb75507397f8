// How the attention of one step is divided among threads.
#pragma once

#include <vector>

#include "kernels.h"

namespace netgain {

// Partial results of one step take no more than this (16 MiB); work that would is not cut.
inline constexpr int64_t kMostPartialFloats = int64_t{4} << 20;

// The same for all layers of a KV group. Results do not depend on the division.
struct AttentionPlan {
  std::vector<AttentionTask> tasks;    // longest first; those of one head side by side first if `by_head`
  std::vector<int32_t> chunks;         // the first task of each, and the end: of similar length
  bool by_head = false;
  std::vector<AttentionMerge> merges;  // to run when all tasks are done
  int64_t partial_floats = 0;          // that `AttentionArgs::partials` must hold

  // `rows_share_lines`: results of a group of rows are laid for a matrix unit.
  void build(const StepView& step, int64_t heads, const KVLayout& layout, int64_t window, int threads,
             bool rows_share_lines);
  void clear();
};

}  // namespace netgain
