// How the answer of an endpoint is written down. Chat completions and completions differ in the shape of a choice; all else
// is the same and lives in Answer. Implementations have no state and are thread-safe.
//
// All text is appended to `out` as JSON.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/gateway/generation/sequence.h"
#include "services/gateway/generation/text_assembler.h"
#include "services/gateway/vocabulary.h"

namespace tercet::gateway {

// One finished choice of an answer that is sent whole.
struct Choice {
  std::string text;
  std::vector<TokenRecord> tokens;
  std::vector<Logprobs> prompt_logprobs;  // entry i is about prompt token i + 1
  Finish finish = Finish::kStop;
};

class AnswerFormat {
 public:
  // What the client asked to see.
  struct Options {
    bool logprobs = false;
    int top = 0;         // alternatives a generated token
    bool prompt_logprobs = false;
    int prompt_top = 0;  // alternatives a prompt token, in prompt_logprobs
  };

  virtual ~AnswerFormat() = default;

  virtual std::string_view id_prefix() const = 0;
  virtual std::string_view whole_object() const = 0;
  virtual std::string_view chunk_object() const = 0;

  // Elements of "choices": the one that opens a stream (false: there is none), a piece of the answer, the end of a choice,
  // and a whole choice.
  virtual bool AppendOpening(std::string* out, int index) const = 0;
  virtual void AppendDelta(std::string* out, int index, const Delta& delta, const Vocabulary& vocabulary,
                           const Options& options) const = 0;
  virtual void AppendEnd(std::string* out, int index, Finish finish, const Options& options) const = 0;
  virtual void AppendChoice(std::string* out, int index, const Choice& choice, const std::vector<uint32_t>& prompt,
                            const Vocabulary& vocabulary, const Options& options) const = 0;
  // Further members of the whole answer, each with a comma before it.
  virtual void AppendMembers(std::string* out, const Choice& first_choice, const std::vector<uint32_t>& prompt,
                             const Vocabulary& vocabulary, const Options& options) const = 0;
};

const AnswerFormat& ChatFormat();
const AnswerFormat& CompletionFormat();

std::string_view FinishName(Finish finish);

}  // namespace tercet::gateway
