// A GGUF model file, parsed and checked as a whole.
//
// Owns: the read-only mapping of the file (Open), or nothing but views of borrowed bytes (Parse).
// Promises, once Open or Parse has succeeded:
//   1. Every tensor's bytes lie inside the file, start at a multiple of the alignment and overlap no other tensor's;
//   their
//      number is the one its type and dimensions call for; each dimension is at least 1, rows are whole blocks.
//   2. Keys and tensor names are unique and not empty. Arrays are flat, strings are complete, truth values are 0 or 1.
//   3. Nothing declared was believed before it was compared with the bytes left in the file: refusing a file costs no
//      memory, whatever it claims. Metadata are views into the file, so accepting one costs little as well.
// A malformed file is an InvalidArgument status with one sentence: where, what is wrong, which bytes. Never an abort.
// Versions 2 and 3, little-endian, one file (parts of a split model are refused by name).
//
// Thread safety: immutable after construction; DropPages may be called at any time.
// Lifetime: names are copies; Tensor::data, string views and metadata values live as long as the File.
// A mapping cannot outlive the file's bytes: if somebody truncates the file in place, touching data behind the new end
// is SIGBUS. So whoever serves from it copies what it needs and lets go of the File before it serves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "common/gguf/tensor_type.h"
#include "common/gguf/value.h"

namespace tercet::gguf {

struct Tensor {
  std::string name;
  TensorType type;
  // 1 … 4 of them, each ≥ 1; [0] is the fastest (a row's length).
  std::vector<uint64_t> dimensions;
  std::span<const std::byte> data;

  // Product of the dimensions; < 2^63.
  uint64_t elements() const;
};

class File {
 public:
  // Maps and checks the file at `path` (symbolic links are followed). NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT
  // (not a regular file, empty, malformed); the message begins with the path.
  static absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path);

  // The same checks over bytes which the caller keeps alive and unchanged as long as the File.
  static absl::StatusOr<std::unique_ptr<File>> Parse(std::span<const std::byte> bytes);

  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  uint32_t version() const { return version_; }
  // Bytes of the whole file.
  uint64_t size_bytes() const { return bytes_.size(); }
  // The file's bytes, for hashing.
  std::span<const std::byte> bytes() const { return bytes_; }

  // In the order of the file.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  // nullptr when there is none of that name.
  const Tensor* Find(std::string_view name) const;

  using Metadata = std::map<std::string, Value, std::less<>>;
  const Metadata& metadata() const { return metadata_; }
  bool Has(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }

  // Typed access by key. NOT_FOUND: there is no such key. INVALID_ARGUMENT: it has another type; the message names key,
  // type found and type expected.
  //
  // Uint: an integer of any width that is not negative. Float: f32 or f64, finite.
  absl::StatusOr<uint64_t> Uint(std::string_view key) const;
  absl::StatusOr<double> Float(std::string_view key) const;
  absl::StatusOr<std::string> String(std::string_view key) const;
  absl::StatusOr<bool> Bool(std::string_view key) const;
  // Strings: views into the file. Floats: an array of f32. Ints: an array of 32- or 64-bit integers (u64 < 2^63).
  // Bools: of bool.
  absl::StatusOr<std::vector<std::string_view>> Strings(std::string_view key) const;
  absl::StatusOr<std::vector<float>> Floats(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> Ints(std::string_view key) const;
  absl::StatusOr<std::vector<bool>> Bools(std::string_view key) const;

  // Gives the memory of the mapped pages back to the system; they are read again from disk when touched. For a loader
  // that walks a file larger than it may keep resident.
  void DropPages() const;

 private:
  friend class Parser;
  File() = default;

  absl::StatusOr<Value> Get(std::string_view key) const;

  std::span<const std::byte> bytes_;
  bool mapped_ = false;
  uint32_t version_ = 0;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace tercet::gguf
