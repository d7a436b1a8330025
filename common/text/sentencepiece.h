// The SentencePiece library, loaded as a module (see sentencepiece_module.cc for why). Immutable after Load; thread-safe.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tercet::text {

class SentencePieceEncoder {
 public:
  SentencePieceEncoder() = default;
  ~SentencePieceEncoder();
  SentencePieceEncoder(const SentencePieceEncoder&) = delete;
  SentencePieceEncoder& operator=(const SentencePieceEncoder&) = delete;

  // Loads a serialized model. INVALID_ARGUMENT: the library refuses it; FAILED_PRECONDITION: the module cannot be loaded.
  absl::Status Load(const std::string& model);

  // Appends the ids of `text`, which is valid UTF-8. Only after Load.
  absl::Status Encode(std::string_view text, std::vector<uint32_t>* ids) const;

 private:
  void* processor_ = nullptr;
};

}  // namespace tercet::text
