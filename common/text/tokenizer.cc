#include "common/text/tokenizer.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "common/text/bpe.h"
#include "common/text/pretokenizer.h"
#include "common/text/sentencepiece.h"
#include "common/text/utf8.h"
#include "sentencepiece_model.pb.h"

namespace tercet::text {
namespace {

class BytePairTokenizer : public Tokenizer {
 public:
  BytePairTokenizer(std::shared_ptr<const Vocabulary> vocabulary, const PretokenizerRules& rules, BytePairEncoder encoder)
      : Tokenizer(std::move(vocabulary)), rules_(rules), encoder_(std::move(encoder)) {}

 protected:
  absl::Status EncodeFragment(std::string_view text, bool, std::vector<uint32_t>* ids) const override {
    // Words repeat: where in `ids` the last occurrence of a short piece was encoded. Bounded, and gone with the call.
    struct Range {
      size_t begin, count;
    };
    constexpr size_t kMaxCachedPieces = 1 << 15, kMaxCachedBytes = 32;
    absl::flat_hash_map<std::string_view, Range> seen;
    for (size_t begin = 0; begin < text.size();) {
      size_t end = PieceEnd(rules_, text, begin);
      std::string_view piece = text.substr(begin, end - begin);
      begin = end;
      if (piece.size() > kMaxCachedBytes) {
        encoder_.Encode(piece, ids);
        continue;
      }
      auto found = seen.find(piece);
      if (found != seen.end()) {
        // Not insert(): the range lies in the vector itself.
        for (size_t i = 0; i < found->second.count; ++i) {
          uint32_t id = (*ids)[found->second.begin + i];
          ids->push_back(id);
        }
        continue;
      }
      size_t first = ids->size();
      encoder_.Encode(piece, ids);
      if (seen.size() < kMaxCachedPieces) seen.emplace(piece, Range{first, ids->size() - first});
    }
    return absl::OkStatus();
  }

 private:
  PretokenizerRules rules_;
  BytePairEncoder encoder_;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(std::shared_ptr<const Vocabulary> vocabulary) : Tokenizer(std::move(vocabulary)) {}

  absl::Status Load() {
    const Vocabulary& v = vocabulary();
    sentencepiece::Model model;
    bool has_bytes = false;
    for (uint32_t id = 0; id < v.size(); ++id) {
      sentencepiece::Piece* piece = model.add_pieces();
      piece->set_piece(v.token(id));
      piece->set_score(v.scores()[id]);
      TokenType type = v.type(id);
      // The library knows one unknown token.
      if (type == TokenType::kUnknown && id != v.unknown()) type = TokenType::kUnused;
      piece->set_type(static_cast<int32_t>(type));
      has_bytes = has_bytes || type == TokenType::kByte;
    }
    model.mutable_pieces(static_cast<int>(*v.unknown()))->set_type(static_cast<int32_t>(TokenType::kUnknown));
    sentencepiece::TrainerSpec* trainer = model.mutable_trainer_spec();
    trainer->set_model_type(2);
    trainer->set_vocab_size(static_cast<int32_t>(v.size()));
    trainer->set_byte_fallback(has_bytes);
    trainer->set_unk_id(static_cast<int32_t>(*v.unknown()));
    trainer->set_unk_piece(v.token(*v.unknown()));
    // Where a text gets a space in front is decided here, fragment by fragment.
    sentencepiece::NormalizerSpec* normalizer = model.mutable_normalizer_spec();
    normalizer->set_name("identity");
    normalizer->set_add_dummy_prefix(false);
    normalizer->set_remove_extra_whitespaces(false);
    normalizer->set_escape_whitespaces(true);
    return encoder_.Load(model.SerializeAsString());
  }

 protected:
  absl::Status EncodeFragment(std::string_view text, bool after_special, std::vector<uint32_t>* ids) const override {
    std::string prefixed;
    if (after_special && vocabulary().add_space_prefix()) {
      prefixed = absl::StrCat(" ", std::string(text));
      text = prefixed;
    }
    return encoder_.Encode(text, ids);
  }

 private:
  SentencePieceEncoder encoder_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::Create(std::shared_ptr<const Vocabulary> vocabulary) {
  switch (vocabulary->kind()) {
    case VocabularyKind::kByteLevelBpe: {
      absl::StatusOr<PretokenizerRules> rules = FindPretokenizer(vocabulary->pretokenizer());
      if (!rules.ok()) return rules.status();
      absl::StatusOr<BytePairEncoder> encoder = BytePairEncoder::Create(*vocabulary, rules->whole_piece_first);
      if (!encoder.ok()) return encoder.status();
      return std::make_unique<BytePairTokenizer>(std::move(vocabulary), *rules, *std::move(encoder));
    }
    case VocabularyKind::kSentencePiece: {
      auto tokenizer = std::make_unique<SentencePieceTokenizer>(std::move(vocabulary));
      if (absl::Status status = tokenizer->Load(); !status.ok()) return status;
      return tokenizer;
    }
  }
  return absl::InternalError("a kind of vocabulary without a tokenizer");
}

Tokenizer::Tokenizer(std::shared_ptr<const Vocabulary> vocabulary) : vocabulary_(std::move(vocabulary)) {
  for (uint32_t id = 0; id < vocabulary_->size(); ++id) {
    const std::string& token = vocabulary_->token(id);
    if (token.empty()) continue;
    TokenType type = vocabulary_->type(id);
    // SentencePiece finds its user-defined tokens itself, spaces in them included.
    bool always = type == TokenType::kUserDefined && vocabulary_->kind() == VocabularyKind::kByteLevelBpe;
    if (always) always_.Add(token, id);
    if (always || type == TokenType::kControl) with_special_.Add(token, id);
  }
}

absl::StatusOr<std::vector<uint32_t>> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  if (!IsValidUtf8(text)) return absl::InvalidArgumentError("the text is not valid UTF-8");
  std::vector<uint32_t> ids;
  ids.reserve(text.size() / 4 + 2);
  if (options.add_special && vocabulary_->add_bos()) ids.push_back(*vocabulary_->bos());
  const TokenTrie& special = options.parse_special ? with_special_ : always_;
  size_t begin = 0;
  bool after_special = true;
  auto encode_until = [&](size_t end) -> absl::Status {
    if (end == begin) return absl::OkStatus();
    absl::Status status = EncodeFragment(text.substr(begin, end - begin), after_special, &ids);
    after_special = false;
    return status;
  };
  if (!special.empty()) {
    size_t next_literal = 0;
    for (size_t at = 0; at < text.size();) {
      std::optional<TokenTrie::Match> match = special.LongestAt(text, at);
      while (next_literal < options.literal_at.size() && options.literal_at[next_literal] < at) ++next_literal;
      bool literal = next_literal < options.literal_at.size() && options.literal_at[next_literal] == at;
      if (!match.has_value() || (literal && vocabulary_->is_control(match->id))) {
        ++at;
        continue;
      }
      if (absl::Status status = encode_until(at); !status.ok()) return status;
      ids.push_back(match->id);
      after_special = true;
      at += match->bytes;
      begin = at;
    }
  }
  if (absl::Status status = encode_until(text.size()); !status.ok()) return status;
  if (options.add_special && vocabulary_->add_eos()) ids.push_back(*vocabulary_->eos());
  return ids;
}

std::vector<size_t> Tokenizer::FindSpecial(std::string_view text) const {
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size(); ++at) {
    std::optional<TokenTrie::Match> match = with_special_.LongestAt(text, at);
    if (match.has_value() && vocabulary_->is_control(match->id)) offsets.push_back(at);
  }
  return offsets;
}

absl::StatusOr<std::string> Tokenizer::Decode(const std::vector<uint32_t>& ids, bool include_special) const {
  std::string bytes;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocabulary_->size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("id ", ids[i], " at index ", i, " is outside the vocabulary of ", vocabulary_->size()));
    }
    if (!vocabulary_->is_control(ids[i]) || include_special) bytes += vocabulary_->piece(ids[i]);
  }
  if (vocabulary_->add_space_prefix() && !bytes.empty() && bytes[0] == ' ') bytes.erase(0, 1);
  return ReplaceInvalid(bytes);
}

}  // namespace tercet::text
