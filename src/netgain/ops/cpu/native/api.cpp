// The C functions that Python calls. None throws: what can fail returns null or -1.
#include <new>
#include <utility>

#include "api.h"
#include "dispatch.h"
#include "plan.h"

namespace {
using netgain::Plan;
using netgain::Pool;
}  // namespace

NETGAIN_API Pool* ng_pool_create(int threads, const int* cpus, int count) {
  try {
    return new Pool(threads, std::vector<int>(cpus, cpus + count));
  } catch (...) {
    return nullptr;
  }
}

NETGAIN_API void ng_pool_destroy(Pool* pool) { delete pool; }

NETGAIN_API Plan* ng_plan_create(Pool* pool, int64_t max_tokens, int64_t vocabulary, const float* inverse_frequencies,
                                 int64_t pairs) {
  try {
    return new Plan(*pool, netgain::kernels(), max_tokens, vocabulary, inverse_frequencies, pairs);
  } catch (...) {
    return nullptr;
  }
}

NETGAIN_API void ng_plan_destroy(Plan* plan) { delete plan; }

NETGAIN_API int ng_plan_group(Plan* plan, const netgain::NgGroup* group) {
  try {
    return plan->add_group(*group);
  } catch (...) {
    return -1;
  }
}

NETGAIN_API int ng_plan_value(Plan* plan, int64_t capacity, int64_t columns, int form, int logit_rows) {
  try {
    return plan->add_value(capacity, columns, form, logit_rows != 0);
  } catch (...) {
    return -1;
  }
}

NETGAIN_API int ng_plan_op(Plan* plan, const netgain::NgOp* op) {
  try {
    plan->add(*op);
    return 0;
  } catch (...) {
    return -1;
  }
}

NETGAIN_API int ng_plan_finish(Plan* plan, int logits) {
  try {
    plan->finish(logits);
    return 0;
  } catch (...) {
    return -1;
  }
}

// 0; before the step began, -1 when memory ran out, -2 for a token id outside the vocabulary.
NETGAIN_API int ng_plan_run(Plan* plan, const netgain::NgStep* step) {
  try {
    return plan->run(*step) ? 0 : -2;
  } catch (...) {
    return -1;
  }
}

NETGAIN_API void ng_plan_time(Plan* plan, int on) { plan->time_phases(on != 0); }

// Kinds and nanoseconds of up to `most` phases since they were last emptied; returns how many there
// are,
// or -1.
NETGAIN_API int ng_plan_timings(Plan* plan, int32_t* kinds, int64_t* nanoseconds, int most, int empty) {
  try {
    const auto timings = plan->timings(empty != 0);
    for (size_t i = 0; i < timings.size() && i < static_cast<size_t>(most); ++i) {
      kinds[i] = timings[i].first;
      nanoseconds[i] = timings[i].second;
    }
    return static_cast<int>(timings.size());
  } catch (...) {
    return -1;
  }
}
