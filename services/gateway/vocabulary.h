// The vocabulary as the gateway needs it: what each id stands for, so that ids become text without a call to the tokenizer.
//
// Immutable once built, shared by every request that uses it; thread-safe.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tercet::gateway {

class Vocabulary {
 public:
  struct Header {
    std::string fingerprint;  // 16 bytes
    uint32_t size = 0;
    bool has_chat_template = false;
    std::string model_name;
    uint32_t context_length = 0;
    bool strip_leading_space = false;
    std::vector<uint32_t> end_of_generation_ids;
  };

  // Collects the pieces of a vocabulary in the order of their ids. Not thread-safe.
  class Builder {
   public:
    explicit Builder(Header header);
    // INVALID_ARGUMENT unless the pieces are announced in order, none missing and none too many.
    absl::Status Add(uint32_t id, std::string_view bytes, bool control);
    absl::StatusOr<std::shared_ptr<const Vocabulary>> Build();

   private:
    std::shared_ptr<Vocabulary> vocabulary_;
  };

  const Header& header() const { return header_; }
  uint32_t size() const { return header_.size; }
  bool Contains(uint32_t id) const { return id < header_.size; }

  // Raw bytes, possibly a part of a character; for a control token its name. REQUIRES Contains(id).
  std::string_view Piece(uint32_t id) const {
    return std::string_view(bytes_).substr(begins_[id], begins_[id + 1] - begins_[id]);
  }
  // Control tokens are not part of a text.
  bool IsControl(uint32_t id) const { return control_[id]; }
  bool EndsGeneration(uint32_t id) const;

 private:
  Vocabulary() = default;

  Header header_;
  std::string bytes_;            // all pieces, one after the other
  std::vector<uint32_t> begins_;  // [size + 1]
  std::vector<bool> control_;     // [size]
};

}  // namespace tercet::gateway
