// A model's vocabulary: what each id stands for, which ids are special, and the fingerprint by which processes make sure
// that they speak of the same one.
//
// Read from GGUF metadata, every array checked against the others. Immutable; thread-safe. Holds about twice the text of its
// tokens in memory.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/gguf/file.h"

namespace tercet::text {

enum class VocabularyKind : uint8_t {
  kByteLevelBpe,   // tokenizer.ggml.model "gpt2"
  kSentencePiece,  // "llama"
};

// Numbered as in GGUF (tokenizer.ggml.token_type).
enum class TokenType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

class Vocabulary {
 public:
  // INVALID_ARGUMENT names the key and what is wrong; UNIMPLEMENTED a kind of vocabulary that is not known here.
  static absl::StatusOr<std::shared_ptr<const Vocabulary>> Load(const gguf::File& file);

  VocabularyKind kind() const { return kind_; }
  uint32_t size() const { return static_cast<uint32_t>(tokens_.size()); }
  // The token as the file spells it ("Ġthe", "▁the", "<0x0A>").
  const std::string& token(uint32_t id) const { return tokens_[id]; }
  // The bytes it contributes to a text; for a control token, its name.
  const std::string& piece(uint32_t id) const { return pieces_[id]; }
  TokenType type(uint32_t id) const { return types_[id]; }
  bool is_control(uint32_t id) const { return types_[id] == TokenType::kControl; }
  // SentencePiece's score of each token; empty for byte-level BPE.
  const std::vector<float>& scores() const { return scores_; }
  // "left right", in order of rank; empty for SentencePiece.
  const std::vector<std::string>& merges() const { return merges_; }
  // tokenizer.ggml.pre, or "".
  const std::string& pretokenizer() const { return pretokenizer_; }

  std::optional<uint32_t> bos() const { return bos_; }
  std::optional<uint32_t> eos() const { return eos_; }
  std::optional<uint32_t> unknown() const { return unknown_; }
  // Ids that end a generation, ascending.
  const std::vector<uint32_t>& end_of_generation() const { return end_of_generation_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  // A text gets a space in front before it is encoded, which decoding takes off again.
  bool add_space_prefix() const { return add_space_prefix_; }

  // Jinja source, or "" if the file has none.
  const std::string& chat_template() const { return chat_template_; }
  // For people.
  const std::string& model_name() const { return model_name_; }
  // Tokens for which the model was made; 0 if the file does not say.
  uint32_t context_length() const { return context_length_; }

  // 16 bytes: xxh3-128 over everything above but name and context length, each text preceded by its length and each array
  // by its count.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  Vocabulary() = default;

  absl::Status Read(const gguf::File& file);
  absl::Status ReadSpecialIds(const gguf::File& file);
  void FindEndOfGeneration(const gguf::File& file);
  absl::Status SpellPieces();
  void TakeFingerprint();

  VocabularyKind kind_ = VocabularyKind::kByteLevelBpe;
  std::vector<std::string> tokens_, pieces_, merges_;
  std::vector<TokenType> types_;
  std::vector<float> scores_;
  std::string pretokenizer_, chat_template_, model_name_, fingerprint_;
  std::optional<uint32_t> bos_, eos_, unknown_;
  std::vector<uint32_t> end_of_generation_;
  bool add_bos_ = false, add_eos_ = false, add_space_prefix_ = false;
  uint32_t context_length_ = 0;
};

}  // namespace tercet::text
