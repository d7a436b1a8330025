// The answer to one generating request, from its parameters to its last byte: the prompts become ids, the ids sequences,
// the sequences' text goes out whole or as a stream of events.
//
// The order of a stream: per choice an opening chunk (chat), chunks of text, a chunk with the finish_reason; then, if asked
// for, one chunk with the usage; then [DONE]. An error after the first byte is one event {"error": …} and the end of the
// connection; before it, an HTTP error. The headers are sent when the first sequence has begun on an executor, so that a
// full queue is still a 429.
//
// All work happens on the exchange's strand; Abort may be called from anywhere.
#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "services/gateway/backends.h"
#include "services/gateway/generation/job.h"
#include "services/gateway/http/exchange.h"
#include "services/gateway/openai/answer_format.h"
#include "services/gateway/openai/parameters.h"

namespace tercet::gateway {

struct EncodedPrompts {
  std::vector<std::shared_ptr<const std::vector<uint32_t>>> prompts;
  std::shared_ptr<const Vocabulary> vocabulary;
};

struct AnswerSpec {
  const AnswerFormat* format = nullptr;
  GenerationParameters parameters;
  bool echo = false;
  // How errors name prompt i.
  std::function<std::string(size_t)> prompt_path;
  // Starts to turn the prompts into ids; `done` is called once on the strand.
  using OnPrompts = absl::AnyInvocable<void(absl::StatusOr<EncodedPrompts>)>;
  absl::AnyInvocable<std::shared_ptr<Call>(const CallContext&, std::shared_ptr<Strand>, OnPrompts)> encode;
};

class Answer final : public JobObserver, public LiveRequest, public std::enable_shared_from_this<Answer> {
 public:
  static void Begin(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange, AnswerSpec spec);

  Answer(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange, AnswerSpec spec);
  ~Answer() override;

  void Abort(const absl::Status& status) override;

 private:
  // One prompt × choice.
  struct Progress {
    Choice whole;                  // unless streaming
    uint32_t cached_tokens = 0;
    uint32_t generated_tokens = 0;
    absl::Time last_text = absl::InfinitePast();
  };

  void CheckModel();
  void Encode();
  void OnPrompts(absl::StatusOr<EncodedPrompts> prompts);
  absl::Status CheckPrompts(const EncodedPrompts& prompts) const;
  SequenceSpec MakeSequence(size_t number) const;
  size_t PromptOf(size_t sequence) const { return sequence / spec_.parameters.n; }

  void OnStarted(size_t sequence, uint32_t cached_tokens) override;
  void OnPrompt(size_t sequence, const std::vector<Logprobs>& logprobs) override;
  void OnDelta(size_t sequence, Delta delta) override;
  void OnFinished(size_t sequence, Finish reason, uint32_t generated_tokens) override;
  void OnBroken(size_t sequence, const absl::Status& why) override;
  void OnAllFinished() override;
  void OnFailed(absl::Status status) override;

  void OpenStream();
  // Appends "data: {…}\n\n" around whatever `choice` appends to "choices"; false from it drops the event.
  template <typename AppendChoice>
  void AppendEvent(AppendChoice choice);
  void AppendUsage(std::string* out) const;
  void SendEvents();
  void SendWhole();
  struct Tokens {
    uint64_t prompt = 0, cached = 0, generated = 0;
  };
  Tokens CountTokens() const;
  // Metrics and access log.
  void Report();
  void OnGone(Gone reason);
  // Stops all work for this answer; nothing is sent after it.
  void End();

  std::shared_ptr<Backends> backends_;
  std::shared_ptr<Exchange> exchange_;
  AnswerSpec spec_;
  AnswerFormat::Options options_;
  CallContext context_;
  absl::Time arrived_;

  std::shared_ptr<Call> encoding_;
  EncodedPrompts prompts_;
  std::shared_ptr<Job> job_;
  std::vector<Progress> progress_;
  uint64_t seed_ = 0;

  bool ended_ = false;
  bool streaming_ = false;      // the headers of a stream have been sent
  bool first_text_ = true;
  std::string event_head_;      // `data: {"id":…,"choices":[`
  std::string event_tail_;      // `]}\n\n`
  std::string events_;          // to be sent
};

}  // namespace tercet::gateway
