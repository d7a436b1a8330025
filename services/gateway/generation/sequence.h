// One live sequence: the stream from the scheduler on one side, text for a client on the other.
//
// It keeps the ids that were streamed so far. When the stream breaks because the scheduler or an executor died, it asks
// again with those ids as resume_token_ids and goes on; by the determinism of the system (one request, one answer) the text
// is the one that an undisturbed stream would have brought. It cancels the stream as soon as the answer is complete (a stop
// string) or unwanted.
//
// Promises to its owner: on_started at most once, before anything else; then on_prompt (if prompt log-probabilities were
// asked for) once; then deltas; then exactly one of on_finished and on_failed, after which nothing follows. After Cancel
// nothing follows at all. Everything happens on the strand.
#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/status/status.h>
#include <absl/time/time.h>

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/generation/text_assembler.h"
#include "services/gateway/scheduler_client.h"

namespace tercet::gateway {

enum class Finish { kStop, kLength };

struct SequenceSpec {
  // Complete but for resume_token_ids and deadline_ms.
  v1::GenerateRequest request;
  std::shared_ptr<const Vocabulary> vocabulary;
  TextAssembler::Options text;
  // The answer begins with the prompt.
  bool echo = false;
  absl::Time deadline = absl::InfiniteFuture();
  // How long a stream that broke is tried to be resumed without any progress …
  absl::Duration resume_window = absl::Seconds(30);
  // … and how long a scheduler that cannot be reached in the first place.
  absl::Duration connect_window = absl::Milliseconds(700);
};

struct SequenceCallbacks {
  absl::AnyInvocable<void(uint32_t cached_tokens)> on_started;
  // Entry i is about prompt token i + 1.
  absl::AnyInvocable<void(const std::vector<Logprobs>&)> on_prompt;
  absl::AnyInvocable<void(Delta)> on_delta;
  absl::AnyInvocable<void(Finish reason, uint32_t generated_tokens)> on_finished;
  absl::AnyInvocable<void(absl::Status)> on_failed;
  // The stream broke and is being asked for again (metrics, log); once for all attempts until it goes on.
  absl::AnyInvocable<void(const absl::Status& why)> on_broken;
};

class Sequence : public std::enable_shared_from_this<Sequence> {
 public:
  Sequence(SequenceSpec spec, std::shared_ptr<SchedulerClient> scheduler, std::shared_ptr<Strand> strand,
           SequenceCallbacks callbacks);

  void Start();
  // The answer is not wanted any more; the scheduler is told at once.
  void Cancel();

 private:
  void Attempt();
  void OnEvents(int attempt, std::vector<v1::GenerateEvent> events);
  void OnEnd(int attempt, absl::Status status);
  bool Take(const v1::GenerateEvent& event);
  bool TakeTokens(const v1::Tokens& tokens);
  bool TakePromptLogprobs(const v1::PromptLogprobs& part);
  void TakeFinished(v1::FinishReason reason);
  // Hands the prompt over, once all that was asked for about it is known. False: it is not.
  bool CompletePrompt();
  void Deliver();
  void Conclude(Finish reason);
  void Fail(absl::Status status);
  bool Resumable(const absl::Status& status) const;
  void Retry(const absl::Status& why);

  SequenceSpec spec_;
  std::shared_ptr<SchedulerClient> scheduler_;
  std::shared_ptr<Strand> strand_;
  SequenceCallbacks callbacks_;
  TextAssembler assembler_;

  std::shared_ptr<Call> call_;
  int attempt_ = 0;            // events of an older stream are ignored
  bool over_ = false;
  bool started_ = false;
  bool was_connected_ = false;  // some attempt began on a living connection
  bool prompt_complete_ = false;
  std::vector<Logprobs> prompt_logprobs_;
  std::vector<uint32_t> ids_;  // generated so far
  absl::Time broken_since_ = absl::InfiniteFuture();
  int failures_ = 0;           // in a row, without progress
};

}  // namespace tercet::gateway
