// Text to ids, as the model was trained to see them.
//
// Immutable; thread-safe. Time O(n log n) at worst in the length of the text, near linear on text.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/token_trie.h"
#include "common/text/vocabulary.h"

namespace tercet::text {

struct EncodeOptions {
  // Add the BOS and EOS which the vocabulary asks for.
  bool add_special = false;
  // Control tokens written out in the text become those tokens. Only for text that the program itself wrote.
  bool parse_special = false;
  // Offsets in the text, ascending, at which no control token begins all the same: text of a user inside a prompt.
  std::span<const size_t> literal_at;
};

class Tokenizer {
 public:
  // INVALID_ARGUMENT or UNIMPLEMENTED name what in the vocabulary is wrong or not known here.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> Create(std::shared_ptr<const Vocabulary> vocabulary);
  virtual ~Tokenizer() = default;

  const Vocabulary& vocabulary() const { return *vocabulary_; }

  // INVALID_ARGUMENT when the text is not UTF-8.
  absl::StatusOr<std::vector<uint32_t>> Encode(std::string_view text, const EncodeOptions& options) const;

  // Offsets at which a control token's spelling begins, ascending.
  std::vector<size_t> FindSpecial(std::string_view text) const;

  // The text of ids, with U+FFFD for what is not UTF-8; control tokens are left out unless `include_special`.
  // INVALID_ARGUMENT: an id outside the vocabulary.
  absl::StatusOr<std::string> Decode(const std::vector<uint32_t>& ids, bool include_special) const;

 protected:
  explicit Tokenizer(std::shared_ptr<const Vocabulary> vocabulary);

  // Appends the ids of `text`, which holds no special token. `after_special`: it begins the text or follows such a token.
  virtual absl::Status EncodeFragment(std::string_view text, bool after_special, std::vector<uint32_t>* ids) const = 0;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  // Tokens that are found in a text before anything else: always, and with parse_special.
  TokenTrie always_, with_special_;
};

}  // namespace tercet::text
