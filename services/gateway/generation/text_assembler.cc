#include "services/gateway/generation/text_assembler.h"

#include <algorithm>

#include "common/text/utf8.h"

namespace tercet::gateway {
namespace {

int64_t CountCharacters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

// Whether `piece` leaves the incomplete character `tail` incomplete for ever.
bool Abandons(std::string_view tail, std::string_view piece) {
  if (tail.empty() || piece.empty()) return false;
  text::Utf8Unit unit = text::NextUnit(std::string(tail).append(piece), 0);
  return unit.kind == text::Utf8Unit::Kind::kInvalid && unit.bytes <= tail.size();
}

// Leaves the first `room` bytes of a token that the end of the answer cuts in two.
void Cut(int64_t room, TokenRecord* record) {
  if (static_cast<int64_t>(record->text.size()) > room) record->text.resize(room);
  if (static_cast<int64_t>(record->bytes.size()) > room) record->bytes.resize(room);
}

}  // namespace

TextAssembler::TextAssembler(std::shared_ptr<const Vocabulary> vocabulary, Options options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), matcher_(options_.stops) {}

bool TextAssembler::IsEnd(uint32_t id) const {
  if (!options_.ignore_eos && vocabulary_->EndsGeneration(id)) return true;
  return std::find(options_.stop_token_ids.begin(), options_.stop_token_ids.end(), id) != options_.stop_token_ids.end();
}

void TextAssembler::PushPrompt(uint32_t id, std::optional<Logprobs> logprobs) {
  std::string_view piece = vocabulary_->IsControl(id) ? std::string_view() : vocabulary_->Piece(id);
  if (at_start_ && !piece.empty()) {
    // Only a text that begins at the beginning has the space which the vocabulary put there.
    if (vocabulary_->header().strip_leading_space && piece.front() == ' ') piece.remove_prefix(1);
    at_start_ = false;
  }
  Push(id, piece, std::move(logprobs), /*generated=*/false);
  Release();
}

void TextAssembler::PushToken(uint32_t id, std::optional<Logprobs> logprobs) {
  ++generated_;
  bool silent = vocabulary_->IsControl(id) || IsEnd(id);
  Push(id, silent ? std::string_view() : vocabulary_->Piece(id), std::move(logprobs), /*generated=*/true);
  Release();
}

void TextAssembler::Push(uint32_t id, std::string_view piece, std::optional<Logprobs> logprobs, bool generated) {
  std::string text = detokenizer_.Push(piece);
  if (Abandons(tail_, piece)) {
    // The incomplete character before this token has become U+FFFD, which is the text of the token that left it so.
    Append(text::kReplacement, generated);
    text.erase(0, text::kReplacement.size());
    GiveToTailRecord(text::kReplacement);
  }
  if (options_.records) {
    held_.push_back({next_record_, bytes_, {id, text, std::string(piece), characters_, std::move(logprobs)}});
  }
  if (!piece.empty()) {
    tail_.append(piece);
    tail_.erase(0, tail_.size() - detokenizer_.pending());
    if (!tail_.empty()) tail_record_ = next_record_;
  }
  ++next_record_;
  Append(text, generated);
}

void TextAssembler::GiveToTailRecord(std::string_view text) {
  if (!options_.records) return;
  held_[tail_record_ - held_.front().number].record.text.append(text);
}

void TextAssembler::Append(std::string_view text, bool generated) {
  bytes_ += static_cast<int64_t>(text.size());
  characters_ += CountCharacters(text);
  unreleased_.append(text);
  if (generated) {
    matcher_.Feed(text);
  } else {
    prompt_bytes_ = bytes_;
  }
}

void TextAssembler::Finish() {
  if (finished_) return;
  finished_ = true;
  if (!ended()) {
    std::string rest = detokenizer_.Flush();
    if (!rest.empty()) GiveToTailRecord(rest);
    Append(rest, /*generated=*/true);
    matcher_.Finish();
  }
  Release();
}

void TextAssembler::Release() {
  int64_t limit = prompt_bytes_ + matcher_.released();
  if (ended() && options_.include_stop) limit = prompt_bytes_ + matcher_.match()->end;
  if (limit > taken_) {
    ready_.text.append(unreleased_, 0, limit - taken_);
    unreleased_.erase(0, limit - taken_);
    taken_ = limit;
  }
  for (; !held_.empty(); held_.pop_front()) {
    Held& next = held_.front();
    if (ended()) {
      if (next.begin >= limit) {
        held_.clear();
        return;
      }
      Cut(limit - next.begin, &next.record);
    } else if (!finished_) {
      // A stop string may still begin before its end, or its text is not known before its character is complete.
      int64_t end = next.begin + std::max<int64_t>(1, static_cast<int64_t>(next.record.text.size()));
      bool may_be_cut = end > limit && !options_.stops.empty();
      bool incomplete = !tail_.empty() && next.number >= tail_record_;
      if (may_be_cut || incomplete) return;
    }
    ready_.tokens.push_back(std::move(next.record));
  }
}

Delta TextAssembler::Take() { return std::exchange(ready_, {}); }

}  // namespace tercet::gateway
