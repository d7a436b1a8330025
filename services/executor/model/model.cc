#include "services/executor/model/model.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <xxhash.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

namespace tercet::executor {
namespace {

std::optional<kernels::Format> FormatOf(gguf::TensorType type) {
  switch (type) {
    case gguf::TensorType::kF32: return kernels::Format::kF32;
    case gguf::TensorType::kF16: return kernels::Format::kF16;
    case gguf::TensorType::kBF16: return kernels::Format::kBF16;
    case gguf::TensorType::kQ8_0: return kernels::Format::kQ8_0;
    case gguf::TensorType::kQ4_0: return kernels::Format::kQ4_0;
    case gguf::TensorType::kQ4_1: return kernels::Format::kQ4_1;
    case gguf::TensorType::kQ5_0: return kernels::Format::kQ5_0;
    case gguf::TensorType::kQ5_1: return kernels::Format::kQ5_1;
    case gguf::TensorType::kQ4_K: return kernels::Format::kQ4_K;
    case gguf::TensorType::kQ5_K: return kernels::Format::kQ5_K;
    case gguf::TensorType::kQ6_K: return kernels::Format::kQ6_K;
    default: return std::nullopt;
  }
}

// Takes tensors by name, checks them against what the architecture says, and remembers which were taken.
class TensorTaker {
 public:
  explicit TensorTaker(const gguf::File& file) : file_(file) {}

  // A matrix of `rows` outputs and `cols` inputs, to be packed to `target` later.
  void Matrix(const std::string& name, int64_t rows, int64_t cols, kernels::PackedMatrix* target) {
    const gguf::Tensor* tensor = Take(name, {static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)});
    if (tensor == nullptr) return;
    std::optional<kernels::Format> format = FormatOf(tensor->type);
    if (!format.has_value()) {
      Fail(absl::UnimplementedError(absl::StrCat("tensor ", name, " has type ", std::string(gguf::InfoOf(tensor->type).name),
                                                 "; this executor computes F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
                                                 "Q4_K, Q5_K and Q6_K")));
      return;
    }
    *target = {*format, rows, cols, nullptr};
    pending_.push_back({tensor, target, bytes_});
    bytes_ += kernels::PackedBytes(*format, rows, cols);
    bytes_ = (bytes_ + 63) / 64 * 64;
  }

  // A vector of f32; empty if it may be absent and is.
  std::vector<float> Vector(const std::string& name, int64_t size, bool required) {
    if (!required && file_.Find(name) == nullptr) return {};
    const gguf::Tensor* tensor = Take(name, {static_cast<uint64_t>(size)});
    if (tensor == nullptr) return {};
    if (tensor->type != gguf::TensorType::kF32) {
      Fail(absl::UnimplementedError(
          absl::StrCat("tensor ", name, " has type ", std::string(gguf::InfoOf(tensor->type).name), "; it must be F32")));
      return {};
    }
    std::vector<float> values(size);
    std::memcpy(values.data(), tensor->data.data(), size * sizeof(float));
    for (float value : values) {
      if (!std::isfinite(value)) {
        Fail(absl::InvalidArgumentError(absl::StrCat("tensor ", name, " holds a number that is not finite")));
        return {};
      }
    }
    return values;
  }

  bool Has(const std::string& name) const { return file_.Find(name) != nullptr; }

  // An error if the file holds a tensor which nothing took: a part of the model that would be left out in silence.
  absl::Status Finish() {
    if (!status_.ok()) return status_;
    for (const gguf::Tensor& tensor : file_.tensors()) {
      if (!taken_.contains(&tensor)) {
        return absl::UnimplementedError(absl::StrCat(
            "the model has a tensor ", tensor.name, ", which this executor does not know for its architecture"));
      }
    }
    return absl::OkStatus();
  }

  struct Pending {
    const gguf::Tensor* tensor;
    kernels::PackedMatrix* matrix;
    size_t offset;
  };
  const std::vector<Pending>& pending() const { return pending_; }
  size_t bytes() const { return bytes_; }

 private:
  const gguf::Tensor* Take(const std::string& name, const std::vector<uint64_t>& shape) {
    const gguf::Tensor* tensor = file_.Find(name);
    if (tensor == nullptr) {
      Fail(absl::InvalidArgumentError(absl::StrCat("tensor ", name, " is missing")));
      return nullptr;
    }
    taken_[tensor] = true;
    std::vector<uint64_t> found = tensor->dimensions;
    while (found.size() > shape.size() && found.back() == 1) found.pop_back();
    if (found != shape) {
      Fail(absl::InvalidArgumentError(absl::StrCat("tensor ", name, " has shape [", absl::StrJoin(tensor->dimensions, ", "),
                                                   "]; the hyperparameters call for [", absl::StrJoin(shape, ", "), "]")));
      return nullptr;
    }
    return tensor;
  }

  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const gguf::File& file_;
  absl::Status status_;
  absl::flat_hash_map<const gguf::Tensor*, bool> taken_;
  std::vector<Pending> pending_;
  size_t bytes_ = 0;
};

std::string HashOf(const Hyperparameters& h, const std::vector<gguf::Tensor>& tensors,
                   const std::vector<XXH128_hash_t>& contents) {
  std::string text = absl::StrCat(h.architecture->name, "|", h.layers, "|", h.width, "|", h.heads, "|", h.kv_heads, "|",
                                  h.head_dim, "|", h.mlp_width, "|", h.vocabulary, "|", h.rotary_dim, "|", h.window, "|", h.sliding_period,
                                  "|");
  for (double number : {double{h.norm_epsilon}, h.rope_base, h.rope_base_sliding, h.rope_scale,
                        double{h.attention_scale}, double{h.embedding_scale}}) {
    absl::StrAppend(&text, std::bit_cast<uint64_t>(number), "|");
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    absl::StrAppend(&text, tensors[i].name, "|", static_cast<uint32_t>(tensors[i].type), "|",
                    absl::StrJoin(tensors[i].dimensions, ","), "|", contents[i].high64, "|", contents[i].low64, "|");
  }
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(text.data(), text.size()));
  return std::string(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const gguf::File& file, WorkerTeam& team, const LoadOptions& options) {
  absl::StatusOr<Hyperparameters> hyper = ReadHyperparameters(file);
  if (!hyper.ok()) return hyper.status();
  auto model = std::unique_ptr<Model>(new Model);
  model->hyper_ = *std::move(hyper);
  Hyperparameters& h = model->hyper_;
  const Architecture& architecture = *h.architecture;

  // The vocabulary is as large as the embedding says.
  const gguf::Tensor* embedding = file.Find("token_embd.weight");
  if (embedding == nullptr) return absl::InvalidArgumentError("tensor token_embd.weight is missing");
  if (embedding->dimensions.size() != 2 || embedding->dimensions[1] > (1u << 24)) {
    return absl::InvalidArgumentError("tensor token_embd.weight is not a matrix with at most 2^24 rows");
  }
  h.vocabulary = static_cast<int32_t>(embedding->dimensions[1]);

  TensorTaker taker(file);
  int64_t q_rows = int64_t{h.heads} * h.head_dim, kv_rows = int64_t{h.kv_heads} * h.head_dim;
  model->layers_.resize(h.layers);
  for (int32_t i = 0; i < h.layers; ++i) {
    Layer& layer = model->layers_[i];
    std::string prefix = absl::StrCat("blk.", i, ".");
    layer.attention_norm = taker.Vector(prefix + "attn_norm.weight", h.width, true);
    taker.Matrix(prefix + "attn_q.weight", q_rows, h.width, &layer.q);
    taker.Matrix(prefix + "attn_k.weight", kv_rows, h.width, &layer.k);
    taker.Matrix(prefix + "attn_v.weight", kv_rows, h.width, &layer.v);
    if (architecture.qkv_bias) {
      layer.q_bias = taker.Vector(prefix + "attn_q.bias", q_rows, true);
      layer.k_bias = taker.Vector(prefix + "attn_k.bias", kv_rows, true);
      layer.v_bias = taker.Vector(prefix + "attn_v.bias", kv_rows, true);
    }
    if (architecture.qk_norm) {
      layer.q_norm = taker.Vector(prefix + "attn_q_norm.weight", h.head_dim, true);
      layer.k_norm = taker.Vector(prefix + "attn_k_norm.weight", h.head_dim, true);
    }
    taker.Matrix(prefix + "attn_output.weight", h.width, q_rows, &layer.o);
    if (architecture.post_norms) {
      layer.post_attention_norm = taker.Vector(prefix + "post_attention_norm.weight", h.width, true);
      layer.post_mlp_norm = taker.Vector(prefix + "post_ffw_norm.weight", h.width, true);
    }
    layer.mlp_norm = taker.Vector(prefix + "ffn_norm.weight", h.width, true);
    taker.Matrix(prefix + "ffn_gate.weight", h.mlp_width, h.width, &layer.gate);
    taker.Matrix(prefix + "ffn_up.weight", h.mlp_width, h.width, &layer.up);
    taker.Matrix(prefix + "ffn_down.weight", h.width, h.mlp_width, &layer.down);
  }
  model->output_norm_ = taker.Vector("output_norm.weight", h.width, true);
  taker.Matrix("token_embd.weight", h.vocabulary, h.width, &model->embedding_);
  bool own_head = taker.Has("output.weight");
  if (own_head) taker.Matrix("output.weight", h.vocabulary, h.width, &model->head_);
  model->rope_factors_ = taker.Vector("rope_freqs.weight", h.rotary_dim / 2, false);
  for (float factor : model->rope_factors_) {
    if (!(factor > 0)) return absl::InvalidArgumentError("tensor rope_freqs.weight holds a factor that is not above 0");
  }
  if (absl::Status status = taker.Finish(); !status.ok()) return status;

  absl::StatusOr<HugeBuffer> weights = HugeBuffer::Allocate(taker.bytes());
  if (!weights.ok()) return weights.status();
  model->weights_ = *std::move(weights);
  std::byte* base = model->weights_.data();

  const std::vector<gguf::Tensor>& tensors = file.tensors();
  std::vector<XXH128_hash_t> contents(tensors.size());
  std::atomic<size_t> packed_bytes{0};
  team.Run([&](int worker, int workers) {
    for (const TensorTaker::Pending& pending : taker.pending()) {
      const kernels::PackedMatrix& matrix = *pending.matrix;
      Share share = ShareOf(kernels::PanelCount(matrix.rows), worker, workers);
      kernels::PackPanels(matrix.format, pending.tensor->data.data(), matrix.rows, matrix.cols, share.begin, share.end,
                          base + pending.offset);
      packed_bytes.fetch_add((share.end - share.begin) * kernels::PanelBytes(matrix.format, matrix.cols));
      if (worker == 0 && options.progress) {
        options.progress(static_cast<double>(packed_bytes.load()) / static_cast<double>(taker.bytes()));
      }
    }
    for (size_t i = worker; i < tensors.size(); i += workers) {
      contents[i] = XXH3_128bits(tensors[i].data.data(), tensors[i].data.size());
    }
  });
  for (const TensorTaker::Pending& pending : taker.pending()) pending.matrix->panels = base + pending.offset;
  if (!own_head) model->head_ = model->embedding_;
  model->hash_ = HashOf(h, tensors, contents);
  file.DropPages();
  if (options.progress) options.progress(1);
  return model;
}

size_t Model::bytes_per_token() const {
  size_t bytes = kernels::PackedBytes(head_.format, head_.rows, head_.cols);
  for (const Layer& layer : layers_) {
    for (const kernels::PackedMatrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      bytes += kernels::PackedBytes(matrix->format, matrix->rows, matrix->cols);
    }
  }
  return bytes;
}

}  // namespace tercet::executor
