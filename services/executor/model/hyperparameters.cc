#include "services/executor/model/hyperparameters.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <cmath>

#include "kernels/attention.h"

namespace tercet::executor {
namespace {

using kernels::RopeStyle;

constexpr Architecture kArchitectures[] = {
    // name   rope                     activation              bias   qknorm post   embed  period
    {"llama", RopeStyle::kInterleaved, Activation::kSilu, false, false, false, false, 0},
    {"qwen2", RopeStyle::kHalves, Activation::kSilu, true, false, false, false, 0},
    {"gemma3", RopeStyle::kHalves, Activation::kGeluTanh, false, true, true, true, 6},
};

constexpr double kGemmaSlidingRopeBase = 10000;
// The 27B model scales attention by its width per head instead of the head's size.
constexpr int kGemma27bLayers = 62;
constexpr int kMaxGroup = 256;

// Keys, behind the architecture's name, of what other models of these families do.
constexpr const char* kFeaturesNotComputed[] = {
    "expert_count",    "attn_logit_softcapping", "final_logit_softcapping",  "logit_scale",            "residual_scale",
    "embedding_scale", "attention.scale",        "attention.clamp_kqv",      "attention.max_alibi_bias", "attention.q_lora_rank",
    "attention.kv_lora_rank", "pooling_type",
};

class Reader {
 public:
  Reader(const gguf::File& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  std::string Key(const char* name) const { return absl::StrCat(prefix_, ".", name); }
  bool Has(const char* name) const { return file_.Has(Key(name)); }

  // A whole number in [low, high].
  int32_t Int(const char* name, int64_t low, int64_t high) {
    absl::StatusOr<uint64_t> value = file_.Uint(Key(name));
    if (!value.ok()) return Fail(value.status());
    if (*value < static_cast<uint64_t>(low) || *value > static_cast<uint64_t>(high)) {
      return Fail(absl::InvalidArgumentError(
          absl::StrCat(Key(name), " is ", *value, "; it must be ", low, " to ", high)));
    }
    return static_cast<int32_t>(*value);
  }
  int32_t IntOr(const char* name, int64_t low, int64_t high, int32_t absent) {
    return Has(name) ? Int(name, low, high) : absent;
  }
  double Float(const char* name, double low, double high) {
    absl::StatusOr<double> value = file_.Float(Key(name));
    if (!value.ok()) return Fail(value.status());
    if (!(*value >= low && *value <= high)) {
      return Fail(absl::InvalidArgumentError(
          absl::StrCat(Key(name), " is ", *value, "; it must be ", low, " to ", high)));
    }
    return *value;
  }
  double FloatOr(const char* name, double low, double high, double absent) {
    return Has(name) ? Float(name, low, high) : absent;
  }

  int Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
    return 0;
  }
  const absl::Status& status() const { return status_; }

 private:
  const gguf::File& file_;
  const std::string prefix_;
  absl::Status status_;
};

const Architecture* FindArchitecture(const std::string& name) {
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return &architecture;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<Hyperparameters> ReadHyperparameters(const gguf::File& file) {
  absl::StatusOr<std::string> name = file.String("general.architecture");
  if (!name.ok()) return name.status();
  Hyperparameters h;
  h.architecture = FindArchitecture(*name);
  if (h.architecture == nullptr) {
    std::string known;
    for (const Architecture& each : kArchitectures) absl::StrAppend(&known, known.empty() ? "" : ", ", each.name);
    return absl::UnimplementedError(
        absl::StrCat("the model's architecture is \"", *name, "\"; this executor computes ", known));
  }
  h.model_name = file.String("general.name").value_or(*name);

  Reader reader(file, *name);
  h.layers = reader.Int("block_count", 1, 1024);
  h.width = reader.Int("embedding_length", 32, 1 << 16);
  h.heads = reader.Int("attention.head_count", 1, 1024);
  h.kv_heads = reader.IntOr("attention.head_count_kv", 1, 1024, h.heads);
  h.mlp_width = reader.Int("feed_forward_length", 32, 1 << 20);
  h.context_length = reader.Int("context_length", 1, 1 << 24);
  h.norm_epsilon = static_cast<float>(reader.Float("attention.layer_norm_rms_epsilon", 0, 1));
  if (!reader.status().ok()) return reader.status();
  if (h.heads % h.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(reader.Key("attention.head_count"), " (", h.heads,
                                                   ") is not a multiple of head_count_kv (", h.kv_heads, ")"));
  }
  if (h.group() > kMaxGroup) {
    return absl::UnimplementedError(absl::StrCat(h.group(), " query heads share a key head; this executor computes at most ",
                                                 kMaxGroup));
  }
  if (!reader.Has("attention.key_length") && h.width % h.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(reader.Key("embedding_length"), " (", h.width,
                                                   ") is not a multiple of attention.head_count (", h.heads, ")"));
  }
  h.head_dim = reader.IntOr("attention.key_length", 16, kernels::kMaxHeadDim, h.width / h.heads);
  int32_t value_dim = reader.IntOr("attention.value_length", 16, kernels::kMaxHeadDim, h.head_dim);
  h.rotary_dim = reader.IntOr("rope.dimension_count", 2, h.head_dim, h.head_dim);
  h.rope_base = reader.FloatOr("rope.freq_base", 1, 1e12, 10000);
  h.rope_base_sliding = h.rope_base;
  if (!reader.status().ok()) return reader.status();
  if (value_dim != h.head_dim || h.head_dim % 16 != 0 || h.rotary_dim % 2 != 0 || h.head_dim > kernels::kMaxHeadDim ||
      h.head_dim < 16) {
    return absl::UnimplementedError(absl::StrCat(
        "heads of size ", h.head_dim, " (keys), ", value_dim, " (values) and ", h.rotary_dim,
        " (rotated) are not computed by this executor; keys and values must have one size, a multiple of 16 up to ",
        kernels::kMaxHeadDim));
  }

  std::string scaling = "none";
  if (reader.Has("rope.scaling.type")) {
    absl::StatusOr<std::string> type = file.String(reader.Key("rope.scaling.type"));
    if (!type.ok()) return type.status();
    scaling = *std::move(type);
  }
  if (scaling == "linear") {
    h.rope_scale = reader.Float("rope.scaling.factor", 1, 1e6);
  } else if (scaling != "none") {
    return absl::UnimplementedError(absl::StrCat(reader.Key("rope.scaling.type"), " is \"", scaling,
                                                 "\"; this executor computes none and linear"));
  }
  for (const char* feature : kFeaturesNotComputed) {
    // 0 says that the model does without.
    if (reader.Has(feature) && file.Uint(reader.Key(feature)).value_or(1) != 0 &&
        file.Float(reader.Key(feature)).value_or(1) != 0) {
      return absl::UnimplementedError(absl::StrCat("the model needs ", reader.Key(feature),
                                                   ", which this executor does not compute"));
    }
  }
  if (reader.Has("attention.causal")) {
    absl::StatusOr<bool> causal = file.Bool(reader.Key("attention.causal"));
    if (!causal.ok()) return causal.status();
    if (!*causal) {
      return absl::UnimplementedError(absl::StrCat(reader.Key("attention.causal"),
                                                   " is false; this executor computes decoders, not encoders"));
    }
  }
  int32_t window = reader.IntOr("attention.sliding_window", 0, 1 << 24, 0);
  if (h.architecture->sliding_period > 0) {
    h.window = window;
    h.sliding_period = reader.IntOr("attention.sliding_window_pattern", 1, 1024, h.architecture->sliding_period);
    h.rope_base_sliding = reader.FloatOr("rope.freq_base_swa", 1, 1e12, kGemmaSlidingRopeBase);
  } else if (window > 0 && window < h.context_length) {
    return absl::UnimplementedError(absl::StrCat(reader.Key("attention.sliding_window"), " is ", window,
                                                 "; this executor computes no sliding window for ", *name));
  }
  h.attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(h.head_dim)));
  if (h.architecture->scale_embeddings) {
    h.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(h.width)));
    if (h.layers == kGemma27bLayers) {
      h.attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(h.width) / h.heads));
    }
  }
  if (!reader.status().ok()) return reader.status();
  return h;
}

}  // namespace tercet::executor
