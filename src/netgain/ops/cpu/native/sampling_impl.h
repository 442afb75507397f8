// From a row of logits to a token, without sorting the vocabulary.
//
// Whatever top_k and top_p keep is described by one value, the boundary: all larger logits are kept,
// and of those equal to it the first few. It is found by counting (or summing the probability of)
// what lies above three pivots, keeping the part in which it lies, and again. What is drawn then
// needs one more pass in vocabulary order.
#pragma once

#include "half.h"

namespace netgain {
namespace {

constexpr float kInfinity = __builtin_inff();
constexpr float kLargestFinite = 3.4028234663852886e38f;

// kLanes logits from `at`; what lies behind the last has probability 0.
inline F load_logits(const float* logits, int64_t at, int64_t count) {
  return at + kLanes <= count ? load(logits + at) : load_first(logits + at, count - at, -kInfinity);
}

// NaNs are never the largest. Token 0 where there are only NaNs.
void argmax(const float* logits, int64_t count, float* largest, int32_t* token) {
  // Of each stretch the largest first: the place is then looked for in one of them only.
  constexpr int64_t stretch = 64 * kLanes;
  float best = -kInfinity;
  int64_t place = 0;
  for (int64_t begin = 0; begin < count; begin += stretch) {
    const int64_t end = smaller(begin + stretch, count);
    F most[4] = {set1(-kInfinity), set1(-kInfinity), set1(-kInfinity), set1(-kInfinity)};
    int64_t at = begin;
    for (; at + 4 * kLanes <= end; at += 4 * kLanes) {
      for (int i = 0; i < 4; ++i) most[i] = max(load(logits + at + i * kLanes), most[i]);  // a NaN: most[i]
    }
    for (; at < end; at += kLanes) most[0] = max(load_logits(logits, at, end), most[0]);
    const float of_stretch = reduce_max(max(max(most[0], most[1]), max(most[2], most[3])));
    if (of_stretch > best) {
      best = of_stretch;
      place = begin;
    }
  }
  *largest = best;
  *token = 0;
  for (; place < count; place += kLanes) {
    // What fills up the last vector lies behind every logit, so an equal logit comes first.
    const uint32_t found = bits(equal(load_logits(logits, place, count), set1(best)));
    if (!found) continue;
    const int64_t first = place + __builtin_ctz(found);
    if (first < count) *token = static_cast<int32_t>(first);
    return;
  }
}

// A token's weight is its probability over that of the likeliest: 2 ** ((logit - largest) * steepness),
// within 3 units in the last place for what the exponent rounds to.
struct Probabilities {
  float largest, steepness;

  // Taking the largest off first loses no precision, whatever the temperature. Half the instructions
  // of `exponential`, which keeps more digits of large exponents than the logits here have.
  F operator()(F logits) const {
    const F x = mul(sub(logits, set1(largest)), set1(steepness));
    const F counted = add(x, set1(kCounter));
    const F r = sub(x, sub(counted, set1(kCounter)));
    F p = set1(1.3264727313e-03f);  // 2 ** r - 1 over r, minimax on [-1/2, 1/2]
    p = fma(p, r, set1(9.6715129912e-03f));
    p = fma(p, r, set1(5.5507335812e-02f));
    p = fma(p, r, set1(2.4022242427e-01f));
    p = fma(p, r, set1(6.9314700365e-01f));
    p = fma(p, r, set1(1.0f));
    // Below, and where a logit is NaN: no weight, and what was computed is meaningless.
    return keep(scale_by_counted(p, counted), greater_equal(x, set1(-125.0f)));
  }
};

struct Ones {
  F operator()(F) const { return set1(1.0f); }
};

template <class Weights>
inline float weight_of(const Weights& weights, float logit) {
  float lanes[kLanes];
  store(lanes, weights(set1(logit)));
  return lanes[0];
}

// Of the logits equal to `value` the first `ties` are kept, and all that are larger.
struct Boundary {
  float value;
  int64_t ties;
};

// Vectors that are added in single precision before their sum is, in double precision.
constexpr int kRun = 8;

// Calls `each` for the vectors of every run of the logits in [begin, end), and `after` behind each run.
template <class Each, class After>
inline void for_runs(const float* logits, int64_t begin, int64_t end, const Each& each, const After& after) {
  for (; begin + kRun * kLanes <= end; begin += kRun * kLanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kRun; ++i) each(load(logits + begin + i * kLanes), begin + i * kLanes);
    after();
  }
  if (begin == end) return;
  for (; begin < end; begin += kLanes) each(load_logits(logits, begin, end), begin);
  after();
}

template <class Weights>
inline double sum_of_weights(const float* values, int64_t count, const Weights& weights) {
  Sums sums;
  F run = zero();
  for_runs(
      values, 0, count, [&](F x, int64_t) { run = add(run, weights(x)); },
      [&] {
        accumulate(sums, run);
        run = zero();
      });
  return total(sums);
}

constexpr int kPivots = 3;

// masses[i]: the weight of all values above pivots[i].
template <class Weights>
inline void sum_above(const float* values, int64_t count, const float* pivots, const Weights& weights, double* masses) {
  const F first = set1(pivots[0]), second = set1(pivots[1]), third = set1(pivots[2]);
  Sums sums[kPivots];
  F runs[kPivots] = {zero(), zero(), zero()};
  for_runs(
      values, 0, count,
      [&](F x, int64_t) {
        const F weight = weights(x);
        runs[0] = add(runs[0], keep(weight, greater(x, first)));
        runs[1] = add(runs[1], keep(weight, greater(x, second)));
        runs[2] = add(runs[2], keep(weight, greater(x, third)));
      },
      [&] {
        for (int i = 0; i < kPivots; ++i) {
          accumulate(sums[i], runs[i]);
          runs[i] = zero();
        }
      });
  for (int i = 0; i < kPivots; ++i) masses[i] = total(sums[i]);
}

// Copies what `chosen` takes, in order, and returns how many; `to` has room for `count` and may be
// `from` itself: a vector is written no further than it was read.
template <class Chosen>
inline int64_t copy_chosen(const float* from, int64_t count, float* to, const Chosen& chosen) {
  int64_t copied = 0, at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    const F x = load(from + at);
    const Mask mask = chosen(x);
    if (bits(mask)) copied += compress(to + copied, x, mask);
  }
  if (at < count) {
    float lanes[kLanes];
    // A NaN is never chosen.
    const F x = load_first(from + at, count - at, __builtin_nanf(""));
    const int last = compress(lanes, x, chosen(x));
    for (int i = 0; i < last; ++i) to[copied++] = lanes[i];
  }
  return copied;
}

inline int64_t copy_at_least(const float* from, int64_t count, float* to, float least) {
  const F bound = set1(least);
  return copy_chosen(from, count, to, [&](F x) { return greater_equal(x, bound); });
}
inline int64_t copy_above(const float* from, int64_t count, float* to, float above) {
  const F bound = set1(above);
  return copy_chosen(from, count, to, [&](F x) { return greater(x, bound); });
}
inline int64_t copy_below(const float* from, int64_t count, float* to, float below) {
  const F bound = set1(below);
  return copy_chosen(from, count, to, [&](F x) { return greater(bound, x); });
}
inline int64_t copy_up_to(const float* from, int64_t count, float* to, float most) {
  const F bound = set1(most);
  return copy_chosen(from, count, to, [&](F x) { return greater_equal(bound, x); });
}
inline int64_t copy_between(const float* from, int64_t count, float* to, float above, float up_to) {
  const F low = set1(above), high = set1(up_to);
  return copy_chosen(from, count, to, [&](F x) { return both(greater(x, low), greater_equal(high, x)); });
}

inline void sort_descending(float* values, int64_t count) {
  for (int64_t i = 1; i < count; ++i) {
    const float value = values[i];
    int64_t at = i;
    for (; at > 0 && values[at - 1] < value; --at) values[at] = values[at - 1];
    values[at] = value;
  }
}

// Quartiles of a few of the values, the largest first.
inline void choose_pivots(const float* values, int64_t count, float* pivots) {
  constexpr int sampled = 16;
  float sample[sampled];
  for (int i = 0; i < sampled; ++i) {
    const float value = values[(2 * i + 1) * count / (2 * sampled)];
    sample[i] = value == value ? value : -kInfinity;
  }
  sort_descending(sample, sampled);
  for (int i = 0; i < kPivots; ++i) pivots[i] = sample[(i + 1) * sampled / (kPivots + 1)];
}

// How many of `available` equal weights it takes to reach the goal, at least one.
inline int64_t ties_to_reach(double goal, double weight, int64_t available) {
  if (!(weight * static_cast<double>(available) > goal)) return available;
  auto ties = static_cast<int64_t>(goal / weight);
  if (static_cast<double>(ties) * weight < goal || ties == 0) ++ties;
  return ties;
}

// Where the weights of the values, added from the largest value down, reach `goal`, which is more
// than 0; the smallest value where they do not. `scratch` has room for `count` and may be `values` itself.
template <class Weights>
Boundary find_boundary(const float* values, int64_t count, double goal, const Weights& weights, float* scratch) {
  constexpr int64_t few = 32;
  while (count > few) {
    float pivots[kPivots];
    double masses[kPivots];
    choose_pivots(values, count, pivots);
    sum_above(values, count, pivots, weights, masses);
    int part = 0;
    while (part < kPivots && masses[part] < goal) ++part;
    if (part > 0) goal -= masses[part - 1];
    const float above = part < kPivots ? pivots[part] : -kInfinity, up_to = part > 0 ? pivots[part - 1] : kInfinity;
    const int64_t left =
        part < kPivots ? copy_between(values, count, scratch, above, up_to) : copy_up_to(values, count, scratch, up_to);
    values = scratch;
    if (left < count) {
      count = left;
      continue;
    }
    // Nothing is larger than the last pivot, so many values equal it.
    const int64_t rest = copy_below(values, count, scratch, up_to);
    const double weight = weight_of(weights, up_to);
    const double mass = weight * static_cast<double>(count - rest);
    if (mass >= goal || rest == 0) return {up_to, ties_to_reach(goal, weight, count - rest)};
    goal -= mass;
    count = rest;
  }
  float sorted[few], of_sorted[few + kLanes];
  for (int64_t i = 0; i < few; ++i) sorted[i] = i < count && values[i] == values[i] ? values[i] : -kInfinity;
  sort_descending(sorted, few);
  for (int64_t i = 0; i < few; i += kLanes) store(of_sorted + i, weights(load(sorted + i)));
  double mass = 0.0;
  int64_t reached = 0;
  for (; reached < count; ++reached) {
    mass += of_sorted[reached];
    if (mass >= goal) break;
  }
  if (count == 0) return {-kInfinity, 0};
  if (reached == count) --reached;
  int64_t ties = 1;
  while (ties <= reached && sorted[reached - ties] == sorted[reached]) ++ties;
  return {sorted[reached], ties};
}

// What a draw chooses from: tokens before `ties_end` whose logit is at least `value`, and tokens
// from there on whose logit is at least `behind`, the next larger number.
struct Kept {
  float value, behind;
  int64_t ties_end;

  F bound(int64_t at) const {
    if (at + kLanes <= ties_end) return set1(value);
    if (at >= ties_end) return set1(behind);
    float lanes[kLanes];
    for (int i = 0; i < kLanes; ++i) lanes[i] = at + i < ties_end ? value : behind;
    return load(lanes);
  }
};

inline float next_larger(float value) {
  if (value == 0.0f) return float_of_bits(1);
  return float_of_bits(bits_of_float(value) + (value > 0.0f ? 1u : -1u));
}

// Where the first `ties` logits equal to `value` end.
inline int64_t end_of_ties(const float* logits, int64_t count, float value, int64_t ties) {
  for (int64_t at = 0; at < count && ties > 0; at += kLanes) {
    uint32_t found = bits(equal(load_logits(logits, at, count), set1(value)));
    const int64_t here = __builtin_popcount(found);
    if (here < ties) {
      ties -= here;
      continue;
    }
    for (; ties > 1; --ties) found &= found - 1;
    return smaller(at + __builtin_ctz(found) + 1, count);
  }
  return ties > 0 ? count : 0;
}

// Everything but -infinity and NaN.
inline Kept keep_all(int64_t count) { return {-kLargestFinite, -kLargestFinite, count}; }

inline Kept keep_likeliest(const float* logits, int64_t count, int32_t top_k, float top_p,
                           const Probabilities& probabilities, float* scratch) {
  Boundary boundary = {-kInfinity, 0};
  const bool limited = top_k > 0 && top_k < count;
  if (limited) boundary = find_boundary(logits, count, top_k, Ones{}, scratch);
  if (top_p < 1.0f) {
    double mass;
    int64_t candidates;
    if (limited) {
      candidates = copy_above(logits, count, scratch, boundary.value);
      for (int64_t i = 0; i < boundary.ties; ++i) scratch[candidates++] = boundary.value;
      mass = sum_of_weights(scratch, candidates, probabilities);
    } else {
      // Tokens this unlikely amount to less than 1 - top_p all together: with at most `count` of
      // them, each below (1 - top_p) / (4 * count) of the likeliest.
      mass = sum_of_weights(logits, count, probabilities);
      const double share = (1.0 - static_cast<double>(top_p)) / static_cast<double>(count);
      const double depth = (2.0 - __builtin_log2(share)) / static_cast<double>(probabilities.steepness);
      candidates = copy_at_least(logits, count, scratch, static_cast<float>(probabilities.largest - depth));
    }
    // The likeliest stays whatever top_p is.
    const double goal = mass * static_cast<double>(top_p);
    boundary = find_boundary(scratch, candidates, goal > 1e-300 ? goal : 1e-300, probabilities, scratch);
  }
  return {boundary.value, next_larger(boundary.value), end_of_ties(logits, count, boundary.value, boundary.ties)};
}

// Of the kept those whose probability is at least `min_p` of the likeliest's.
inline Kept keep_likely(const Kept& kept, float min_p, float temperature, float largest) {
  const double depth = static_cast<double>(temperature) * __builtin_log(static_cast<double>(min_p));
  const double bound = static_cast<double>(largest) + depth;
  if (!(bound > -static_cast<double>(kLargestFinite))) return kept;
  auto least = static_cast<float>(bound);
  if (static_cast<double>(least) < bound) least = next_larger(least);
  return least > kept.value ? Kept{least, least, 0} : kept;
}

// Sum of the kept tokens' weights from `begin` to `end`, which is `count` or a multiple of kLanes.
inline double mass_of(const float* logits, int64_t begin, int64_t end, const Kept& kept,
                      const Probabilities& probabilities) {
  Sums sums;
  F run = zero();
  for_runs(
      logits, begin, end,
      [&](F x, int64_t at) {
        const Mask mask = greater_equal(x, kept.bound(at));
        if (bits(mask)) run = add(run, keep(probabilities(x), mask));
      },
      [&] {
        accumulate(sums, run);
        run = zero();
      });
  return total(sums);
}

// The first kept token from `begin` on with which `mass`, the weight of the kept tokens before it,
// exceeds the target; the last that has a weight where rounding left none.
inline int32_t token_at(const float* logits, int64_t begin, int64_t end, const Kept& kept,
                        const Probabilities& probabilities, double mass, double target) {
  int64_t last = begin;
  for (int64_t at = begin; at < end; at += kLanes) {
    const F x = load_logits(logits, at, end);
    float lanes[kLanes];
    store(lanes, keep(probabilities(x), greater_equal(x, kept.bound(at))));
    for (int64_t i = 0; i < smaller(kLanes, end - at); ++i) {
      if (lanes[i] == 0.0f) continue;
      mass += lanes[i];
      last = at + i;
      if (mass > target) return static_cast<int32_t>(last);
    }
  }
  return static_cast<int32_t>(last);
}

// Order: logits / temperature, the `top_k` largest (0: all), of these the likeliest until their
// probability reaches `top_p`, of these the ones at least `min_p` times as likely as the likeliest (0:
// all); equal logits in the order of their ids. Of the kept tokens, in the order of their ids, the
// first whose cumulative probability exceeds `uniform`.
// NaN is taken for -infinity. If the largest logit is infinite, the first that has it is drawn.
int32_t draw(const float* logits, int64_t count, float temperature, int32_t top_k, float top_p, float min_p,
             double uniform, float* scratch) {
  float largest;
  int32_t likeliest;
  argmax(logits, count, &largest, &likeliest);
  if (largest == kInfinity || largest == -kInfinity) return likeliest;
  const float steepness = 1.44269504088896341f / temperature;  // 1 / ln 2
  // Finite, so that 0 times it is 0.
  const Probabilities probabilities = {largest, steepness < kInfinity ? steepness : kLargestFinite};
  const bool limited = (top_k > 0 && top_k < count) || top_p < 1.0f;
  Kept kept = limited ? keep_likeliest(logits, count, top_k, top_p, probabilities, scratch) : keep_all(count);
  if (min_p > 0.0f) kept = keep_likely(kept, min_p, temperature, largest);

  constexpr int64_t most_chunks = 1024, least_tokens = 256;
  double masses[most_chunks];
  const int64_t chunk = least_tokens * ((count + most_chunks * least_tokens - 1) / (most_chunks * least_tokens));
  const int64_t chunks = (count + chunk - 1) / chunk;
  double mass = 0.0;
  for (int64_t c = 0; c < chunks; ++c) {
    masses[c] = mass_of(logits, c * chunk, smaller((c + 1) * chunk, count), kept, probabilities);
    mass += masses[c];
  }
  const double target = uniform * mass;
  double before = 0.0;
  int64_t chosen = 0;  // the last chunk that has any weight, if no sum exceeds the target
  double before_chosen = 0.0;
  for (int64_t c = 0; c < chunks; ++c) {
    if (masses[c] > 0.0) {
      chosen = c;
      before_chosen = before;
    }
    before += masses[c];
    if (before > target) break;
  }
  return token_at(logits, chosen * chunk, smaller((chosen + 1) * chunk, count), kept, probabilities, before_chosen,
                  target);
}

// How many logits come before the token's: larger ones, and equal ones of lower id.
inline int64_t count_before(const float* logits, int64_t count, int32_t token) {
  const float own = logits[token];
  if (own != own) return count - 1;
  const F value = set1(own);
  int64_t before = 0;
  for (int64_t at = 0; at < count; at += kLanes) {
    const F x = load_logits(logits, at, count);
    before += __builtin_popcount(bits(greater(x, value)));
    if (at >= token) continue;
    uint32_t equals = bits(equal(x, value));
    if (token - at < kLanes) equals &= (1u << (token - at)) - 1u;
    before += __builtin_popcount(equals);
  }
  return before;
}

// The ids of the `tops` largest, the largest first, of equal ones the lowest id; how many there are.
inline int32_t largest_ids(const float* logits, int64_t count, int32_t tops, int32_t* ids, float* scratch) {
  Boundary boundary = find_boundary(logits, count, tops, Ones{}, scratch);
  const F bound = set1(boundary.value);
  int32_t found = 0;
  for (int64_t at = 0; at < count; at += kLanes) {
    // What fills up the last vector may seem to reach a bound of -infinity.
    uint32_t reach = bits(greater_equal(load_logits(logits, at, count), bound));
    for (; reach; reach &= reach - 1) {
      const int64_t id = at + __builtin_ctz(reach);
      if (id >= count) break;
      if (logits[id] == boundary.value && boundary.ties-- <= 0) continue;
      if (found == tops) break;
      int32_t place = found++;
      for (; place > 0 && logits[ids[place - 1]] < logits[id]; --place) ids[place] = ids[place - 1];
      ids[place] = static_cast<int32_t>(id);
    }
  }
  return found;
}

// Log-probability and rank of a token, and the `tops` likeliest with theirs; places that a small
// vocabulary leaves over get id -1. NaN is taken for -infinity. If the largest logit is infinite,
// tokens that have it count as certain.
void score(const float* logits, int64_t count, int32_t token, int32_t tops, float* logprob, int32_t* rank,
           int32_t* top_ids, float* top_logprobs, float* scratch) {
  float largest;
  int32_t likeliest;
  argmax(logits, count, &largest, &likeliest);
  const bool finite = largest < kInfinity && largest > -kInfinity;
  const Probabilities probabilities = {largest, 1.44269504088896341f};  // 1 / ln 2
  const double log_sum = finite ? __builtin_log(sum_of_weights(logits, count, probabilities)) : 0.0;
  const auto log_of = [&](float logit) {
    if (!finite) return logit == largest ? 0.0f : -kInfinity;
    if (!(logit > -kInfinity)) return -kInfinity;
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(largest) - log_sum);
  };
  *logprob = log_of(logits[token]);
  *rank = static_cast<int32_t>(count_before(logits, count, token) + 1);
  if (tops <= 0) return;
  const int32_t found = largest_ids(logits, count, tops, top_ids, scratch);
  for (int32_t i = 0; i < tops; ++i) {
    if (i >= found) top_ids[i] = -1;
    top_logprobs[i] = i < found ? log_of(logits[top_ids[i]]) : -kInfinity;
  }
}

}  // namespace
}  // namespace netgain
