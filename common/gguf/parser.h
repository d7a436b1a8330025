// Reads a GGUF file's header, metadata and tensor table into a File, checking everything that File promises.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/gguf/cursor.h"
#include "common/gguf/file.h"

namespace tercet::gguf {

class Parser {
 public:
  // Fills `file` from `bytes`, which must outlive it.
  static absl::Status Parse(std::span<const std::byte> bytes, File* file);

 private:
  Parser(std::span<const std::byte> bytes, File* file) : bytes_(bytes), cursor_(bytes), file_(file) {}

  absl::Status ReadHeader();
  absl::Status ReadMetadata();
  absl::StatusOr<Value> ReadValue(std::string_view where);
  absl::StatusOr<Value> ReadArray(std::string_view where);
  absl::Status ReadString(std::string_view what, std::string_view* text);
  absl::Status CheckNotSplit() const;
  absl::Status ReadAlignment();
  absl::Status ReadTensors();
  absl::Status ReadTensor(uint64_t index);
  absl::Status PlaceTensors();
  absl::Status CheckNoOverlap() const;

  std::span<const std::byte> bytes_;
  Cursor cursor_;
  File* file_;
  uint64_t metadata_count_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t alignment_ = 32;
  // Of each tensor, relative to the data section, and its bytes.
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t> sizes_;
};

}  // namespace tercet::gguf
