// NETGAIN_VECTOR: the vectors of one instruction set, and whether it has a matrix unit.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels.h"
#include NETGAIN_VECTOR
#include "common_impl.h"
#include "attention_impl.h"
#include "attention_plan.cpp"
#include "quantized_rows.h"
#include "unit.h"

// Stores and attends for one step, `batch` tasks a call, the last first if `backwards`. Memory that
// no kernel may rely on starts as not-a-number.
// sizes (slices, table_stride, format, layers, kv_heads, head_dim, block_tokens, layer, heads, window,
// tokens, threads, batch, backwards, 0 or rounding, rows share lines), scale, query starts, context lengths, tables,
// positions, slice_of, records, qkv, cosines, sines, y, then values, scales, offsets, scaled sums, merges
NETGAIN_TEST void run_step(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 0);
  const int64_t kv_heads = sizes[4], dim = sizes[5], heads = sizes[8], tokens = sizes[10], batch = sizes[12];
  netgain::AttentionArgs args{};
  args.step = {sizes[0], array<int32_t>(buffers, 2), array<int32_t>(buffers, 3), array<int32_t>(buffers, 4),
               sizes[1], array<int32_t>(buffers, 5), array<int32_t>(buffers, 6), array<uint8_t>(buffers, 7)};
  args.layout = {static_cast<netgain::KVFormat>(sizes[2]), sizes[3], kv_heads, dim, sizes[6]};
  args.layer = sizes[7];
  args.heads = heads;
  args.window = sizes[9];
  args.scale = scalar<float>(buffers, 1);
  args.qkv = array<float>(buffers, 8);
  args.qkv_stride = (heads + 2 * kv_heads) * dim;
  args.cosines = array<float>(buffers, 9);
  args.sines = array<float>(buffers, 10);
  args.y = sizes[14] ? nullptr : array<float>(buffers, 11);
  args.y_stride = heads * dim;
  args.out = quantized_rows(buffers, 12, heads * dim, static_cast<netgain::Rounding>(sizes[14]), 0);
  netgain::rope_and_store(args, 0, tokens);

  netgain::AttentionPlan plan;
  plan.build(args.step, heads, args.layout, args.window, static_cast<int>(sizes[11]), sizes[15] != 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> partials(static_cast<size_t>(plan.partial_floats), nan);
  std::vector<float> scratch(static_cast<size_t>(netgain::attention_scratch_floats(args)), nan);
  args.partials = partials.data();
  const auto count = static_cast<int64_t>(plan.tasks.size()), chunks = (count + batch - 1) / batch;
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t begin = (sizes[13] ? chunks - 1 - i : i) * batch;
    netgain::attend(args, plan.tasks.data() + begin, netgain::smaller(batch, count - begin), scratch.data());
  }
  *array<int64_t>(buffers, 16) = static_cast<int64_t>(plan.merges.size());
  netgain::merge(args, plan.merges.data(), static_cast<int64_t>(plan.merges.size()));
}

// How the tasks of one token for each slice are divided.
// sizes (slices, kv_heads, heads, head_dim, window, threads, rows share lines), query starts, context lengths, then of each task slice, head and
// tokens, the first task of each chunk and the end, counts of tasks and chunks, and whether they go head by head
NETGAIN_TEST void divide_step(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 0);
  netgain::StepView step{};
  step.slices = sizes[0];
  step.query_starts = array<int32_t>(buffers, 1);
  step.context_lens = array<int32_t>(buffers, 2);
  netgain::AttentionPlan plan;
  plan.build(step, sizes[2], {netgain::KVFormat::kFp16, 1, sizes[1], sizes[3], 16}, sizes[4],
             static_cast<int>(sizes[5]), sizes[6] != 0);
  int64_t* task_to = array<int64_t>(buffers, 3);
  for (const netgain::AttentionTask& task : plan.tasks) {
    const int64_t length = step.context_lens[task.slice], first = task.first_split * netgain::kContextSplit;
    const int64_t seen = sizes[4] > 0 && length > sizes[4] ? length - sizes[4] : 0;
    const int64_t end = first + task.splits * netgain::kContextSplit;
    *task_to++ = task.slice;
    *task_to++ = task.kv_head;
    *task_to++ = std::min(end, length) - std::max(first, seen);
  }
  int64_t* chunk_to = array<int64_t>(buffers, 4);
  for (const int32_t first : plan.chunks) *chunk_to++ = first;
  int64_t* counts = array<int64_t>(buffers, 5);
  counts[0] = static_cast<int64_t>(plan.tasks.size());
  counts[1] = static_cast<int64_t>(plan.chunks.size()) - 1;
  counts[2] = plan.by_head;
}

const Entry kEntries[] = {{"run_step", run_step}, {"divide_step", divide_step}, {nullptr, nullptr}};
