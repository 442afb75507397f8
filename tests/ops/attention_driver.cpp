// What the attention tests call: one step's kernels of one instruction set, run task by task.
#include <limits>
#include <vector>

#include "attention_plan.h"
#if defined(__AVX512F__)
#include "vector_avx512.h"
#elif defined(__AVX2__)
#include "vector_avx2.h"
#else
#include "vector_plain.h"
#endif
#include "common_impl.h"
#include "attention_impl.h"

using namespace netgain;

// Runs `batch` tasks per call, the last first if `backwards`. Memory that no kernel may rely on
// starts as not-a-number. Returns how many partial results were merged.
extern "C" __attribute__((visibility("default"))) int64_t run_step(const AttentionArgs* given, int64_t tokens,
                                                                   int threads, int64_t batch, int backwards) {
  AttentionArgs args = *given;
  rope_and_store(args, 0, tokens);
  AttentionPlan plan;
  plan.build(args.step, args.heads, args.layout, args.window, threads);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> partials(static_cast<size_t>(plan.partial_floats), nan);
  std::vector<float> scratch(static_cast<size_t>(attention_scratch_floats(args)), nan);
  args.partials = partials.data();
  const auto count = static_cast<int64_t>(plan.tasks.size());
  const int64_t chunks = (count + batch - 1) / batch;
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t begin = (backwards ? chunks - 1 - i : i) * batch;
    attend(args, plan.tasks.data() + begin, smaller(batch, count - begin), scratch.data());
  }
  merge(args, plan.merges.data(), static_cast<int64_t>(plan.merges.size()));
  return static_cast<int64_t>(plan.merges.size());
}
