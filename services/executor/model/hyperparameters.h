// The numbers that describe a decoder, and the table of architectures that this executor computes.
//
// An architecture is one row: its GGUF name and how it differs from the plain decoder
//   x += O · attention(rope(Q·norm(x)), rope(K·norm(x)), V·norm(x));  x += down · (act(gate·norm(x)) * up·norm(x)).
// Immutable; thread-safe.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/gguf/file.h"
#include "kernels/rope.h"

namespace tercet::executor {

enum class Activation : uint8_t { kSilu, kGeluTanh };

struct Architecture {
  const char* name;  // general.architecture
  kernels::RopeStyle rope_style;
  Activation activation;
  bool qkv_bias;          // Q, K and V add a bias
  bool qk_norm;           // each head of Q and K is normalised before rope
  bool post_norms;        // attention's and the MLP's outputs are normalised before they join the residual
  bool scale_embeddings;  // embeddings are multiplied by sqrt(width)
  int sliding_period;     // 0, or unless the file says otherwise: of so many layers the last sees everything, the others a window
};

struct Hyperparameters {
  const Architecture* architecture = nullptr;
  std::string model_name;
  int32_t layers = 0;
  int32_t width = 0;       // of the residual stream
  int32_t heads = 0;
  int32_t kv_heads = 0;    // divides heads
  int32_t head_dim = 0;
  int32_t mlp_width = 0;
  int32_t vocabulary = 0;
  int32_t context_length = 0;  // for which the model was made, in tokens
  float norm_epsilon = 0;
  int32_t rotary_dim = 0;
  double rope_base = 0;
  double rope_base_sliding = 0;  // of layers with a window
  double rope_scale = 1;         // divides positions of layers without a window
  float attention_scale = 0;     // multiplies Q·K
  float embedding_scale = 1;
  int32_t window = 0;            // positions a sliding layer sees, its own included; 0: no sliding layers
  int32_t sliding_period = 1;    // of so many layers the last is no sliding one

  bool sliding(int32_t layer) const { return window > 0 && (layer + 1) % sliding_period != 0; }
  int32_t group() const { return heads / kv_heads; }
};

// INVALID_ARGUMENT: a missing, mistyped or impossible number, by key; UNIMPLEMENTED: an architecture or a feature that this
// executor does not compute, by name.
absl::StatusOr<Hyperparameters> ReadHyperparameters(const gguf::File& file);

}  // namespace tercet::executor
