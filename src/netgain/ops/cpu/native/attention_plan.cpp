#include "attention_plan.h"

#include <algorithm>

#include "division.h"

namespace netgain {
namespace {

// Tasks and chunks of tasks per thread that even out their different lengths.
constexpr int64_t kTasksPerThread = 8, kChunksPerThread = 4;
// Reading a token's keys and values costs about as much as using them for this many rows.
constexpr int64_t kReadingRows = 8;
// Worth a task of its own: below, taking and merging it costs more than it evens out.
constexpr int64_t kLeastTokens = 128;

// Where rows share cache lines of the result, which heads do not, few rows with few tokens to read go head by head. More
// tokens are read faster sequence by sequence, as the keys of a token's heads lie side by side.
constexpr int64_t kFewTokens = 192;

// Consecutive queries of a slice: rows of T and the positions of their tokens.
struct Run {
  int32_t slice;
  int64_t first_row, rows, first_position;

  int64_t last_position() const { return first_position + rows - 1; }
  int64_t begin(int64_t window) const { return window > 0 ? std::max<int64_t>(0, first_position + 1 - window) : 0; }
  int64_t tokens(int64_t window) const { return last_position() + 1 - begin(window); }
  int64_t cost(int64_t window, int64_t group) const { return tokens(window) * (kReadingRows + rows * group); }
  int64_t first_split(int64_t window) const { return begin(window) / kContextSplit; }
  int64_t splits(int64_t window) const { return last_position() / kContextSplit + 1 - first_split(window); }
};

std::vector<Run> runs_of(const StepView& step, int64_t group) {
  std::vector<Run> runs;
  const int64_t most = task_queries(group);
  for (int64_t slice = 0; slice < step.slices; ++slice) {
    const int64_t count = step.query_starts[slice + 1] - step.query_starts[slice];
    if (count == 0) continue;
    const int64_t each = ceil_div(count, ceil_div(count, most));
    for (int64_t done = 0; done < count; done += each) {
      runs.push_back({static_cast<int32_t>(slice), step.query_starts[slice] + done, std::min(each, count - done),
                      step.context_lens[slice] - count + done});
    }
  }
  return runs;
}

}  // namespace

void AttentionPlan::clear() {
  tasks.clear();
  chunks.clear();
  merges.clear();
  partial_floats = 0;
}

void AttentionPlan::build(const StepView& step, int64_t heads, const KVLayout& layout, int64_t window, int threads,
                          bool rows_share_lines) {
  clear();
  const int64_t group = heads / layout.kv_heads;
  const int64_t split_floats = netgain::partial_floats(group, layout.head_dim);
  const std::vector<Run> runs = runs_of(step, group);
  int64_t total = 0, tokens = 0;
  for (const Run& run : runs) {
    total += run.cost(window, group) * layout.kv_heads;
    tokens += run.tokens(window);
  }
  const int64_t share = std::max<int64_t>(1, total / (kTasksPerThread * threads));

  for (const Run& run : runs) {
    const int64_t first = run.first_split(window), splits = run.splits(window);
    int64_t pieces = 1;
    const int64_t cut_floats = run.rows * splits * split_floats * layout.kv_heads;
    const bool affordable = partial_floats + cut_floats <= kMostPartialFloats;
    if (threads > 1 && affordable && run.tokens(window) >= 2 * kLeastTokens) {
      pieces = std::min(splits, ceil_div(run.cost(window, group), share));
    }
    const int64_t piece_splits = ceil_div(splits, pieces);
    for (int64_t head = 0; head < layout.kv_heads; ++head) {
      AttentionTask task{run.slice,
                         static_cast<int32_t>(run.first_row),
                         static_cast<int32_t>(run.rows),
                         static_cast<int32_t>(head),
                         static_cast<int32_t>(first),
                         static_cast<int32_t>(splits),
                         -1,
                         splits * split_floats};
      if (piece_splits >= splits) {
        tasks.push_back(task);
        continue;
      }
      for (int64_t done = 0; done < splits; done += piece_splits) {
        task.first_split = static_cast<int32_t>(first + done);
        task.splits = static_cast<int32_t>(std::min(piece_splits, splits - done));
        task.partial = partial_floats + done * split_floats;
        tasks.push_back(task);
      }
      for (int64_t row = 0; row < run.rows; ++row) {
        const Run one{run.slice, run.first_row + row, 1, run.first_position + row};
        const int64_t before = row * splits + one.first_split(window) - first;
        merges.push_back({static_cast<int32_t>(one.first_row), static_cast<int32_t>(head),
                          static_cast<int32_t>(one.splits(window)), partial_floats + before * split_floats});
      }
      partial_floats += run.rows * splits * split_floats;
    }
  }

  const auto cost = [&](const AttentionTask& task) {
    const int64_t row = task.first_row - step.query_starts[task.slice + 1];  // from the slice's last, negative
    const Run run{task.slice, task.first_row, task.rows, step.context_lens[task.slice] + row};
    const int64_t begin = std::max<int64_t>(run.begin(window), task.first_split * kContextSplit);
    const int64_t end = std::min<int64_t>(run.last_position() + 1, (task.first_split + task.splits) * kContextSplit);
    return (end - begin) * (kReadingRows + run.rows * group);
  };
  by_head = rows_share_lines && step.query_starts[step.slices] <= kRowGroup &&
            tokens <= kFewTokens * static_cast<int64_t>(runs.size());
  std::stable_sort(tasks.begin(), tasks.end(), [&](const AttentionTask& a, const AttentionTask& b) {
    if (by_head && a.kv_head != b.kv_head) return a.kv_head < b.kv_head;
    return cost(a) > cost(b);
  });
  const int64_t least = total / (kChunksPerThread * threads);
  int64_t taken = least;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const int64_t next = cost(tasks[i]);
    if (taken + next / 2 >= least) {
      chunks.push_back(static_cast<int32_t>(i));
      taken = 0;
    }
    taken += next;
  }
  chunks.push_back(static_cast<int32_t>(tasks.size()));
}

}  // namespace netgain
