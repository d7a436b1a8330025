#include "services/executor/forward/forward.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "services/executor/forward/rotary.h"

namespace tercet::executor {
namespace {

using Clock = std::chrono::steady_clock;

// Columns whose gate and up a worker computes, activates and quantizes in one go: two panels, one block of activations.
constexpr int64_t kBlock = kernels::kActivationBlock;
constexpr int64_t kBlockPanels = kBlock / kernels::kPanelRows;

int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Adds what has passed since the last call to the phase named; on worker 0 only.
class PhaseClock {
 public:
  PhaseClock(PhaseTimes& times, int worker) : times_(worker == 0 ? &times : nullptr) {
    if (times_ != nullptr) last_ = Clock::now();
  }
  void Add(Phase phase) {
    if (times_ == nullptr) return;
    Clock::time_point now = Clock::now();
    (*times_)[static_cast<size_t>(phase)] += std::chrono::duration<double, std::micro>(now - last_).count();
    last_ = now;
  }

 private:
  PhaseTimes* times_;
  Clock::time_point last_;
};

}  // namespace

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kEmbed: return "embed";
    case Phase::kNorm: return "norm";
    case Phase::kQkv: return "qkv";
    case Phase::kRope: return "rope";
    case Phase::kAttention: return "attention";
    case Phase::kOutput: return "output";
    case Phase::kMlp: return "mlp";
    case Phase::kDown: return "down";
    case Phase::kHead: return "head";
    case Phase::kCount: break;
  }
  return "";
}

absl::StatusOr<std::unique_ptr<Forward>> Forward::Create(const Model& model, PagePool& pool, WorkerTeam& team,
                                                         int32_t max_rows, int32_t max_logit_rows, int32_t context) {
  if (max_rows < 1 || max_logit_rows < 1) return absl::InvalidArgumentError("a pass needs at least one row");
  if (context > Attention::kMaxChunks * kernels::kChunkTokens) {
    return absl::InvalidArgumentError(absl::StrCat("a context of ", context, " tokens is longer than the ",
                                                   Attention::kMaxChunks * kernels::kChunkTokens,
                                                   " that this executor computes"));
  }
  auto forward = std::unique_ptr<Forward>(new Forward(model, pool, team, max_rows, max_logit_rows, context));
  if (absl::Status status = forward->attention_.AllocateScratch(); !status.ok()) return status;
  size_t bytes = 0;
  forward->Layout(nullptr, &bytes);
  absl::StatusOr<HugeBuffer> buffers = HugeBuffer::Allocate(bytes);
  if (!buffers.ok()) return buffers.status();
  forward->buffers_ = *std::move(buffers);
  forward->Layout(forward->buffers_.data(), &bytes);
  return forward;
}

Forward::Forward(const Model& model, PagePool& pool, WorkerTeam& team, int32_t max_rows, int32_t max_logit_rows,
                 int32_t context)
    : model_(model),
      pool_(pool),
      team_(team),
      max_rows_(max_rows),
      max_logit_rows_(max_logit_rows),
      context_(context),
      qkv_cols_(int64_t{model.hyper().heads + 2 * model.hyper().kv_heads} * model.hyper().head_dim),
      attention_(model.hyper(), pool, team.workers(), max_rows, context) {
  const Hyperparameters& h = model.hyper();
  frequencies_ = RotaryFrequencies(h.rotary_dim, h.rope_base, h.rope_scale, model.rope_factors());
  sliding_frequencies_ = RotaryFrequencies(h.rotary_dim, h.rope_base_sliding, 1, model.rope_factors());
  rows_.reserve(max_rows);
  logit_rows_.reserve(max_logit_rows);
}

// Places the buffers behind `base`; the bytes they need in total come back in *bytes.
void Forward::Layout(std::byte* base, size_t* bytes) {
  const Hyperparameters& h = model_.hyper();
  size_t offset = 0;
  auto take = [&](size_t size) {
    std::byte* place = base == nullptr ? nullptr : base + offset;
    offset += (size + 127) / 128 * 128;
    return place;
  };
  auto floats = [&](int64_t rows, int64_t cols) { return reinterpret_cast<float*>(take(sizeof(float) * rows * cols)); };
  auto activations = [&](int64_t cols, int64_t quantized_rows) {
    Activations a{floats(max_rows_, cols), cols, {}};
    a.quantized.row_stride = kernels::QuantizedRowBlocks(RoundUp(cols, kBlock));
    a.quantized.blocks = reinterpret_cast<kernels::QuantizedBlock*>(
        take(sizeof(kernels::QuantizedBlock) * quantized_rows * a.quantized.row_stride));
    return a;
  };
  x_ = floats(max_rows_, h.width);
  branch_ = floats(max_rows_, h.width);
  qkv_ = floats(2 * max_rows_, qkv_cols_);
  gate_ = floats(max_rows_, h.mlp_width);
  angles_ = floats(max_rows_, 2 * h.rotary_dim);
  normed_ = activations(h.width, 2 * max_rows_);
  attended_ = activations(int64_t{h.heads} * h.head_dim, max_rows_);
  hidden_ = activations(h.mlp_width, max_rows_);
  logits_stride_ = RoundUp(h.vocabulary, kernels::kPanelRows);
  logits_ = floats(2 * max_logit_rows_, logits_stride_);
  *bytes = offset;
}

absl::Status Forward::Run(std::span<const ForwardSpan> spans) {
  rows_.clear();
  logit_rows_.clear();
  size_t total = 0, wanted = 0;
  for (const ForwardSpan& span : spans) {
    total += span.tokens.size();
    int64_t from = std::clamp<int64_t>(span.logits_from, 0, static_cast<int64_t>(span.tokens.size()));
    wanted += span.tokens.size() - static_cast<size_t>(from);
    int64_t end = span.first_position + static_cast<int64_t>(span.tokens.size());
    if (span.first_position < 0 || end > context_) {
      return absl::InvalidArgumentError(absl::StrCat("positions ", span.first_position, " to ", end,
                                                     " leave the context of ", context_, " tokens"));
    }
    if (end > int64_t{span.table->pages()} * kPageTokens) {
      return absl::InvalidArgumentError(absl::StrCat("a sequence of ", end, " tokens has only ", span.table->pages(), " pages"));
    }
    if (!span.table->IsWritable(span.first_position, static_cast<int32_t>(end))) {
      return absl::InvalidArgumentError(absl::StrCat("positions ", span.first_position, " to ", end, " lie in a shared page"));
    }
    for (uint32_t token : span.tokens) {
      if (token >= static_cast<uint32_t>(model_.hyper().vocabulary)) {
        return absl::InvalidArgumentError(absl::StrCat("id ", token, " is not in the vocabulary"));
      }
    }
  }
  if (total > static_cast<size_t>(max_rows_) || wanted > static_cast<size_t>(max_logit_rows_)) {
    return absl::InvalidArgumentError(absl::StrCat("a pass of ", total, " rows with ", wanted, " rows of logits exceeds ",
                                                   max_rows_, " and ", max_logit_rows_));
  }
  if (total == 0) return absl::OkStatus();

  int32_t span_index = 0;
  for (const ForwardSpan& span : spans) {
    for (size_t i = 0; i < span.tokens.size(); ++i) {
      if (static_cast<int64_t>(i) >= span.logits_from) logit_rows_.push_back(static_cast<int32_t>(rows_.size()));
      rows_.push_back({span.tokens[i], span.first_position + static_cast<int32_t>(i), span_index});
    }
    ++span_index;
  }
  spans_ = spans;
  attention_.Prepare(spans);
  times_.fill(0);
  team_.Run([this](int worker, int workers) { RunLayers(worker, workers); });
  return absl::OkStatus();
}

void Forward::RunLayers(int worker, int workers) {
  const Hyperparameters& h = model_.hyper();
  int64_t rows = static_cast<int64_t>(rows_.size());
  Share my_rows = ShareOf(rows, worker, workers);
  PhaseClock clock(times_, worker);

  EmbedRows(my_rows);
  clock.Add(Phase::kEmbed);
  for (int32_t i = 0; i < h.layers; ++i) {
    const Layer& layer = model_.layers()[i];
    // The rows of x_ are this worker's from the end of the last layer on: no barrier in between.
    Normalise(my_rows, x_, layer.attention_norm);
    for (int64_t row = my_rows.begin; row < my_rows.end; ++row) QuantizeRest(row, rows, normed_);
    team_.Barrier(worker);
    clock.Add(Phase::kNorm);

    float* out = qkv_;
    for (const kernels::PackedMatrix* matrix : {&layer.q, &layer.k, &layer.v}) {
      MultiplyFine(*matrix, ShareOf(kernels::PanelCount(matrix->rows), worker, workers), normed_, rows, out, qkv_cols_);
      out += matrix->rows;
    }
    team_.Barrier(worker);
    clock.Add(Phase::kQkv);
    TurnHeads(i, ShareOf(rows * (h.heads + h.kv_heads), worker, workers));
    team_.Barrier(worker);
    clock.Add(Phase::kRope);
    attention_.Run(i, qkv_, qkv_cols_, attended_.values, attended_.cols, team_, worker, workers);
    for (int64_t row = my_rows.begin; row < my_rows.end; ++row) Quantize(row, attended_, 0, attended_.cols);
    team_.Barrier(worker);
    clock.Add(Phase::kAttention);
    Project(layer.o, attended_, layer.post_attention_norm.empty(), worker, workers);
    team_.Barrier(worker);
    clock.Add(Phase::kOutput);

    JoinResidual(my_rows, layer.post_attention_norm);
    Normalise(my_rows, x_, layer.mlp_norm);
    team_.Barrier(worker);
    clock.Add(Phase::kNorm);
    Gate(layer, ShareOf((h.mlp_width + kBlock - 1) / kBlock, worker, workers));
    team_.Barrier(worker);
    clock.Add(Phase::kMlp);
    Project(layer.down, hidden_, layer.post_mlp_norm.empty(), worker, workers);
    team_.Barrier(worker);
    JoinResidual(my_rows, layer.post_mlp_norm);
    clock.Add(Phase::kDown);
  }

  int64_t wanted = static_cast<int64_t>(logit_rows_.size());
  if (wanted == 0) return;
  // Other workers' rows of x_ are read here.
  team_.Barrier(worker);
  Share my_logits = ShareOf(wanted, worker, workers);
  for (int64_t i = my_logits.begin; i < my_logits.end; ++i) {
    float* row = normed_.values + i * h.width;
    kernels::RmsNorm(x_ + int64_t{1} * logit_rows_[i] * h.width, model_.output_norm().data(), h.width, h.norm_epsilon, row);
    Quantize(i, normed_, 0, h.width);
    QuantizeRest(i, wanted, normed_);
  }
  team_.Barrier(worker);
  MultiplyFine(model_.head(), ShareOf(kernels::PanelCount(h.vocabulary), worker, workers), normed_, wanted, logits_,
           logits_stride_);
  clock.Add(Phase::kHead);
}

void Forward::EmbedRows(Share rows) {
  const Hyperparameters& h = model_.hyper();
  int64_t half = h.rotary_dim / 2;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    float* x = x_ + row * h.width;
    kernels::GatherRow(model_.embedding(), rows_[row].token, x);
    if (h.embedding_scale != 1) kernels::Scale(x, h.embedding_scale, h.width);
    float* angles = angles_ + row * 4 * half;
    RotaryAngles(frequencies_, rows_[row].position, angles, angles + half);
    if (h.window > 0) RotaryAngles(sliding_frequencies_, rows_[row].position, angles + 2 * half, angles + 3 * half);
  }
}

void Forward::Normalise(Share rows, const float* source, const std::vector<float>& weight) {
  int64_t width = normed_.cols;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    kernels::RmsNorm(source + row * width, weight.data(), width, model_.hyper().norm_epsilon, normed_.values + row * width);
    Quantize(row, normed_, 0, width);
  }
}

void Forward::Quantize(int64_t row, Activations& a, int64_t begin, int64_t end) {
  // A width that is no multiple of 32 goes with float weights only, which read `values`.
  if (a.cols % kBlock != 0) return;
  auto* blocks = const_cast<kernels::QuantizedBlock*>(a.quantized.blocks) + row * a.quantized.row_stride + begin / kBlock;
  kernels::QuantizeRow(a.values + row * a.cols + begin, end - begin, blocks);
}

// What the quantized row leaves out, quantized again to row `rows + row`: the two together have 15 bits.
void Forward::QuantizeRest(int64_t row, int64_t rows, Activations& a) {
  if (a.cols % kBlock != 0) return;
  auto* blocks = const_cast<kernels::QuantizedBlock*>(a.quantized.blocks);
  const kernels::QuantizedBlock* coarse = blocks + row * a.quantized.row_stride;
  kernels::QuantizedBlock* rest = blocks + (rows + row) * a.quantized.row_stride;
  const float* values = a.values + row * a.cols;
  for (int64_t i = 0; i < a.cols / kBlock; ++i) {
    float left[kBlock];
    for (int64_t k = 0; k < kBlock; ++k) left[k] = values[i * kBlock + k] - coarse[i].scale * static_cast<float>(coarse[i].q[k]);
    kernels::QuantizeRow(left, kBlock, &rest[i]);
  }
}

// As Multiply, with the rest of the activations: row r of the product is that of row r and of row rows + r, added. The weights
// are read once for both. `out` has room for 2 · rows.
void Forward::MultiplyFine(const kernels::PackedMatrix& matrix, Share panels, const Activations& in, int64_t rows, float* out,
                           int64_t stride) const {
  if (!kernels::IsQuantized(matrix.format)) return Multiply(matrix, panels, in, rows, out, stride);
  Multiply(matrix, panels, in, 2 * rows, out, stride);
  int64_t begin = panels.begin * kernels::kPanelRows, end = std::min(panels.end * kernels::kPanelRows, matrix.rows);
  for (int64_t row = 0; row < rows; ++row) {
    kernels::AddInto(out + row * stride + begin, out + (rows + row) * stride + begin, end - begin);
  }
}

void Forward::Multiply(const kernels::PackedMatrix& matrix, Share panels, const Activations& in, int64_t rows, float* out,
                       int64_t stride) const {
  if (kernels::IsQuantized(matrix.format)) {
    kernels::Matmul(matrix, panels.begin, panels.end, in.quantized, 0, rows, out, stride);
  } else {
    kernels::MatmulF32(matrix, panels.begin, panels.end, in.values, in.cols, 0, rows, out, stride);
  }
}

void Forward::TurnHeads(int32_t index, Share items) {
  const Hyperparameters& h = model_.hyper();
  const Layer& layer = model_.layers()[index];
  int32_t slots = h.heads + h.kv_heads;  // a key head takes its value head along
  int64_t half = h.rotary_dim / 2;
  auto add_bias = [&](float* head, const std::vector<float>& bias, int32_t i) {
    if (!bias.empty()) kernels::AddInto(head, bias.data() + int64_t{1} * i * h.head_dim, h.head_dim);
  };
  for (int64_t item = items.begin; item < items.end; ++item) {
    int64_t row = item / slots;
    int32_t slot = static_cast<int32_t>(item % slots);
    float* qkv = qkv_ + row * qkv_cols_;
    const float* angles = angles_ + row * 4 * half + (h.sliding(index) ? 2 * half : 0);
    if (slot < h.heads) {
      float* q = qkv + int64_t{1} * slot * h.head_dim;
      add_bias(q, layer.q_bias, slot);
      if (!layer.q_norm.empty()) kernels::RmsNorm(q, layer.q_norm.data(), h.head_dim, h.norm_epsilon, q);
      kernels::Rope(q, h.rotary_dim, angles, angles + half, h.architecture->rope_style);
      kernels::Scale(q, h.attention_scale, h.head_dim);
    } else {
      int32_t kv_head = slot - h.heads;
      float* k = qkv + int64_t{1} * slot * h.head_dim;
      float* v = k + int64_t{1} * h.kv_heads * h.head_dim;
      add_bias(k, layer.k_bias, kv_head);
      add_bias(v, layer.v_bias, kv_head);
      if (!layer.k_norm.empty()) kernels::RmsNorm(k, layer.k_norm.data(), h.head_dim, h.norm_epsilon, k);
      kernels::Rope(k, h.rotary_dim, angles, angles + half, h.architecture->rope_style);
      int32_t position = rows_[row].position;
      PageId page = spans_[rows_[row].span].table->page(position / kPageTokens);
      kernels::StoreKv(k, v, h.head_dim, position % kPageTokens, pool_.k(page, index, kv_head),
                       pool_.v(page, index, kv_head));
    }
  }
}

void Forward::Gate(const Layer& layer, Share blocks) {
  const Hyperparameters& h = model_.hyper();
  int64_t rows = static_cast<int64_t>(rows_.size());
  Share panels = {blocks.begin * kBlockPanels, std::min(blocks.end * kBlockPanels, kernels::PanelCount(h.mlp_width))};
  Multiply(layer.gate, panels, normed_, rows, gate_, h.mlp_width);
  Multiply(layer.up, panels, normed_, rows, hidden_.values, h.mlp_width);
  int64_t begin = blocks.begin * kBlock, end = std::min<int64_t>(blocks.end * kBlock, h.mlp_width);
  if (begin >= end) return;
  for (int64_t row = 0; row < rows; ++row) {
    float* gate = gate_ + row * h.mlp_width + begin;
    float* up = hidden_.values + row * h.mlp_width + begin;
    if (h.architecture->activation == Activation::kSilu) {
      kernels::SiluMul(gate, up, end - begin, up);
    } else {
      kernels::GeluTanhMul(gate, up, end - begin, up);
    }
    Quantize(row, hidden_, begin, end);
  }
}

// The branch's output for this worker's panels; if `join`, added to the residual stream at once.
void Forward::Project(const kernels::PackedMatrix& matrix, const Activations& in, bool join, int worker, int workers) {
  int64_t rows = static_cast<int64_t>(rows_.size()), width = model_.hyper().width;
  Share panels = ShareOf(kernels::PanelCount(width), worker, workers);
  Multiply(matrix, panels, in, rows, branch_, width);
  if (!join) return;
  int64_t begin = panels.begin * kernels::kPanelRows, end = std::min(panels.end * kernels::kPanelRows, width);
  for (int64_t row = 0; row < rows; ++row) {
    kernels::AddInto(x_ + row * width + begin, branch_ + row * width + begin, end - begin);
  }
}

// The rest of the join, for architectures that normalise a branch's output as a whole.
void Forward::JoinResidual(Share rows, const std::vector<float>& post_norm) {
  if (post_norm.empty()) return;
  const Hyperparameters& h = model_.hyper();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    float* branch = branch_ + row * h.width;
    kernels::RmsNorm(branch, post_norm.data(), h.width, h.norm_epsilon, branch);
    kernels::AddInto(x_ + row * h.width, branch, h.width);
  }
}

}  // namespace tercet::executor
