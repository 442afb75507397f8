// Bias, bans and penalties: a few logits of one row are changed for its draw, and put back.
#pragma once

#include "plan.h"

namespace netgain {

// Logits that a shaping changes, counted as often as it does.
inline int64_t touched(const NgShaping& shaping) { return shaping.biases + shaping.banned + shaping.seen; }

// Calls `each(id, place)` for the ids within the vocabulary; the place counts all of them.
template <class Each>
inline void for_ids(const int32_t* ids, int64_t count, int64_t vocabulary, int64_t place, const Each& each) {
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] >= 0 && ids[i] < vocabulary) each(i, place + i);
  }
}

// The order is that of `ops/draws.py`. `before`: room for `touched` floats, what the logits were.
inline void shape(const NgShaping& shaping, float* logits, int64_t vocabulary, float* before) {
  for_ids(shaping.bias_ids, shaping.biases, vocabulary, 0, [&](int64_t i, int64_t place) {
    float& logit = logits[shaping.bias_ids[i]];
    before[place] = logit;
    logit += shaping.bias[i];
  });
  for_ids(shaping.banned_ids, shaping.banned, vocabulary, shaping.biases, [&](int64_t i, int64_t place) {
    float& logit = logits[shaping.banned_ids[i]];
    before[place] = logit;
    logit = -__builtin_inff();
  });
  for_ids(shaping.seen_ids, shaping.seen, vocabulary, shaping.biases + shaping.banned, [&](int64_t i, int64_t place) {
    float& logit = logits[shaping.seen_ids[i]];
    before[place] = logit;
    logit = logit > 0.0f ? logit / shaping.repetition : logit * shaping.repetition;
    const int32_t count = shaping.seen_counts[i];
    if (count <= 0) return;  // in the prompt only
    logit -= shaping.frequency * static_cast<float>(count);
    logit -= shaping.presence;
  });
}

// Undoes `shape`, the last change first: an id may be in more than one list.
inline void unshape(const NgShaping& shaping, float* logits, int64_t vocabulary, const float* before) {
  const auto restore = [&](const int32_t* ids, int64_t count, int64_t place) {
    for_ids(ids, count, vocabulary, place, [&](int64_t i, int64_t saved) { logits[ids[i]] = before[saved]; });
  };
  restore(shaping.seen_ids, shaping.seen, shaping.biases + shaping.banned);
  restore(shaping.banned_ids, shaping.banned, shaping.biases);
  restore(shaping.bias_ids, shaping.biases, 0);
}

}  // namespace netgain
