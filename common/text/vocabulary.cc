#include "common/text/vocabulary.h"

#include <absl/strings/str_cat.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "common/text/byte_alphabet.h"

namespace tercet::text {
namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // ▁, SentencePiece's space
constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxTokenBytes = 1 << 16;

// Names by which models end a turn or a text. A token of this name ends a generation even where the file's metadata do not
// say so: without them the answer would run on.
constexpr std::array<std::string_view, 16> kEndNames = {
    "<|im_end|>",  "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>",     "<|eom_id|>",   "<end_of_turn>",
    "<|end|>",     "<|return|>",    "<|call|>",        "<|end_of_turn|>", "<|endofturn|>", "</s>",
    "<|eot|>",     "<turn|>",       "<EOT>",           "<|eom|>",
};

absl::Status Invalid(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

// Numbers and texts in a form that has only one reading.
class Fingerprint {
 public:
  Fingerprint() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
  ~Fingerprint() { XXH3_freeState(state_); }
  void Number(uint64_t number) {
    std::array<unsigned char, 8> bytes;
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(number >> (8 * i));
    XXH3_128bits_update(state_, bytes.data(), bytes.size());
  }
  void Text(std::string_view text) {
    Number(text.size());
    XXH3_128bits_update(state_, text.data(), text.size());
  }
  void Optional(const std::optional<uint32_t>& id) { Number(id.has_value() ? uint64_t{*id} + 1 : 0); }
  std::string Digest() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_));
    return std::string(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest));
  }

 private:
  XXH3_state_t* state_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Vocabulary>> Vocabulary::Load(const gguf::File& file) {
  auto vocabulary = std::shared_ptr<Vocabulary>(new Vocabulary);
  if (absl::Status status = vocabulary->Read(file); !status.ok()) return status;
  if (absl::Status status = vocabulary->ReadSpecialIds(file); !status.ok()) return status;
  if (absl::Status status = vocabulary->SpellPieces(); !status.ok()) return status;
  vocabulary->FindEndOfGeneration(file);
  vocabulary->TakeFingerprint();
  return vocabulary;
}

absl::Status Vocabulary::Read(const gguf::File& file) {
  absl::StatusOr<std::string> model = file.String("tokenizer.ggml.model");
  if (!model.ok()) return model.status();
  if (*model == "gpt2") {
    kind_ = VocabularyKind::kByteLevelBpe;
  } else if (*model == "llama") {
    kind_ = VocabularyKind::kSentencePiece;
  } else {
    return absl::UnimplementedError(absl::StrCat("tokenizer.ggml.model is \"", *model,
                                                 "\"; vocabularies known here are gpt2 (byte-level BPE) and llama (SentencePiece)"));
  }
  absl::StatusOr<std::vector<std::string_view>> tokens = file.Strings("tokenizer.ggml.tokens");
  if (!tokens.ok()) return tokens.status();
  if (tokens->empty() || tokens->size() > kMaxTokens) {
    return Invalid(absl::StrCat("tokenizer.ggml.tokens has ", tokens->size(), " entries; it must have 1 to ", kMaxTokens));
  }
  tokens_.assign(tokens->begin(), tokens->end());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].size() > kMaxTokenBytes) {
      return Invalid(absl::StrCat("tokenizer.ggml.tokens[", i, "] has ", tokens_[i].size(), " bytes; at most ",
                                  kMaxTokenBytes, " are taken"));
    }
  }
  types_.assign(tokens_.size(), TokenType::kNormal);
  if (file.Has("tokenizer.ggml.token_type")) {
    absl::StatusOr<std::vector<int64_t>> types = file.Ints("tokenizer.ggml.token_type");
    if (!types.ok()) return types.status();
    if (types->size() != tokens_.size()) {
      return Invalid(absl::StrCat("tokenizer.ggml.token_type has ", types->size(), " entries, tokenizer.ggml.tokens ",
                                  tokens_.size()));
    }
    for (size_t i = 0; i < types->size(); ++i) {
      if ((*types)[i] < 1 || (*types)[i] > 6) {
        return Invalid(absl::StrCat("tokenizer.ggml.token_type[", i, "] is ", (*types)[i], "; it must be 1 to 6"));
      }
      types_[i] = static_cast<TokenType>((*types)[i]);
    }
  }
  if (kind_ == VocabularyKind::kSentencePiece) {
    absl::StatusOr<std::vector<float>> scores = file.Floats("tokenizer.ggml.scores");
    if (!scores.ok()) return scores.status();
    if (scores->size() != tokens_.size()) {
      return Invalid(
          absl::StrCat("tokenizer.ggml.scores has ", scores->size(), " entries, tokenizer.ggml.tokens ", tokens_.size()));
    }
    for (size_t i = 0; i < scores->size(); ++i) {
      if (!std::isfinite((*scores)[i])) return Invalid(absl::StrCat("tokenizer.ggml.scores[", i, "] is not finite"));
    }
    scores_ = *std::move(scores);
  } else {
    absl::StatusOr<std::vector<std::string_view>> merges = file.Strings("tokenizer.ggml.merges");
    if (!merges.ok()) return merges.status();
    merges_.assign(merges->begin(), merges->end());
    if (!file.Has("tokenizer.ggml.pre")) {
      return Invalid("tokenizer.ggml.pre is missing; without its pre-tokenizer's name a byte-level vocabulary has no rules");
    }
  }
  if (file.Has("tokenizer.ggml.pre")) {
    absl::StatusOr<std::string> pre = file.String("tokenizer.ggml.pre");
    if (!pre.ok()) return pre.status();
    pretokenizer_ = *std::move(pre);
  }
  if (file.Has("tokenizer.chat_template")) {
    absl::StatusOr<std::string> source = file.String("tokenizer.chat_template");
    if (!source.ok()) return source.status();
    chat_template_ = *std::move(source);
  }
  std::string architecture = file.String("general.architecture").value_or("");
  model_name_ = file.String("general.name").value_or(architecture);
  context_length_ = static_cast<uint32_t>(
      std::min<uint64_t>(file.Uint(absl::StrCat(architecture, ".context_length")).value_or(0), UINT32_MAX));
  return absl::OkStatus();
}

absl::Status Vocabulary::ReadSpecialIds(const gguf::File& file) {
  auto read_id = [&](const char* key, std::optional<uint32_t>* id) -> absl::Status {
    if (!file.Has(key)) return absl::OkStatus();
    absl::StatusOr<uint64_t> value = file.Uint(key);
    if (!value.ok()) return value.status();
    if (*value >= tokens_.size()) {
      return Invalid(absl::StrCat(key, " is ", *value, ", but the vocabulary has ids 0 to ", tokens_.size() - 1));
    }
    *id = static_cast<uint32_t>(*value);
    return absl::OkStatus();
  };
  auto read_flag = [&](const char* key, bool absent, bool* flag) -> absl::Status {
    *flag = absent;
    if (!file.Has(key)) return absl::OkStatus();
    absl::StatusOr<bool> value = file.Bool(key);
    if (!value.ok()) return value.status();
    *flag = *value;
    return absl::OkStatus();
  };
  bool sentencepiece = kind_ == VocabularyKind::kSentencePiece;
  for (absl::Status status : {
           read_id("tokenizer.ggml.bos_token_id", &bos_),
           read_id("tokenizer.ggml.eos_token_id", &eos_),
           read_id("tokenizer.ggml.unknown_token_id", &unknown_),
           // A file that does not say follows what its kind of vocabulary does; Llama 3's expects a BOS.
           read_flag("tokenizer.ggml.add_bos_token", sentencepiece || pretokenizer_ == "llama-bpe", &add_bos_),
           read_flag("tokenizer.ggml.add_eos_token", false, &add_eos_),
           read_flag("tokenizer.ggml.add_space_prefix", sentencepiece, &add_space_prefix_),
       }) {
    if (!status.ok()) return status;
  }
  if (sentencepiece) {
    // The conventional ids of SentencePiece vocabularies.
    if (!bos_.has_value() && size() > 1) bos_ = 1;
    if (!eos_.has_value() && size() > 2) eos_ = 2;
    if (!unknown_.has_value()) unknown_ = 0;
  }
  if (add_bos_ && !bos_.has_value()) {
    return Invalid("tokenizer.ggml.add_bos_token is true, but there is no tokenizer.ggml.bos_token_id");
  }
  if (add_eos_ && !eos_.has_value()) {
    return Invalid("tokenizer.ggml.add_eos_token is true, but there is no tokenizer.ggml.eos_token_id");
  }
  return absl::OkStatus();
}

void Vocabulary::FindEndOfGeneration(const gguf::File& file) {
  std::set<uint32_t> ids;
  if (eos_.has_value()) ids.insert(*eos_);
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    absl::StatusOr<uint64_t> id = file.Uint(key);
    if (id.ok() && *id < tokens_.size()) ids.insert(static_cast<uint32_t>(*id));
  }
  for (uint32_t id = 0; id < size(); ++id) {
    if (types_[id] == TokenType::kNormal || types_[id] == TokenType::kByte) continue;
    if (std::find(kEndNames.begin(), kEndNames.end(), tokens_[id]) != kEndNames.end()) ids.insert(id);
  }
  end_of_generation_.assign(ids.begin(), ids.end());
}

absl::Status Vocabulary::SpellPieces() {
  pieces_.resize(tokens_.size());
  for (uint32_t id = 0; id < size(); ++id) {
    const std::string& token = tokens_[id];
    if (kind_ == VocabularyKind::kByteLevelBpe) {
      // Added tokens are spelled as they are; so is a token outside the alphabet, which no text can produce.
      pieces_[id] = types_[id] == TokenType::kNormal ? BytesOfToken(token).value_or(token) : token;
      continue;
    }
    if (types_[id] == TokenType::kByte) {
      unsigned value = 256;
      if (token.size() == 6 && token.starts_with("<0x") && token.back() == '>' && std::isxdigit(token[3]) &&
          std::isxdigit(token[4])) {
        value = static_cast<unsigned>(std::stoul(token.substr(3, 2), nullptr, 16));
      }
      if (value > 255) {
        return Invalid(absl::StrCat("tokenizer.ggml.tokens[", id, "] is a byte token, but is not spelled <0x00> to <0xFF>"));
      }
      pieces_[id] = std::string(1, static_cast<char>(value));
      continue;
    }
    if (types_[id] == TokenType::kUnknown) {
      pieces_[id] = " \xe2\x81\x87 ";  // " ⁇ ", as SentencePiece writes it
      continue;
    }
    std::string piece;
    for (size_t at = 0; at < token.size();) {
      if (std::string_view(token).substr(at).starts_with(kSpaceMark)) {
        piece += ' ';
        at += kSpaceMark.size();
      } else {
        piece += token[at++];
      }
    }
    pieces_[id] = std::move(piece);
  }
  return absl::OkStatus();
}

void Vocabulary::TakeFingerprint() {
  Fingerprint print;
  print.Number(static_cast<uint64_t>(kind_));
  print.Number(tokens_.size());
  for (const std::string& token : tokens_) print.Text(token);
  for (TokenType type : types_) print.Number(static_cast<uint64_t>(type));
  print.Number(scores_.size());
  for (float score : scores_) {
    uint32_t bits;
    std::memcpy(&bits, &score, sizeof(bits));
    print.Number(bits);
  }
  print.Number(merges_.size());
  for (const std::string& merge : merges_) print.Text(merge);
  print.Text(pretokenizer_);
  print.Optional(bos_);
  print.Optional(eos_);
  print.Optional(unknown_);
  for (uint32_t id : end_of_generation_) print.Number(id);
  print.Number((add_bos_ ? 1 : 0) | (add_eos_ ? 2 : 0) | (add_space_prefix_ ? 4 : 0));
  print.Text(chat_template_);
  fingerprint_ = print.Digest();
}

}  // namespace tercet::text
