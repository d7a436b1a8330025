// Turns the ids of one sequence into the text of its answer, piece by piece: UTF-8 that is whole in every piece, the end at
// a stop string, and for each token the text it stands for.
//
// The result does not depend on how the ids were grouped: each Push takes one id, and Take returns what has become certain.
//  - Text of a character whose bytes are still incomplete is held back; what never completes becomes U+FFFD at the end.
//  - Text that may be the beginning of a stop string is held back until that is decided.
//  - Control tokens and the id that ends the sequence have no text.
//  - A token is reported (when records are asked for) if its first byte lies before the end of the answer; the texts of the
//    reported tokens, one after the other, are the answer.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/text/detokenizer.h"
#include "services/gateway/generation/stop_matcher.h"
#include "services/gateway/vocabulary.h"

namespace tercet::gateway {

struct Alternative {
  uint32_t id;
  float logprob;
};

// What the model said about one position.
struct Logprobs {
  float logprob = 0;
  std::vector<Alternative> top;  // best first
};

// One token of a text. The texts of consecutive tokens are the whole text; a token that only begins a character has the
// text "", and the one that completes it has the character.
struct TokenRecord {
  uint32_t id = 0;
  std::string text;
  std::string bytes;                // the raw bytes it stands for
  int64_t offset = 0;               // of `text`, in characters (code points) from the start of the answer
  std::optional<Logprobs> logprobs;  // none for the first token of a prompt
};

// What a client may be told next.
struct Delta {
  std::string text;
  std::vector<TokenRecord> tokens;
  bool empty() const { return text.empty() && tokens.empty(); }
};

class TextAssembler {
 public:
  struct Options {
    std::vector<std::string> stops;
    bool include_stop = false;
    // Report tokens, not only text.
    bool records = false;
    // Ids that end the sequence, besides those of the vocabulary.
    std::vector<uint32_t> stop_token_ids;
    bool ignore_eos = false;
  };

  TextAssembler(std::shared_ptr<const Vocabulary> vocabulary, Options options);

  // A token of a prompt that is part of the answer (echo); only before the first PushToken. Stop strings are not looked for.
  void PushPrompt(uint32_t id, std::optional<Logprobs> logprobs);

  // A generated token. REQUIRES vocabulary->Contains(id). After it, ended() may be true: then the rest of the sequence is
  // not wanted and must not be pushed.
  void PushToken(uint32_t id, std::optional<Logprobs> logprobs);

  // The sequence is over: what was held back is decided.
  void Finish();

  // A stop string was found, nothing later matters.
  bool ended() const { return matcher_.settled(); }
  // The id ends a sequence by itself.
  bool IsEnd(uint32_t id) const;
  // Generated tokens that were pushed: those up to the one that settled the stop string.
  uint32_t generated() const { return generated_; }

  Delta Take();

 private:
  void Push(uint32_t id, std::string_view piece, std::optional<Logprobs> logprobs, bool generated);
  void Append(std::string_view text, bool generated);
  void GiveToTailRecord(std::string_view text);
  void Release();

  struct Held {
    int64_t number;
    int64_t begin;  // where its first byte lies in the text, in bytes
    TokenRecord record;
  };

  std::shared_ptr<const Vocabulary> vocabulary_;
  Options options_;
  text::Detokenizer detokenizer_;
  StopMatcher matcher_;

  std::string tail_;           // bytes of the incomplete character that the detokenizer holds
  int64_t tail_record_ = 0;    // number of the last token that gave bytes to it
  int64_t next_record_ = 0;
  bool at_start_ = true;       // no text yet: the place where a prefix space is dropped
  int64_t prompt_bytes_ = 0;   // text of the prompt, where the matcher's positions begin
  int64_t bytes_ = 0;          // text so far
  int64_t characters_ = 0;
  uint32_t generated_ = 0;
  bool finished_ = false;

  std::string unreleased_;     // text from `taken_` on
  int64_t taken_ = 0;          // bytes handed out
  std::deque<Held> held_;
  Delta ready_;
};

}  // namespace tercet::gateway
