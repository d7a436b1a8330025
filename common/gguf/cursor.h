// A checked walk through bytes: nothing is read that is not there, and nothing is added that could wrap.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace tercet::gguf {

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }

  // Reads one little-endian number. `what` names it in the error: "the number of tensors".
  template <typename T>
  absl::Status Read(std::string_view what, T* value) {
    if (left() < sizeof(T)) return Truncated(what, sizeof(T));
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return absl::OkStatus();
  }

  // Takes `count` bytes as a view.
  absl::Status Take(std::string_view what, uint64_t count, std::span<const std::byte>* bytes) {
    if (count > left()) return Truncated(what, count);
    *bytes = bytes_.subspan(position_, count);
    position_ += count;
    return absl::OkStatus();
  }

 private:
  absl::Status Truncated(std::string_view what, uint64_t needed) const {
    return absl::InvalidArgumentError(
        fmt::format("the file ends inside {}: {} bytes needed at byte {}, {} left", what, needed, position_, left()));
  }

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace tercet::gguf
