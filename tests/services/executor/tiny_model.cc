#include "tests/services/executor/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <span>
#include <stdexcept>

#include "common/text/byte_alphabet.h"
#include "kernels/half.h"
#include "tests/common/gguf/gguf_builder.h"

namespace tercet::executor {
namespace {

using gguf::GgufBuilder;
using kernels::Format;

constexpr uint32_t kU32 = 4, kF32 = 6, kString = 8, kArray = 9;

uint32_t TypeOf(Format format) {
  switch (format) {
    case Format::kF32: return 0;
    case Format::kF16: return 1;
    case Format::kQ4_0: return 2;
    case Format::kQ4_1: return 3;
    case Format::kQ5_0: return 6;
    case Format::kQ5_1: return 7;
    case Format::kQ8_0: return 8;
    case Format::kQ4_K: return 12;
    case Format::kQ5_K: return 13;
    case Format::kQ6_K: return 14;
    case Format::kBF16: return 30;
  }
  return 0;
}

// Numbers in [-1, 1) from an engine whose sequence the standard fixes (distributions differ between libraries).
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t Bits() { return engine_(); }
  float Uniform() { return static_cast<float>(engine_() >> 8) * 0x1p-23f - 1.0f; }

 private:
  std::mt19937 engine_;
};

void PutHalf(std::byte* to, float value) {
  uint16_t bits = kernels::FloatToHalf(value);
  std::memcpy(to, &bits, sizeof(bits));
}

// A GGUF block of random weights of about the size `spread`.
void FillBlock(Format format, float spread, Random& random, std::byte* block) {
  int64_t bytes = kernels::BlockBytes(format);
  if (format == Format::kF32 || format == Format::kF16 || format == Format::kBF16) {
    float value = spread * random.Uniform();
    if (format == Format::kF32) std::memcpy(block, &value, sizeof(value));
    if (format == Format::kF16) PutHalf(block, value);
    if (format == Format::kBF16) std::memcpy(block, reinterpret_cast<const std::byte*>(&value) + 2, 2);
    return;
  }
  for (int64_t i = 0; i < bytes; ++i) block[i] = static_cast<std::byte>(random.Bits() >> 13);
  float d = spread * (1 + 0.5f * random.Uniform());
  switch (format) {
    case Format::kQ8_0: PutHalf(block, d / 127); break;
    case Format::kQ4_0: PutHalf(block, d / 8); break;
    case Format::kQ5_0: PutHalf(block, d / 16); break;
    case Format::kQ4_1: PutHalf(block, 2 * d / 15), PutHalf(block + 2, -d); break;
    case Format::kQ5_1: PutHalf(block, 2 * d / 31), PutHalf(block + 2, -d); break;
    case Format::kQ4_K: PutHalf(block, 2 * d / 15 / 32), PutHalf(block + 2, d / 32); break;
    case Format::kQ5_K: PutHalf(block, 2 * d / 31 / 32), PutHalf(block + 2, d / 32); break;
    case Format::kQ6_K: PutHalf(block + 208, d / 32 / 64); break;
    default: break;
  }
}

std::vector<std::byte> RandomRows(Format format, int64_t rows, int64_t cols, float spread, Random& random) {
  std::vector<std::byte> data(rows * kernels::RowBytes(format, cols));
  int64_t bytes = kernels::BlockBytes(format);
  for (size_t i = 0; i < data.size(); i += bytes) FillBlock(format, spread, random, data.data() + i);
  return data;
}

template <typename T>
std::vector<std::byte> Encoded(const T& value) {
  std::vector<std::byte> bytes;
  GgufBuilder::Put(&bytes, value);
  return bytes;
}

std::vector<std::byte> EncodedString(const std::string& value) {
  std::vector<std::byte> bytes;
  GgufBuilder::PutString(&bytes, value);
  return bytes;
}

std::vector<std::byte> EncodedStrings(const std::vector<std::string>& values) {
  std::vector<std::byte> bytes;
  GgufBuilder::Put<uint32_t>(&bytes, kString);
  GgufBuilder::Put<uint64_t>(&bytes, values.size());
  for (const std::string& value : values) GgufBuilder::PutString(&bytes, value);
  return bytes;
}

void AddVocabulary(const TinyModelOptions& options, TinyFile* file) {
  // <|bos|>, <|eos|>, <|end|>, then bytes, then pairs "e ", "th", …: as many merges as there is room for.
  std::vector<std::string> tokens = {"<|bos|>", "<|eos|>", "<|end|>"}, merges;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(text::TokenOfByte(static_cast<unsigned char>(byte)));
  const std::string letters = " etaoinshrdlu";
  for (char first : letters) {
    for (char second : letters) {
      if (tokens.size() >= static_cast<size_t>(options.vocabulary)) break;
      std::string a = text::TokenOfByte(static_cast<unsigned char>(first)), b = text::TokenOfByte(static_cast<unsigned char>(second));
      tokens.push_back(a + b);
      merges.push_back(a + " " + b);
    }
  }
  while (tokens.size() < static_cast<size_t>(options.vocabulary)) tokens.push_back("<|unused" + std::to_string(tokens.size()) + "|>");
  std::vector<std::byte> types;
  GgufBuilder::Put<uint32_t>(&types, 5);
  GgufBuilder::Put<uint64_t>(&types, tokens.size());
  for (const std::string& token : tokens) {
    bool control = token.starts_with("<|");
    GgufBuilder::Put<int32_t>(&types, control ? 3 : 1);
  }
  file->SetString("tokenizer.ggml.model", "gpt2");
  file->SetString("tokenizer.ggml.pre", "smollm");
  file->metadata.push_back({"tokenizer.ggml.tokens", kArray, EncodedStrings(tokens)});
  file->metadata.push_back({"tokenizer.ggml.token_type", kArray, types});
  file->metadata.push_back({"tokenizer.ggml.merges", kArray, EncodedStrings(merges)});
  file->SetUint("tokenizer.ggml.bos_token_id", 0);
  file->SetUint("tokenizer.ggml.eos_token_id", 1);
  file->SetString("tokenizer.chat_template",
                  "{% for m in messages %}<|bos|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
                  "{% if add_generation_prompt %}<|bos|>assistant\n{% endif %}");
}

}  // namespace

TinyTensor& TinyFile::Tensor(const std::string& name) {
  auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TinyTensor& t) { return t.name == name; });
  if (found == tensors.end()) throw std::logic_error("the tiny model has no tensor " + name);
  return *found;
}

void TinyFile::RemoveTensor(const std::string& name) {
  std::erase_if(tensors, [&](const TinyTensor& t) { return t.name == name; });
}

void TinyFile::RemoveKey(const std::string& key) {
  std::erase_if(metadata, [&](const TinyMetadata& m) { return m.key == key; });
}

void TinyFile::SetUint(const std::string& key, uint32_t value) {
  RemoveKey(key);
  metadata.push_back({key, kU32, Encoded(value)});
}

void TinyFile::SetFloat(const std::string& key, float value) {
  RemoveKey(key);
  metadata.push_back({key, kF32, Encoded(value)});
}

void TinyFile::SetString(const std::string& key, const std::string& value) {
  RemoveKey(key);
  metadata.push_back({key, kString, EncodedString(value)});
}

std::vector<std::byte> TinyFile::Build() const {
  GgufBuilder builder;
  for (const TinyMetadata& m : metadata) builder.Raw(m.key, m.type, m.value);
  for (const TinyTensor& t : tensors) builder.Tensor(t.name, t.type, t.dimensions, t.data);
  return builder.Build();
}

TinyFile MakeTinyFile(const TinyModelOptions& options) {
  TinyFile file;
  const std::string& arch = options.architecture;
  file.SetString("general.architecture", arch);
  file.SetString("general.name", "tiny " + arch);
  file.SetUint(arch + ".block_count", options.layers);
  file.SetUint(arch + ".embedding_length", options.width);
  file.SetUint(arch + ".attention.head_count", options.heads);
  file.SetUint(arch + ".attention.head_count_kv", options.kv_heads);
  file.SetUint(arch + ".feed_forward_length", options.mlp_width);
  file.SetUint(arch + ".context_length", options.context_length);
  file.SetFloat(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  file.SetFloat(arch + ".rope.freq_base", arch == "gemma3" ? 1e6f : 1e4f);
  if (options.head_dim * options.heads != options.width) {
    file.SetUint(arch + ".attention.key_length", options.head_dim);
    file.SetUint(arch + ".attention.value_length", options.head_dim);
  }
  if (options.window > 0) file.SetUint(arch + ".attention.sliding_window", options.window);
  AddVocabulary(options, &file);

  Random random(options.seed);
  auto matrix = [&](const std::string& name, int rows, int cols, float gain = 1.0f) {
    Format format = options.format_of ? options.format_of(name) : options.format;
    float spread = gain * std::sqrt(3.0f / static_cast<float>(cols));
    file.tensors.push_back({name, TypeOf(format), {static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)},
                            RandomRows(format, rows, cols, spread, random)});
  };
  auto vector = [&](const std::string& name, int size, float middle, float spread) {
    std::vector<float> values(size);
    for (float& value : values) value = middle + spread * random.Uniform();
    auto bytes = std::as_bytes(std::span(values));
    file.tensors.push_back({name, 0, {static_cast<uint64_t>(size)}, {bytes.begin(), bytes.end()}});
  };
  int q_rows = options.heads * options.head_dim, kv_rows = options.kv_heads * options.head_dim;
  matrix("token_embd.weight", options.vocabulary, options.width, 3);
  for (int i = 0; i < options.layers; ++i) {
    std::string prefix = "blk." + std::to_string(i) + ".";
    vector(prefix + "attn_norm.weight", options.width, 1, 0.3f);
    matrix(prefix + "attn_q.weight", q_rows, options.width, 1.5f);
    matrix(prefix + "attn_k.weight", kv_rows, options.width, 1.5f);
    matrix(prefix + "attn_v.weight", kv_rows, options.width);
    if (arch == "qwen2") {
      vector(prefix + "attn_q.bias", q_rows, 0, 0.5f);
      vector(prefix + "attn_k.bias", kv_rows, 0, 0.5f);
      vector(prefix + "attn_v.bias", kv_rows, 0, 0.5f);
    }
    if (arch == "gemma3") {
      vector(prefix + "attn_q_norm.weight", options.head_dim, 1.5f, 0.3f);
      vector(prefix + "attn_k_norm.weight", options.head_dim, 1.5f, 0.3f);
      vector(prefix + "post_attention_norm.weight", options.width, 1, 0.3f);
      vector(prefix + "post_ffw_norm.weight", options.width, 1, 0.3f);
    }
    matrix(prefix + "attn_output.weight", options.width, q_rows);
    vector(prefix + "ffn_norm.weight", options.width, 1, 0.3f);
    matrix(prefix + "ffn_gate.weight", options.mlp_width, options.width, 1.5f);
    matrix(prefix + "ffn_up.weight", options.mlp_width, options.width);
    matrix(prefix + "ffn_down.weight", options.width, options.mlp_width);
  }
  vector("output_norm.weight", options.width, 1, 0.3f);
  if (options.own_head) matrix("output.weight", options.vocabulary, options.width, 3);
  if (options.rope_factors) vector("rope_freqs.weight", options.head_dim / 2, 4, 3);
  return file;
}

std::vector<std::byte> MakeTinyModel(const TinyModelOptions& options) { return MakeTinyFile(options).Build(); }

void WriteTinyModel(const TinyModelOptions& options, const std::string& path) {
  std::vector<std::byte> bytes = MakeTinyModel(options);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
}

}  // namespace tercet::executor
