// The forward pass: rows of token ids through all layers, keys and values into pages, logits for the rows that want them.
//
// One Run is one parallel region: the workers walk the layers together and meet at barriers. A row is one token of one
// sequence. Every row is computed by the same arithmetic in the same order whatever its neighbours, so its logits depend on
// the sequence's ids and nothing else: not on batch, chunking, number of workers or instruction set.
//
// Activations are quantized to 8 bits for the integer dot products. Where that costs accuracy most, before Q, K and V and before
// the head, what the 8 bits leave out is quantized as well and multiplied in the same pass over the weights: on SmolLM2 and
// Gemma this halves the divergence from float32 arithmetic for a few percent of the time (docs/design.md).
//
// Owns its activation buffers; nothing is allocated while it runs. Not thread-safe; called by the engine's thread, which is
// worker 0 of the team.
#pragma once

#include <absl/status/status.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/quantize.h"
#include "services/executor/forward/attention.h"
#include "services/executor/forward/worker_team.h"
#include "services/executor/kv/block_table.h"
#include "services/executor/kv/page_pool.h"
#include "services/executor/memory/huge_buffer.h"
#include "services/executor/model/model.h"

namespace tercet::executor {

// Consecutive tokens of one sequence. Its table has pages for them; keys and values before first_position are in it.
struct ForwardSpan {
  BlockTable* table;
  std::span<const uint32_t> tokens;
  int32_t first_position;
  // Index in `tokens` from which on logits are wanted; tokens.size(): none.
  int32_t logits_from;
};

// Where the time of a pass went: microseconds of worker 0, waiting for others included in the part before the wait.
enum class Phase { kEmbed, kNorm, kQkv, kRope, kAttention, kOutput, kMlp, kDown, kHead, kCount };
const char* PhaseName(Phase phase);
using PhaseTimes = std::array<double, static_cast<size_t>(Phase::kCount)>;

class Forward {
 public:
  // `max_rows` ≥ 1 tokens and `max_logit_rows` ≥ 1 rows of logits a pass; sequences of at most `context` tokens.
  // RESOURCE_EXHAUSTED when the buffers do not fit into memory. The parts must outlive the pass.
  static absl::StatusOr<std::unique_ptr<Forward>> Create(const Model& model, PagePool& pool, WorkerTeam& team,
                                                         int32_t max_rows, int32_t max_logit_rows, int32_t context);

  // Runs the spans together; a sequence appears in one span at most. INVALID_ARGUMENT when they exceed max_rows or
  // max_logit_rows, a table lacks pages, or a page to be written is shared.
  absl::Status Run(std::span<const ForwardSpan> spans);

  // Logits of the i-th row that wanted them in the last Run, in the order of spans and tokens: [vocabulary] f32.
  std::span<const float> Logits(int32_t i) const {
    return {logits_ + size_t{1} * i * logits_stride_, static_cast<size_t>(model_.hyper().vocabulary)};
  }

  int32_t max_rows() const { return max_rows_; }
  int32_t max_logit_rows() const { return max_logit_rows_; }
  // Bytes of buffers.
  size_t buffer_bytes() const { return buffers_.bytes(); }
  // Times of the last Run.
  const PhaseTimes& times() const { return times_; }

 private:
  Forward(const Model& model, PagePool& pool, WorkerTeam& team, int32_t max_rows, int32_t max_logit_rows, int32_t context);

  struct Row {
    uint32_t token;
    int32_t position;
    int32_t span;
  };
  // A block of activations: as floats, and quantized.
  struct Activations {
    float* values;
    int64_t cols;
    kernels::QuantizedRows quantized;
  };

  void Layout(std::byte* base, size_t* bytes);
  void RunLayers(int worker, int workers);
  void EmbedRows(Share rows);
  void Normalise(Share rows, const float* source, const std::vector<float>& weight);
  void JoinResidual(Share rows, const std::vector<float>& post_norm);
  void Quantize(int64_t row, Activations& activations, int64_t begin, int64_t end);
  void QuantizeRest(int64_t row, int64_t rows, Activations& activations);
  void Multiply(const kernels::PackedMatrix& matrix, Share panels, const Activations& in, int64_t rows, float* out,
                int64_t stride) const;
  void MultiplyFine(const kernels::PackedMatrix& matrix, Share panels, const Activations& in, int64_t rows, float* out,
                    int64_t stride) const;
  void TurnHeads(int32_t layer, Share items);
  void Gate(const Layer& layer, Share blocks);
  void Project(const kernels::PackedMatrix& matrix, const Activations& in, bool join, int worker, int workers);

  const Model& model_;
  PagePool& pool_;
  WorkerTeam& team_;
  const int32_t max_rows_, max_logit_rows_, context_;
  const int64_t qkv_cols_;
  std::vector<double> frequencies_, sliding_frequencies_;
  Attention attention_;

  HugeBuffer buffers_;
  float* x_ = nullptr;        // [rows][width] the residual stream
  float* branch_ = nullptr;   // [rows][width] what attention or MLP give, before it joins
  float* qkv_ = nullptr;      // [2 · rows][qkv_cols], the second half for the rest of the activations
  float* gate_ = nullptr;     // [rows][mlp_width]
  float* angles_ = nullptr;   // [rows][2 kinds of layer][cos, sin][rotary_dim / 2]
  float* logits_ = nullptr;   // [2 · logit rows][logits_stride], as qkv_
  int64_t logits_stride_ = 0;
  Activations normed_{};      // [rows][width]
  Activations attended_{};    // [rows][heads · head_dim]
  Activations hidden_{};      // [rows][mlp_width]

  // The pass in progress.
  std::span<const ForwardSpan> spans_;
  std::vector<Row> rows_;
  std::vector<int32_t> logit_rows_;  // row of each wanted logits
  PhaseTimes times_{};
};

}  // namespace tercet::executor
