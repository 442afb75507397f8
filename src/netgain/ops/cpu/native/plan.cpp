#include "plan.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "philox.h"
#include "shaping.h"

namespace netgain {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kChunksPerThread = 4;  // of what goes row by row

int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

Matrix matrix_of(const NgOp& op) {
  return {static_cast<WeightFormat>(op.weight_format), op.rows, op.columns, op.data, op.bias};
}

}  // namespace

void Plan::Free::operator()(void* memory) const { std::free(memory); }

// Zero pages of the system, resident only once written.
template <class T>
T* Plan::allocate(int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T) + kCacheLine;
  void* memory = std::calloc(1, bytes);
  if (!memory) throw std::bad_alloc();
  memory_.emplace_back(memory);
  auto address = reinterpret_cast<uintptr_t>(memory);
  return reinterpret_cast<T*>(round_up(static_cast<int64_t>(address), kCacheLine));
}

Plan::Plan(Pool& pool, const Kernels& kernels, int64_t max_tokens, int64_t vocabulary, const float* inverse_frequencies,
           int64_t pairs)
    : pool_(pool),
      kernels_(kernels),
      vocabulary_(vocabulary),
      pairs_(pairs),
      inverse_frequencies_(inverse_frequencies, inverse_frequencies + pairs),
      scratch_(static_cast<size_t>(pool.threads())),
      shaped_(static_cast<size_t>(pool.threads())),
      cosines_(allocate<float>(max_tokens * pairs)),
      sines_(allocate<float>(max_tokens * pairs)) {
  phases_.push_back({Part::kAngles, -1});
}

int Plan::add_group(const NgGroup& spec) {
  Group group{};
  group.spec = spec;
  group.layout = {static_cast<KVFormat>(spec.format), spec.layers, spec.kv_heads, spec.head_dim, spec.block_tokens};
  groups_.push_back(std::move(group));
  return static_cast<int>(groups_.size()) - 1;
}

int Plan::add_value(int64_t capacity, int64_t columns, int form, bool logit_rows) {
  Value value{capacity, columns, form != 0, logit_rows, nullptr, {}};
  if (value.quantized) {
    const int64_t blocks = ceil_div(columns, kBlock);
    const int64_t groups = round_up(capacity, kRowGroup) * blocks;
    value.rows = {allocate<int8_t>(groups * kBlockValues),
                  allocate<float>(groups),
                  allocate<int32_t>(groups),
                  allocate<float>(groups),
                  blocks,
                  static_cast<Rounding>(form),
                  0};
  } else {
    value.x = allocate<float>(capacity * columns);
  }
  values_.push_back(value);
  return static_cast<int>(values_.size()) - 1;
}

void Plan::add(const NgOp& op) {
  if (op.kind == kNgLinear || op.kind == kNgGated) {
    const auto format = static_cast<WeightFormat>(op.weight_format);
    const Value& in = values_[static_cast<size_t>(op.in)];
    if (in.quantized != is_quantized(format) || (in.quantized && in.rows.rounding != rounding_for(format))) {
      throw std::invalid_argument("a matrix reads activations in another form");
    }
  }
  const int index = static_cast<int>(ops_.size());
  ops_.push_back(op);
  if (op.kind == kNgEmbed) token_limit_ = op.rows;
  if (op.kind == kNgAttention) {
    for (Part part : {Part::kStore, Part::kAttend, Part::kMerge}) phases_.push_back({part, index});
  } else {
    phases_.push_back({Part::kMain, index});
  }
}

void Plan::finish(int logits) {
  logits_ = logits;
  linear_head_ = ops_.back().kind == kNgLinear && ops_.back().residual < 0;
  // What the head reads is the hidden state; it may be kept quantised only, so it is made once more.
  int norm = static_cast<int>(ops_.size()) - 2;
  while (norm >= 0 && ops_[static_cast<size_t>(norm)].kind == kNgQuantize) --norm;
  if (linear_head_ && norm >= 0 && ops_[static_cast<size_t>(norm)].kind == kNgNorm) {
    const auto after = std::find_if(phases_.begin(), phases_.end(), [&](const Phase& p) { return p.op == norm; }) + 1;
    phases_.insert(after, {Part::kHidden, norm});
  }
  phases_.push_back({Part::kDraw, -1});
}

bool Plan::run(const NgStep& step) {
  for (int64_t t = 0; t < step.tokens; ++t) {
    if (step.token_ids[t] < 0 || step.token_ids[t] >= token_limit_) return false;
  }
  group_rows_ = step.logits ? step.head_rows : values_[static_cast<size_t>(logits_)].capacity;
  row_groups_ = 1;
  if (step.head_rows > group_rows_) {
    if (!linear_head_) throw std::bad_alloc();
    group_rows_ = group_rows_ / kRowGroup * kRowGroup;  // where quantised rows can be cut
    row_groups_ = static_cast<int>(ceil_div(step.head_rows, group_rows_));
  }
  int64_t most_shaped = 0;
  if (step.shaping_of) {
    for (int64_t row = 0; row < step.drawn_rows; ++row) {
      if (step.shaping_of[row] >= 0) most_shaped = std::max(most_shaped, touched(step.shapings[step.shaping_of[row]]));
    }
  }
  for (auto& shaped : shaped_) {
    if (shaped.size() < static_cast<size_t>(most_shaped)) shaped.resize(static_cast<size_t>(most_shaped));
  }
  step_ = &step;
  for (Value& value : values_) {
    const int64_t rows = rows_of(value);
    value.rows.pair_rows = kernels_.codes == CodeLayout::kByOutput && rows > 1 && rows <= kRowGroup ? rows : 0;
  }
  if (slice_of_.size() < static_cast<size_t>(step.tokens)) slice_of_.resize(static_cast<size_t>(step.tokens));
  for (int64_t r = 0; r < step.slices; ++r) {
    std::fill(slice_of_.begin() + step.query_starts[r], slice_of_.begin() + step.query_starts[r + 1],
              static_cast<int32_t>(r));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    group.view = {step.slices,           step.query_starts, step.context_lens, step.tables[g],
                  step.table_strides[g], step.positions,    slice_of_.data(),  group.spec.records};
  }
  int64_t partials = 0;
  for (const NgOp& op : ops_) {
    if (op.kind != kNgAttention) continue;
    Group& group = groups_[static_cast<size_t>(op.group)];
    if (op.layer == 0 || group.attention.tasks.empty()) {
      group.attention.build(group.view, op.heads, group.layout, op.window, pool_.threads(),
                            kernels_.codes == CodeLayout::kByOutput);
    }
    partials = std::max(partials, group.attention.partial_floats);
    const auto floats = static_cast<size_t>(kernels_.attention_scratch_floats(attention_args(op)));
    for (auto& scratch : scratch_) {
      if (scratch.size() < floats) scratch.resize(floats);
    }
  }
  if (step.temperatures) {
    for (auto& scratch : scratch_) {
      if (scratch.size() < static_cast<size_t>(vocabulary_)) scratch.resize(static_cast<size_t>(vocabulary_));
    }
  }
  if (partials_.size() < static_cast<size_t>(partials)) partials_.resize(static_cast<size_t>(partials));
  if (timed_) phase_began_ = now_ns();
  pool_.run(*this);
  for (Group& group : groups_) group.attention.clear();
  step_ = nullptr;
  return true;
}

std::vector<std::pair<int, int64_t>> Plan::timings(bool empty) {
  std::vector<std::pair<int, int64_t>> timings;
  for (Phase& phase : phases_) {
    int kind = phase.op < 0 ? static_cast<int>(phase.part)
                            : ops_[static_cast<size_t>(phase.op)].kind * 8 + static_cast<int>(phase.part);
    timings.emplace_back(kind, phase.nanoseconds);
    if (empty) phase.nanoseconds = 0;
  }
  return timings;
}

// Chunks are taken in order, by one thread after another: so that each finds the weights it fetched ahead
// and the rows it worked on before, chunk i is of the part that belongs to thread i modulo their number.
int64_t Plan::spread(int64_t chunk, int64_t chunks) const {
  const int64_t threads = pool_.threads(), share = chunks / threads, thread = chunk % threads;
  if (chunk >= share * threads) return chunk;
  return thread * share + chunk / threads;
}

// `row_work`: floats read or written per row.
Division Plan::divide_rows(int64_t rows, int64_t row_work) const {
  Division cut;
  if (rows == 0) return cut;
  const int64_t least = std::max<int64_t>(1, static_cast<int64_t>(kLeastChunkNs) * 4 / row_work);
  cut.row_chunk = std::max({least, ceil_div(rows, kChunksPerThread * pool_.threads()), ceil_div(rows, kMostChunks)});
  cut.row_chunks = ceil_div(rows, cut.row_chunk);
  return cut;
}

Plan::Phase& Plan::phase(int index) {
  const int first = first_of_group();
  return phases_[static_cast<size_t>(index < first ? index : first + (index - first) % 2)];
}

// The first logit row of the group that a phase works on.
int64_t Plan::first_row_of(int index) const {
  const int first = first_of_group();
  return index < first ? 0 : (index - first) / 2 * group_rows_;
}

int64_t Plan::head_rows_from(int64_t first) const { return std::min(group_rows_, step_->head_rows - first); }

int Plan::chunks(int index) {
  Phase& phase = this->phase(index);
  if (phase.part == Part::kAttend) {
    const NgOp& op = ops_[static_cast<size_t>(phase.op)];
    return static_cast<int>(groups_[static_cast<size_t>(op.group)].attention.chunks.size()) - 1;
  }
  phase.cut = divide(phase, index);
  return static_cast<int>(phase.cut.chunks());
}

Division Plan::divide(const Phase& phase, int index) const {
  if (phase.part == Part::kAngles) return divide_rows(step_->tokens, pairs_ * 20);
  if (phase.part == Part::kDraw) {
    return step_->temperatures ? divide_rows(head_rows_from(first_row_of(index)), vocabulary_) : Division();
  }
  const NgOp& op = ops_[static_cast<size_t>(phase.op)];
  const Value& out = values_[static_cast<size_t>(op.out)];
  if (phase.part == Part::kHidden) {
    return step_->hidden ? divide_rows(step_->logit_rows - step_->head_rows, out.columns) : Division();
  }
  if (phase.part == Part::kMerge) {
    Division cut;
    const auto merges = static_cast<int64_t>(groups_[static_cast<size_t>(op.group)].attention.merges.size());
    cut.row_chunk = std::max<int64_t>(1, merges / (kChunksPerThread * pool_.threads()));
    cut.row_chunks = ceil_div(merges, cut.row_chunk);
    return cut;
  }
  const int64_t rows = is_head(op) ? head_rows_from(first_row_of(index)) : rows_of(out);
  const Matrix matrix = matrix_of(op);
  const auto products = [&](int64_t units, int64_t unit_tiles, int64_t together) {
    return divide_products(matrix, units, unit_tiles, together, rows, kernels_.cutting, pool_.threads());
  };
  switch (op.kind) {
    case kNgLinear: return products(matrix.tiles(), 1, kernels_.cutting.tiles);
    case kNgGated: return products(ceil_div(matrix.rows / 2, kScaled), 2 * kScaled / kTile, 1);
    case kNgAttention: return divide_rows(rows, values_[static_cast<size_t>(op.in)].columns);
    default: return divide_rows(rows, out.columns);
  }
}

void Plan::execute(int index, int chunk, int worker) {
  const Phase& phase = this->phase(index);
  const Division& cut = phase.cut;
  if (phase.part == Part::kAngles) {
    return angles(chunk * cut.row_chunk, std::min(step_->tokens, (chunk + 1) * cut.row_chunk));
  }
  if (phase.part == Part::kDraw) {
    const int64_t first = first_row_of(index);
    const int64_t end = std::min(head_rows_from(first), (chunk + 1) * cut.row_chunk);
    return draw(first, chunk * cut.row_chunk, end, worker);
  }
  const NgOp& op = ops_[static_cast<size_t>(phase.op)];
  if (phase.part == Part::kHidden) {
    const int64_t rows = step_->logit_rows - step_->head_rows;
    return hidden(op, chunk * cut.row_chunk, std::min(rows, (chunk + 1) * cut.row_chunk));
  }
  const Value& in = values_[static_cast<size_t>(op.in)];
  const Value out = value(op.out);
  if (op.kind == kNgAttention && phase.part != Part::kStore) {
    const AttentionPlan& plan = groups_[static_cast<size_t>(op.group)].attention;
    if (phase.part == Part::kAttend) {
      const auto place =
          static_cast<size_t>(plan.by_head ? spread(chunk, static_cast<int64_t>(plan.chunks.size()) - 1) : chunk);
      const int32_t begin = plan.chunks[place], count = plan.chunks[place + 1] - begin;
      return kernels_.attend(attention_args(op), plan.tasks.data() + begin, count,
                             scratch_[static_cast<size_t>(worker)].data());
    }
    const int64_t begin = chunk * cut.row_chunk;
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(plan.merges.size()), begin + cut.row_chunk);
    return kernels_.merge(attention_args(op), plan.merges.data() + begin, end - begin);
  }
  const int64_t first = is_head(op) ? first_row_of(index) : 0;
  const int64_t rows = is_head(op) ? head_rows_from(first) : rows_of(out);
  const int64_t place = spread(chunk, cut.chunks()), unit_chunk = place % cut.unit_chunks;
  const int64_t row_begin = place / cut.unit_chunks * cut.row_chunk;
  const int64_t row_end = std::min(rows, row_begin + cut.row_chunk);
  const int64_t unit_begin = cut.first_unit(unit_chunk), unit_end = cut.first_unit(unit_chunk + 1);
  switch (op.kind) {
    case kNgEmbed: return kernels_.embed(matrix_of(op), step_->token_ids, out.x, out.columns, row_begin, row_end);
    case kNgNorm: return kernels_.rms_norm(norm_args(op), row_begin, row_end);
    case kNgQuantize: return kernels_.quantize(in.x, in.columns, in.columns, out.rows, row_begin, row_end);
    case kNgLinear: {
      const LinearArgs args = linear_args(op, first);
      return kernels_.linear(args, row_begin, row_end, unit_begin, unit_end);
    }
    case kNgGated: {
      GatedArgs args{linear_args(op, 0), static_cast<Activation>(op.activation), out.rows};
      return kernels_.gated(args, row_begin, row_end, unit_begin, unit_end);
    }
    case kNgAttention: return kernels_.rope_and_store(attention_args(op), row_begin, row_end);
    case kNgLogitRows:
      for (int64_t row = row_begin; row < row_end; ++row) {
        std::memcpy(out.x + row * out.columns, in.x + step_->logit_row_ids[row] * in.columns,
                    static_cast<size_t>(out.columns) * sizeof(float));
      }
      return;
  }
}

void Plan::finished(int index) {
  if (!timed_) return;
  const int64_t now = now_ns();
  phase(index).nanoseconds += now - phase_began_;
  phase_began_ = now;
}

// The logits may be wanted in the caller's memory.
Plan::Value Plan::value(int id) const {
  Value found = values_[static_cast<size_t>(id)];
  if (id == logits_ && step_->logits) found.x = step_->logits;
  return found;
}

// Of the rows from `first` on, which begins a group of quantised rows.
LinearArgs Plan::linear_args(const NgOp& op, int64_t first) const {
  const Value& in = values_[static_cast<size_t>(op.in)];
  const Value out = value(op.out);
  LinearArgs args{matrix_of(op), in.x, in.columns, in.rows, out.x, out.columns, nullptr, 0};
  if (first > 0 && in.quantized) {
    const int64_t blocks = first * in.rows.blocks;
    args.quantized.values += blocks * kBlockValues;
    args.quantized.scales += blocks;
    args.quantized.offsets += blocks;
    args.quantized.scaled_sums += blocks;
  } else if (first > 0) {
    args.x += first * in.columns;
  }
  if (op.residual >= 0) {
    const Value& residual = values_[static_cast<size_t>(op.residual)];
    args.residual = residual.x;
    args.residual_stride = residual.columns;
  }
  return args;
}

NormArgs Plan::norm_args(const NgOp& op) const {
  const Value& in = values_[static_cast<size_t>(op.in)];
  const Value out = value(op.out);
  return {in.x, in.columns, in.columns, op.gain, op.eps, out.x, out.columns, out.rows};
}

AttentionArgs Plan::attention_args(const NgOp& op) const {
  const Group& group = groups_[static_cast<size_t>(op.group)];
  const Value& in = values_[static_cast<size_t>(op.in)];
  const Value out = value(op.out);
  AttentionArgs args{};
  args.step = group.view;
  args.layout = group.layout;
  args.layer = op.layer;
  args.heads = op.heads;
  args.window = op.window;
  args.scale = 1.0f / std::sqrt(static_cast<float>(group.layout.head_dim));
  args.qkv = in.x;
  args.qkv_stride = in.columns;
  args.cosines = cosines_;
  args.sines = sines_;
  args.y = out.x;
  args.y_stride = out.columns;
  args.out = out.rows;
  args.partials = const_cast<float*>(partials_.data());
  return args;
}

void Plan::angles(int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const auto position = static_cast<float>(step_->positions[row]);
    for (int64_t i = 0; i < pairs_; ++i) {
      const float angle = position * inverse_frequencies_[static_cast<size_t>(i)];
      cosines_[row * pairs_ + i] = std::cos(angle);
      sines_[row * pairs_ + i] = std::sin(angle);
    }
  }
}

void Plan::hidden(const NgOp& op, int64_t begin, int64_t end) const {
  NormArgs args = norm_args(op);
  args.x += step_->head_rows * args.x_stride;
  args.y = step_->hidden;
  kernels_.rms_norm(args, begin, end);
}

// Rows [begin, end) of the group of logit rows that starts at `first`.
void Plan::draw(int64_t first, int64_t begin, int64_t end, int worker) {
  float* logits = step_->logits ? step_->logits : values_[static_cast<size_t>(logits_)].x;
  float* scratch = scratch_[static_cast<size_t>(worker)].data();
  float* before = shaped_[static_cast<size_t>(worker)].data();
  for (int64_t i = begin; i < end; ++i) {
    float* at = logits + i * vocabulary_;
    const int64_t row = first + i;
    if (row < step_->drawn_rows) {
      const int32_t shaping = step_->shaping_of ? step_->shaping_of[row] : -1;
      if (shaping >= 0) shape(step_->shapings[shaping], at, vocabulary_, before);
      if (step_->temperatures[row] == 0.0f) {
        float largest;
        kernels_.argmax(at, vocabulary_, &largest, step_->drawn + row);
      } else {
        step_->drawn[row] = kernels_.draw(at, vocabulary_, step_->temperatures[row], step_->top_k[row],
                                          step_->top_p[row], step_->min_p ? step_->min_p[row] : 0.0f,
                                          uniform(step_->seeds[row], step_->draw_positions[row]), scratch);
      }
      if (shaping >= 0) unshape(step_->shapings[shaping], at, vocabulary_, before);
    }
    const int32_t tops = step_->tops ? step_->tops[row] : -1;
    if (tops < 0) continue;
    const int64_t place = row * step_->top_stride;
    kernels_.score(at, vocabulary_, step_->drawn[row], tops, step_->logprobs + row, step_->ranks + row,
                   step_->top_ids + place, step_->top_logprobs + place, scratch);
  }
}

}  // namespace netgain
