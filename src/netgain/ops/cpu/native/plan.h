// A forward pass recorded once and replayed for every step.
#pragma once

#include <memory>
#include <vector>

#include "attention_plan.h"
#include "division.h"
#include "kernels.h"
#include "pool.h"

namespace netgain {

// Structures up to `NgStep` are filled by Python (ops/cpu/plan_abi.py mirrors them field by field).
extern "C" {

enum NgOpKind : int32_t {
  kNgEmbed = 0,      // out[T] = rows of `matrix`
  kNgNorm = 1,       // out = rms_norm(in)
  kNgQuantize = 2,   // out (quantised) = in
  kNgLinear = 3,     // out = in @ matrix.T + bias (+ residual)
  kNgGated = 4,      // out = activation(in @ gate.T) * (in @ up.T)
  kNgAttention = 5,  // rotates and stores in[T]'s keys and values; out[T] = attention
  kNgLogitRows = 6,  // out[N] = rows of in[T]
};

struct NgOp {
  int32_t kind;
  int32_t in, out, residual;  // value ids; residual -1: none
  int32_t weight_format;
  int32_t activation;
  int64_t rows, columns;      // of the matrix
  const uint8_t* data;
  const float* bias;
  const float* gain;
  float eps;
  int32_t group;
  int64_t layer, heads, window;
};

struct NgGroup {
  int32_t format;
  int64_t layers, kv_heads, head_dim, block_tokens;
  uint8_t* records;
};

// What a row's logits go through before it is drawn from (`Shaping` in ops/draws.py).
struct NgShaping {
  const int32_t* bias_ids;
  const float* bias;
  const int32_t* banned_ids;
  const int32_t* seen_ids;
  const int32_t* seen_counts;
  int64_t biases, banned, seen;
  float repetition, frequency, presence;
};

struct NgStep {
  int64_t tokens, slices, logit_rows;
  const int32_t* token_ids;
  const int32_t* positions;
  const int32_t* query_starts;
  const int32_t* context_lens;
  const int32_t* logit_row_ids;
  const int32_t* const* tables;      // per group
  const int64_t* table_strides;      // per group
  float* logits;                     // [N][V] when the caller wants them, else null
  const float* temperatures;         // null: no tokens are drawn
  const int32_t* top_k;
  const float* top_p;
  const uint64_t* seeds;
  const int64_t* draw_positions;
  int32_t* drawn;                    // [head rows]; behind the drawn ones: given, to be scored
  // The first of the N logit rows are drawn from, the next scored, of the others the hidden state is wanted.
  int64_t drawn_rows, head_rows;
  const float* min_p;                // [drawn rows]; null: 0 for all
  const NgShaping* shapings;
  const int32_t* shaping_of;         // [drawn rows] index into `shapings`, -1: none; null: none for all
  const int32_t* tops;               // [head rows] likeliest wanted, -1: not scored; null: none is
  int64_t top_stride;
  float* logprobs;                   // [head rows], and so the next ones
  int32_t* ranks;
  int32_t* top_ids;                  // [head rows][top_stride]
  float* top_logprobs;
  float* hidden;                     // [N - head rows][columns of the head]
};

}  // extern "C"

class Plan final : public Program {
 public:
  Plan(Pool& pool, const Kernels& kernels, int64_t max_tokens, int64_t vocabulary, const float* inverse_frequencies,
       int64_t pairs);

  int add_group(const NgGroup& group);
  // Memory for one value: [tokens or logit rows, at most `capacity`][columns]. `form`: 0 float32, else a Rounding.
  int add_value(int64_t capacity, int64_t columns, int form, bool logit_rows);
  void add(const NgOp& op);
  // `logits`: the value that draws read, the last operation's result. If that is a linear layer, a
  // step may have more rows than the value: they are computed, drawn from and scored group by group.
  void finish(int logits);

  // False, and nothing done, if a token id is outside the vocabulary.
  bool run(const NgStep& step);

  // What each phase is (its operation's kind * 8 + its part, or the negative part) and nanoseconds
  // spent in it.
  std::vector<std::pair<int, int64_t>> timings(bool empty);
  void time_phases(bool on) { timed_ = on; }

  int phases() const override { return static_cast<int>(phases_.size()) + 2 * (row_groups_ - 1); }
  int chunks(int phase) override;
  void execute(int phase, int chunk, int worker) override;
  void finished(int phase) override;

 private:
  enum class Part : int32_t { kAngles = -1, kMain = 0, kStore = 1, kAttend = 2, kMerge = 3, kHidden = 4, kDraw = -2 };
  struct Phase {
    Part part;
    int op;        // index into ops_, or -1
    Division cut{};  // set when the phase opens
    int64_t nanoseconds = 0;
  };
  struct Value {
    int64_t capacity, columns;  // rows, features
    bool quantized, logit_rows;
    float* x;            // null if quantised: `rows` is used then
    QuantizedRows rows;
  };
  struct Group {
    NgGroup spec;
    KVLayout layout;
    AttentionPlan attention;  // of this step
    StepView view;
  };
  struct Free {
    void operator()(void* memory) const;
  };

  template <class T>
  T* allocate(int64_t count);
  int64_t rows_of(const Value& value) const { return value.logit_rows ? step_->logit_rows : step_->tokens; }
  Value value(int id) const;
  bool is_head(const NgOp& op) const { return linear_head_ && &op == &ops_.back(); }
  LinearArgs linear_args(const NgOp& op, int64_t first_row) const;
  NormArgs norm_args(const NgOp& op) const;
  AttentionArgs attention_args(const NgOp& op) const;
  int64_t spread(int64_t chunk, int64_t chunks) const;
  Division divide(const Phase& phase, int index) const;
  Division divide_rows(int64_t rows, int64_t row_work) const;
  // The last two phases, head and draw, return for every further group of rows.
  int first_of_group() const { return static_cast<int>(phases_.size()) - 2; }
  Phase& phase(int index);
  int64_t first_row_of(int index) const;
  int64_t head_rows_from(int64_t first) const;
  void hidden(const NgOp& op, int64_t begin, int64_t end) const;
  void angles(int64_t begin, int64_t end);
  void draw(int64_t first, int64_t begin, int64_t end, int worker);

  Pool& pool_;
  const Kernels& kernels_;
  const int64_t vocabulary_, pairs_;
  std::vector<float> inverse_frequencies_;
  std::vector<NgOp> ops_;
  std::vector<Phase> phases_;
  std::vector<Value> values_;
  std::vector<Group> groups_;
  std::vector<std::unique_ptr<void, Free>> memory_;
  std::vector<std::vector<float>> scratch_;  // per worker
  std::vector<std::vector<float>> shaped_;   // per worker: logits as they were before they were shaped
  std::vector<float> partials_;
  std::vector<int32_t> slice_of_;
  float *cosines_, *sines_;
  int logits_ = -1;
  bool linear_head_ = false;
  int row_groups_ = 1;          // of this step
  int64_t group_rows_ = 0;
  int64_t token_limit_ = 0;  // rows of the embedding
  const NgStep* step_ = nullptr;
  bool timed_ = false;
  int64_t phase_began_ = 0;
};

}  // namespace netgain
