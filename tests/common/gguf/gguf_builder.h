// Makes GGUF files for tests: good ones through the named methods, broken ones by overriding what is declared.
//
//   std::vector<std::byte> file = GgufBuilder().String("general.architecture", "llama").Tensor("t", 0, {4},
//   bytes).Build();
//
// Everything is kept in the order given. Nothing is checked: a test says exactly what it wants in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tercet::gguf {

class GgufBuilder {
 public:
  using Bytes = std::vector<std::byte>;

  // Little-endian encodings, for values that the methods below do not offer.
  template <typename T>
  static void Put(Bytes* to, T value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    to->insert(to->end(), from, from + sizeof(T));
  }
  static void PutString(Bytes* to, std::string_view text) {
    Put<uint64_t>(to, text.size());
    for (char c : text) to->push_back(static_cast<std::byte>(c));
  }

  GgufBuilder& Version(uint32_t version) {
    version_ = version;
    return *this;
  }
  // What the header says, instead of the true numbers.
  GgufBuilder& DeclareTensors(uint64_t count) {
    declared_tensors_ = count;
    return *this;
  }
  GgufBuilder& DeclareMetadata(uint64_t count) {
    declared_metadata_ = count;
    return *this;
  }

  // Any value: `type` and the bytes behind it.
  GgufBuilder& Raw(std::string_view key, uint32_t type, const Bytes& value) {
    PutString(&metadata_, key);
    Put(&metadata_, type);
    metadata_.insert(metadata_.end(), value.begin(), value.end());
    ++metadata_count_;
    return *this;
  }
  template <typename T>
  GgufBuilder& Number(std::string_view key, uint32_t type, T value) {
    Bytes bytes;
    Put(&bytes, value);
    return Raw(key, type, bytes);
  }
  GgufBuilder& Uint(std::string_view key, uint32_t value) { return Number(key, 4, value); }
  GgufBuilder& Float(std::string_view key, float value) { return Number(key, 6, value); }
  GgufBuilder& Bool(std::string_view key, bool value) { return Number<uint8_t>(key, 7, value ? 1 : 0); }
  GgufBuilder& String(std::string_view key, std::string_view value) {
    Bytes bytes;
    PutString(&bytes, value);
    return Raw(key, 8, bytes);
  }
  template <typename Container>
  GgufBuilder& Strings(std::string_view key, const Container& values) {
    Bytes bytes;
    Put<uint32_t>(&bytes, 8);
    Put<uint64_t>(&bytes, std::size(values));
    for (const auto& value : values) PutString(&bytes, value);
    return Raw(key, 9, bytes);
  }
  // `element_type`: 4 u32, 5 i32, 6 f32, 7 bool, …, which must be T's.
  template <typename T>
  GgufBuilder& Array(std::string_view key, uint32_t element_type, const std::vector<T>& values) {
    Bytes bytes;
    Put(&bytes, element_type);
    Put<uint64_t>(&bytes, values.size());
    for (const T& value : values) Put(&bytes, value);
    return Raw(key, 9, bytes);
  }

  // Where and how tensors are laid out; does not write general.alignment.
  GgufBuilder& Alignment(uint64_t alignment) {
    alignment_ = alignment;
    return *this;
  }
  // A tensor with its data, placed at the next aligned offset, or at `offset` if given.
  GgufBuilder& Tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& dimensions,
                      std::span<const std::byte> data, std::optional<uint64_t> offset = std::nullopt) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_);
    PutString(&tensors_, name);
    Put<uint32_t>(&tensors_, declared_dimensions_.value_or(static_cast<uint32_t>(dimensions.size())));
    for (uint64_t dimension : dimensions) Put(&tensors_, dimension);
    Put(&tensors_, type);
    Put<uint64_t>(&tensors_, offset.value_or(data_.size()));
    data_.insert(data_.end(), data.begin(), data.end());
    ++tensor_count_;
    return *this;
  }
  GgufBuilder& FloatTensor(std::string_view name, const std::vector<uint64_t>& dimensions,
                           const std::vector<float>& data) {
    return Tensor(name, 0, dimensions, std::as_bytes(std::span(data)));
  }
  // What the following tensors say about how many dimensions they have.
  GgufBuilder& DeclareDimensions(uint32_t count) {
    declared_dimensions_ = count;
    return *this;
  }

  Bytes Build() const {
    Bytes file;
    for (char c : std::string_view("GGUF")) file.push_back(static_cast<std::byte>(c));
    Put(&file, version_);
    Put<uint64_t>(&file, declared_tensors_.value_or(tensor_count_));
    Put<uint64_t>(&file, declared_metadata_.value_or(metadata_count_));
    file.insert(file.end(), metadata_.begin(), metadata_.end());
    file.insert(file.end(), tensors_.begin(), tensors_.end());
    if (tensor_count_ > 0) file.resize((file.size() + alignment_ - 1) / alignment_ * alignment_);
    file.insert(file.end(), data_.begin(), data_.end());
    return file;
  }
  void Write(const std::string& path) const {
    const Bytes file = Build();
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(file.data()), std::ssize(file));
  }

 private:
  uint32_t version_ = 3;
  uint64_t alignment_ = 32;
  uint64_t metadata_count_ = 0;
  uint64_t tensor_count_ = 0;
  std::optional<uint64_t> declared_tensors_;
  std::optional<uint64_t> declared_metadata_;
  std::optional<uint32_t> declared_dimensions_;
  Bytes metadata_;
  Bytes tensors_;
  Bytes data_;
};

}  // namespace tercet::gguf
