#include "services/gateway/generation/sequence.h"

#include <absl/random/random.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <utility>

#include "services/gateway/http/api_error.h"

namespace tercet::gateway {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

Logprobs FromProto(const v1::PositionLogprobs& position) {
  Logprobs logprobs{position.logprob(), {}};
  logprobs.top.reserve(position.top_size());
  for (const v1::TokenLogprob& token : position.top()) logprobs.top.push_back({token.token_id(), token.logprob()});
  return logprobs;
}

// 20 ms, 40 ms, … 1 s, each ±20 % so that many broken streams do not come back as one.
absl::Duration Pause(int failures) {
  thread_local absl::BitGen generator;
  absl::Duration pause = std::min(kLongestPause, kFirstPause * (1 << std::min(failures, 10)));
  return pause * absl::Uniform(generator, 0.8, 1.2);
}

}  // namespace

Sequence::Sequence(SequenceSpec spec, std::shared_ptr<SchedulerClient> scheduler, std::shared_ptr<Strand> strand,
                   SequenceCallbacks callbacks)
    : spec_(std::move(spec)),
      scheduler_(std::move(scheduler)),
      strand_(std::move(strand)),
      callbacks_(std::move(callbacks)),
      assembler_(spec_.vocabulary, spec_.text) {}

void Sequence::Start() { Attempt(); }

void Sequence::Cancel() {
  if (over_) return;
  over_ = true;
  if (auto call = std::exchange(call_, nullptr)) call->Cancel();
  callbacks_ = {};
}

void Sequence::Attempt() {
  if (over_) return;
  absl::Duration left = spec_.deadline - absl::Now();
  if (left <= absl::ZeroDuration()) {
    if (started_) return Conclude(Finish::kLength);
    return Fail(absl::DeadlineExceededError("the request's deadline passed before it could begin"));
  }
  v1::GenerateRequest request = spec_.request;
  *request.mutable_resume_token_ids() = {ids_.begin(), ids_.end()};
  if (left != absl::InfiniteDuration()) {
    request.set_deadline_ms(static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 1, UINT32_MAX)));
  }
  // What is known about the prompt need not be computed a second time.
  if (prompt_complete_) request.mutable_logprobs()->set_prompt(false);
  was_connected_ = was_connected_ || scheduler_->Connected();
  int attempt = ++attempt_;
  call_ = scheduler_->Generate(
      std::move(request), spec_.deadline, strand_,
      [self = shared_from_this(), attempt](std::vector<v1::GenerateEvent> events) {
        self->OnEvents(attempt, std::move(events));
      },
      [self = shared_from_this(), attempt](absl::Status status) { self->OnEnd(attempt, std::move(status)); });
}

void Sequence::OnEvents(int attempt, std::vector<v1::GenerateEvent> events) {
  if (over_ || attempt != attempt_) return;
  broken_since_ = absl::InfiniteFuture();
  failures_ = 0;
  for (const v1::GenerateEvent& event : events) {
    if (!Take(event) || over_) return;
  }
  Deliver();
}

// False: the sequence is over or failed, nothing after this event counts.
bool Sequence::Take(const v1::GenerateEvent& event) {
  switch (event.event_case()) {
    case v1::GenerateEvent::kStarted:
      // A resumed sequence starts anew on some executor, but the client's request started once.
      if (!std::exchange(started_, true)) callbacks_.on_started(event.started().cached_tokens());
      if (!spec_.request.logprobs().prompt()) CompletePrompt();
      return true;
    case v1::GenerateEvent::kPromptLogprobs:
      return TakePromptLogprobs(event.prompt_logprobs());
    case v1::GenerateEvent::kTokens:
      return TakeTokens(event.tokens());
    case v1::GenerateEvent::kFinished:
      TakeFinished(event.finished().reason());
      return false;
    case v1::GenerateEvent::EVENT_NOT_SET:
      break;
  }
  Fail(absl::InternalError("the scheduler sent an event of a kind this gateway does not know"));
  return false;
}

bool Sequence::TakePromptLogprobs(const v1::PromptLogprobs& part) {
  // Entry k is about prompt token first_index + k; a resumed stream may repeat what we have.
  size_t prompt = spec_.request.prompt_token_ids_size();
  for (int k = 0; k < part.logprobs_size(); ++k) {
    size_t token = static_cast<size_t>(part.first_index()) + k;
    if (token == 0 || token >= prompt || token > prompt_logprobs_.size() + 1) {
      Fail(absl::InternalError(absl::StrCat("the scheduler sent a log-probability of prompt token ", token,
                                            " where that of ", prompt_logprobs_.size() + 1, " was due")));
      return false;
    }
    if (token == prompt_logprobs_.size() + 1) prompt_logprobs_.push_back(FromProto(part.logprobs(k)));
  }
  if (prompt_logprobs_.size() + 1 == prompt) CompletePrompt();
  return true;
}

bool Sequence::CompletePrompt() {
  if (prompt_complete_) return true;
  bool wanted = spec_.request.logprobs().prompt();
  if (wanted && prompt_logprobs_.size() + 1 != static_cast<size_t>(spec_.request.prompt_token_ids_size())) return false;
  prompt_complete_ = true;
  if (spec_.echo) {
    const auto& prompt = spec_.request.prompt_token_ids();
    for (int i = 0; i < prompt.size(); ++i) {
      std::optional<Logprobs> logprobs;
      if (wanted && i > 0) logprobs = prompt_logprobs_[i - 1];
      assembler_.PushPrompt(prompt[i], std::move(logprobs));
    }
  }
  if (wanted) callbacks_.on_prompt(prompt_logprobs_);
  return true;
}

bool Sequence::TakeTokens(const v1::Tokens& tokens) {
  bool wanted = spec_.request.logprobs().enabled();
  if (!CompletePrompt() || tokens.first_index() != ids_.size() ||
      (wanted && tokens.logprobs_size() != tokens.token_ids_size())) {
    Fail(absl::InternalError(absl::StrCat("the scheduler sent token ", tokens.first_index(), " where token ", ids_.size(),
                                          " was due, or left log-probabilities out")));
    return false;
  }
  for (int i = 0; i < tokens.token_ids_size(); ++i) {
    uint32_t id = tokens.token_ids(i);
    if (!spec_.vocabulary->Contains(id)) {
      Fail(absl::InternalError(absl::StrCat("the scheduler sent the id ", id, ", which the vocabulary does not have")));
      return false;
    }
    ids_.push_back(id);
    std::optional<Logprobs> logprobs;
    if (wanted) logprobs = FromProto(tokens.logprobs(i));
    assembler_.PushToken(id, std::move(logprobs));
    if (assembler_.ended()) {
      Conclude(Finish::kStop);
      return false;
    }
  }
  return true;
}

void Sequence::TakeFinished(v1::FinishReason reason) {
  if (!CompletePrompt()) {
    // Only a deadline ends a sequence before its prompt is through.
    return Fail(absl::DeadlineExceededError("the request's deadline passed before its prompt was processed"));
  }
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return Conclude(Finish::kStop);
    case v1::FINISH_REASON_LENGTH:
    case v1::FINISH_REASON_CONTEXT:
    case v1::FINISH_REASON_DEADLINE:
      return Conclude(Finish::kLength);
    default:
      return Fail(absl::InternalError("the scheduler ended the sequence for a reason this gateway does not know"));
  }
}

void Sequence::Deliver() {
  Delta delta = assembler_.Take();
  if (!delta.empty()) callbacks_.on_delta(std::move(delta));
}

void Sequence::Conclude(Finish reason) {
  if (over_) return;
  assembler_.Finish();
  // The end of the sequence may decide that a stop string was there after all.
  if (assembler_.ended()) reason = Finish::kStop;
  Deliver();
  if (over_) return;
  over_ = true;
  if (auto call = std::exchange(call_, nullptr)) call->Cancel();
  auto callbacks = std::exchange(callbacks_, {});
  callbacks.on_finished(reason, assembler_.generated());
}

void Sequence::Fail(absl::Status status) {
  if (over_) return;
  over_ = true;
  if (auto call = std::exchange(call_, nullptr)) call->Cancel();
  auto callbacks = std::exchange(callbacks_, {});
  callbacks.on_failed(std::move(status));
}

void Sequence::OnEnd(int attempt, absl::Status status) {
  if (over_ || attempt != attempt_) return;
  if (status.ok()) status = absl::UnavailableError("the scheduler closed the stream before the sequence was finished");
  // All tokens may have come and only the word of their end be missing.
  if (!ids_.empty() && assembler_.IsEnd(ids_.back())) return Conclude(Finish::kStop);
  if (started_ && prompt_complete_ && ids_.size() >= spec_.request.stop().max_new_tokens() &&
      absl::IsUnavailable(status)) {
    return Conclude(Finish::kLength);
  }
  if (Resumable(status)) return Retry(status);
  if (absl::IsUnavailable(status) || absl::IsAborted(status)) {
    status = WithCode(WithRetryAfter(absl::UnavailableError(status.message()), RetryAfter(status).value_or(1000)),
                      "scheduler_unavailable");
  } else if (absl::IsFailedPrecondition(status)) {
    status = WithCode(absl::UnavailableError(absl::StrCat("tokenizer and model do not match: ", status.message())),
                      "vocabulary_mismatch");
  }
  Fail(std::move(status));
}

bool Sequence::Resumable(const absl::Status& status) const {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      // With advice when to come back it is a refusal, which a request that has not begun passes on.
      return started_ || !RetryAfter(status).has_value();
    case absl::StatusCode::kAborted:
      return true;
    case absl::StatusCode::kResourceExhausted:
      // A full queue does not end an answer that is half told.
      return started_;
    default:
      return false;
  }
}

void Sequence::Retry(const absl::Status& why) {
  absl::Time now = absl::Now();
  if (broken_since_ == absl::InfiniteFuture()) {
    broken_since_ = now;
    if (callbacks_.on_broken) callbacks_.on_broken(why);
  }
  // Whoever was already let in waits for a restart; a new request learns soon that nobody is there.
  absl::Duration window = started_ || was_connected_ ? spec_.resume_window : spec_.connect_window;
  absl::Duration left = broken_since_ + window - now;
  if (left <= absl::ZeroDuration()) {
    std::string waited = absl::FormatDuration(absl::Trunc(now - broken_since_, absl::Milliseconds(1)));
    absl::Status status = absl::UnavailableError(
        absl::StrCat("the scheduler service could not be reached for ", waited, "; try again later"));
    return Fail(WithCode(WithRetryAfter(std::move(status), 1000), "scheduler_unavailable"));
  }
  absl::Duration pause = Pause(failures_++);
  if (auto advice = RetryAfter(why)) {
    pause = std::max(pause, std::min(kLongestPause, absl::Milliseconds(*advice)));
  }
  strand_->PostAfter(std::min(pause, left), [self = shared_from_this()] { self->Attempt(); });
}

}  // namespace tercet::gateway
