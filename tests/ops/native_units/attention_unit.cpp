// NETGAIN_VECTOR: the vectors of one instruction set, and whether it has a matrix unit.
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
// tokens, threads, batch, backwards, quantised), scale, query starts, context lengths, tables,
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
  args.out = quantized_rows(buffers, 12, heads * dim, 0);
  netgain::rope_and_store(args, 0, tokens);

  netgain::AttentionPlan plan;
  plan.build(args.step, heads, args.layout, args.window, static_cast<int>(sizes[11]));
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

const Entry kEntries[] = {{"run_step", run_step}, {nullptr, nullptr}};
