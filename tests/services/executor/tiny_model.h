// Makes small models with random weights, as GGUF files in memory: every architecture, every weight format, any shape.
//
// The same options give the same bytes on every machine. The vocabulary is byte-level BPE with the 256 bytes, some merges and
// three control tokens, so that a tokenizer loads the file as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/formats.h"

namespace tercet::executor {

struct TinyModelOptions {
  std::string architecture = "llama";
  kernels::Format format = kernels::Format::kQ8_0;
  // Of the matrices that are mixed in with `format` in real files: v and down. The default: `format`.
  std::function<kernels::Format(const std::string& tensor)> format_of;
  int layers = 2;
  int width = 64;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;  // written as attention.key_length when it is not width / heads
  int mlp_width = 96;
  int vocabulary = 300;  // ≥ 300
  int context_length = 4096;
  int window = 0;       // gemma3 only; 0: not written
  bool own_head = false;
  bool rope_factors = false;
  uint32_t seed = 1;
};

// What a test changes before the file is written.
struct TinyTensor {
  std::string name;
  uint32_t type;
  std::vector<uint64_t> dimensions;
  std::vector<std::byte> data;
};
struct TinyMetadata {
  std::string key;
  uint32_t type;  // of GGUF: 4 u32, 6 f32, 7 bool, 8 string
  std::vector<std::byte> value;
};
struct TinyFile {
  std::vector<TinyMetadata> metadata;
  std::vector<TinyTensor> tensors;

  TinyTensor& Tensor(const std::string& name);
  void RemoveTensor(const std::string& name);
  // Replaces or adds.
  void SetUint(const std::string& key, uint32_t value);
  void SetFloat(const std::string& key, float value);
  void SetString(const std::string& key, const std::string& value);
  void RemoveKey(const std::string& key);

  std::vector<std::byte> Build() const;
};

// The parts of a model, to be changed.
TinyFile MakeTinyFile(const TinyModelOptions& options);
// The bytes of a model, for gguf::File::Parse, which borrows them.
std::vector<std::byte> MakeTinyModel(const TinyModelOptions& options);
// The same as a file.
void WriteTinyModel(const TinyModelOptions& options, const std::string& path);

}  // namespace tercet::executor
