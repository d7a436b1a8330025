// A model's weights, packed for the kernels.
//
// Owns the packed panels; the file is not needed after Load. Matrices are packed by the workers that will read them, each
// its own share of the panels (ShareOf over PanelCount), so that memory lies near its reader. Immutable after Load;
// thread-safe.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/gguf/file.h"
#include "kernels/panels.h"
#include "services/executor/forward/worker_team.h"
#include "services/executor/memory/huge_buffer.h"
#include "services/executor/model/hyperparameters.h"

namespace tercet::executor {

struct Layer {
  kernels::PackedMatrix q, k, v, o, gate, up, down;
  std::vector<float> attention_norm, mlp_norm;                       // [width]
  std::vector<float> q_bias, k_bias, v_bias;                         // [rows] or empty
  std::vector<float> q_norm, k_norm;                                 // [head_dim] or empty
  std::vector<float> post_attention_norm, post_mlp_norm;             // [width] or empty
};

struct LoadOptions {
  // Called by the loading thread now and then with the share that is done, 0 … 1.
  std::function<void(double)> progress;
};

class Model {
 public:
  // INVALID_ARGUMENT names the tensor and what is wrong with it; UNIMPLEMENTED what this executor does not compute;
  // RESOURCE_EXHAUSTED when the weights do not fit into memory.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const gguf::File& file, WorkerTeam& team, const LoadOptions& options);

  const Hyperparameters& hyper() const { return hyper_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const kernels::PackedMatrix& embedding() const { return embedding_; }
  const kernels::PackedMatrix& head() const { return head_; }  // the embedding where the file has no head of its own
  const std::vector<float>& output_norm() const { return output_norm_; }
  // Divides the frequency of each rotated pair, [rotary_dim / 2] or empty.
  const std::vector<float>& rope_factors() const { return rope_factors_; }

  // 16 bytes: xxh3-128 over architecture, hyperparameters, and names, types, shapes and bytes of all tensors. Models with
  // equal hashes compute the same.
  const std::string& hash() const { return hash_; }
  // Bytes of packed weights.
  size_t weight_bytes() const { return weights_.bytes(); }
  // Bytes of weights which a decode step reads: all but an embedding that is no head.
  size_t bytes_per_token() const;

 private:
  Model() = default;

  Hyperparameters hyper_;
  HugeBuffer weights_;
  std::vector<Layer> layers_;
  kernels::PackedMatrix embedding_{}, head_{};
  std::vector<float> output_norm_, rope_factors_;
  std::string hash_;
};

}  // namespace tercet::executor
