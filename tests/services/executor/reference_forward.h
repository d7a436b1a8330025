// The decoder in double precision, written down as plainly as possible: what the forward pass is compared with. Only keys and
// values are rounded to f16, as the pages store them.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/gguf/file.h"
#include "kernels/formats.h"
#include "kernels/half.h"
#include "tests/services/executor/tiny_model.h"

namespace tercet::executor {

class ReferenceForward {
 public:
  using Vector = std::vector<double>;

  ReferenceForward(const gguf::File& file, const TinyModelOptions& options) : o_(options) {
    for (const gguf::Tensor& tensor : file.tensors()) weights_[tensor.name] = Dequantized(tensor);
  }

  // Logits of every position of one sequence.
  std::vector<Vector> Logits(std::span<const uint32_t> ids) {
    keys_.assign(o_.layers, {});
    values_.assign(o_.layers, {});
    std::vector<Vector> logits;
    for (size_t position = 0; position < ids.size(); ++position) logits.push_back(Step(ids[position], position));
    return logits;
  }

 private:
  bool gemma() const { return o_.architecture == "gemma3"; }
  bool sliding(int layer) const { return gemma() && o_.window > 0 && (layer + 1) % 6 != 0; }

  static std::vector<float> Dequantized(const gguf::Tensor& tensor) {
    static const std::map<gguf::TensorType, kernels::Format> kFormats = {
        {gguf::TensorType::kF32, kernels::Format::kF32},   {gguf::TensorType::kF16, kernels::Format::kF16},
        {gguf::TensorType::kBF16, kernels::Format::kBF16}, {gguf::TensorType::kQ8_0, kernels::Format::kQ8_0},
        {gguf::TensorType::kQ4_0, kernels::Format::kQ4_0}, {gguf::TensorType::kQ4_1, kernels::Format::kQ4_1},
        {gguf::TensorType::kQ5_0, kernels::Format::kQ5_0}, {gguf::TensorType::kQ5_1, kernels::Format::kQ5_1},
        {gguf::TensorType::kQ4_K, kernels::Format::kQ4_K}, {gguf::TensorType::kQ5_K, kernels::Format::kQ5_K},
        {gguf::TensorType::kQ6_K, kernels::Format::kQ6_K}};
    std::vector<float> values(tensor.elements());
    kernels::DequantizeRow(kFormats.at(tensor.type), tensor.data.data(), static_cast<int64_t>(values.size()), values.data());
    return values;
  }

  Vector Multiply(const std::string& name, const Vector& x) const {
    const std::vector<float>& w = weights_.at(name);
    Vector out(w.size() / x.size());
    for (size_t n = 0; n < out.size(); ++n) {
      for (size_t k = 0; k < x.size(); ++k) out[n] += w[n * x.size() + k] * x[k];
    }
    return out;
  }

  Vector Norm(const std::string& name, std::span<const double> x) const {
    double squares = 0;
    for (double value : x) squares += value * value;
    double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    Vector out(x.begin(), x.end());
    for (size_t i = 0; i < x.size(); ++i) out[i] *= factor * weights_.at(name)[i];
    return out;
  }

  void AddBias(const std::string& name, Vector& x) const {
    for (size_t i = 0; i < x.size(); ++i) x[i] += weights_.at(name)[i];
  }

  // Norm and rotation of one head of Q or K.
  void Turn(const std::string& norm, int layer, size_t position, std::span<double> head) const {
    if (gemma()) {
      Vector normed = Norm(norm, head);
      std::copy(normed.begin(), normed.end(), head.begin());
    }
    double base = gemma() && !sliding(layer) ? 1e6 : 1e4;
    size_t pairs = head.size() / 2;
    for (size_t i = 0; i < pairs; ++i) {
      double angle = static_cast<double>(position) * std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs));
      if (o_.rope_factors) angle /= weights_.at("rope_freqs.weight")[i];
      bool interleaved = o_.architecture == "llama";
      double& a = head[interleaved ? 2 * i : i];
      double& b = head[interleaved ? 2 * i + 1 : i + pairs];
      double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }

  Vector Attention(int layer, const std::string& prefix, size_t position, const Vector& normed) {
    size_t dim = o_.head_dim;
    Vector q = Multiply(prefix + "attn_q.weight", normed), k = Multiply(prefix + "attn_k.weight", normed);
    Vector v = Multiply(prefix + "attn_v.weight", normed);
    if (o_.architecture == "qwen2") {
      AddBias(prefix + "attn_q.bias", q);
      AddBias(prefix + "attn_k.bias", k);
      AddBias(prefix + "attn_v.bias", v);
    }
    for (int h = 0; h < o_.heads; ++h) Turn(prefix + "attn_q_norm.weight", layer, position, std::span(q).subspan(h * dim, dim));
    for (int h = 0; h < o_.kv_heads; ++h) Turn(prefix + "attn_k_norm.weight", layer, position, std::span(k).subspan(h * dim, dim));
    for (Vector* stored : {&k, &v}) {
      for (double& value : *stored) value = kernels::HalfToFloat(kernels::FloatToHalf(static_cast<float>(value)));
    }
    keys_[layer].push_back(k);
    values_[layer].push_back(v);
    size_t first = sliding(layer) && position + 1 > static_cast<size_t>(o_.window) ? position + 1 - o_.window : 0;
    Vector out(o_.heads * dim);
    for (int h = 0; h < o_.heads; ++h) {
      size_t kv = static_cast<size_t>(h / (o_.heads / o_.kv_heads)) * dim;
      Vector scores;
      double sum = 0;
      for (size_t t = first; t <= position; ++t) {
        double score = 0;
        for (size_t d = 0; d < dim; ++d) score += q[h * dim + d] * keys_[layer][t][kv + d];
        scores.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
        sum += scores.back();
      }
      for (size_t t = first; t <= position; ++t) {
        for (size_t d = 0; d < dim; ++d) out[h * dim + d] += scores[t - first] / sum * values_[layer][t][kv + d];
      }
    }
    return Multiply(prefix + "attn_output.weight", out);
  }

  Vector Mlp(const std::string& prefix, const Vector& normed) const {
    Vector gate = Multiply(prefix + "ffn_gate.weight", normed), up = Multiply(prefix + "ffn_up.weight", normed);
    for (size_t i = 0; i < gate.size(); ++i) {
      double x = gate[i];
      double silu = x / (1 + std::exp(-x));
      double gelu = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      gate[i] = (gemma() ? gelu : silu) * up[i];
    }
    return Multiply(prefix + "ffn_down.weight", gate);
  }

  void Join(const std::string& post_norm, const Vector& branch, Vector& x) const {
    Vector joined = gemma() ? Norm(post_norm, branch) : branch;
    for (size_t i = 0; i < x.size(); ++i) x[i] += joined[i];
  }

  Vector Step(uint32_t id, size_t position) {
    const std::vector<float>& embedding = weights_.at("token_embd.weight");
    Vector x(embedding.begin() + id * o_.width, embedding.begin() + (id + 1) * o_.width);
    if (gemma()) {
      for (double& value : x) value *= std::sqrt(static_cast<double>(o_.width));
    }
    for (int layer = 0; layer < o_.layers; ++layer) {
      std::string prefix = "blk." + std::to_string(layer) + ".";
      Join(prefix + "post_attention_norm.weight", Attention(layer, prefix, position, Norm(prefix + "attn_norm.weight", x)), x);
      Join(prefix + "post_ffw_norm.weight", Mlp(prefix, Norm(prefix + "ffn_norm.weight", x)), x);
    }
    return Multiply(o_.own_head ? "output.weight" : "token_embd.weight", Norm("output_norm.weight", x));
  }

  const TinyModelOptions o_;
  std::map<std::string, std::vector<float>> weights_;
  std::vector<std::vector<Vector>> keys_, values_;  // [layer][position][kv_heads · head_dim]
};

}  // namespace tercet::executor
