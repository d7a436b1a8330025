#include "services/scheduler/delivery.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace tercet::scheduler {
namespace {

const char* ReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP: return "stop";
    case v1::FINISH_REASON_LENGTH: return "length";
    case v1::FINISH_REASON_CONTEXT: return "context";
    case v1::FINISH_REASON_DEADLINE: return "deadline";
    default: return "error";
  }
}

void DeliverStarted(Request& request, const std::string& executor, double now_ms, SchedulerMetrics& metrics) {
  request.started = true;
  request.started_ms = now_ms;
  v1::GenerateEvent event;
  event.mutable_started()->set_executor(executor);
  event.mutable_started()->set_cached_tokens(request.cached_tokens);
  event.mutable_started()->set_queue_ms(now_ms - request.received_ms);
  request.sink->OnEvent(std::move(event));
  metrics.queue_seconds.Observe((now_ms - request.received_ms) / 1000);
  metrics.prompt_tokens.Increment(request.prompt_length());
  metrics.cached_tokens.Increment(request.cached_tokens);
}

// After a preemption the executor reports the prompt from its beginning; what was delivered is left out.
absl::Status DeliverPromptLogprobs(Request& request, const v1::RowResult& row) {
  uint32_t first = row.prompt_first_index();
  uint32_t count = static_cast<uint32_t>(row.prompt_logprobs_size());
  if (first == 0 || first > request.next_prompt_logprob || count >= request.prompt_length() ||
      first > request.prompt_length() - count) {
    return absl::InternalError(absl::StrCat("log-probabilities of prompt tokens ", first, " to ", uint64_t{first} + count - 1,
                                            " came where ", request.next_prompt_logprob, " of ", request.prompt_length(),
                                            " was due"));
  }
  uint32_t known = std::min(request.next_prompt_logprob - first, count);
  if (known == count) return absl::OkStatus();
  v1::GenerateEvent event;
  event.mutable_prompt_logprobs()->set_first_index(first + known);
  for (uint32_t i = known; i < count; ++i) {
    *event.mutable_prompt_logprobs()->add_logprobs() = row.prompt_logprobs(static_cast<int>(i));
  }
  request.next_prompt_logprob = first + count;
  request.sink->OnEvent(std::move(event));
  return absl::OkStatus();
}

absl::Status DeliverTokens(Request& request, const v1::RowResult& row, double now_ms, SchedulerMetrics& metrics) {
  uint32_t count = static_cast<uint32_t>(row.token_ids_size());
  uint32_t most = request.spec.stop().max_new_tokens();
  if (row.first_index() != request.generated.size() || count > most - std::min<size_t>(most, request.generated.size())) {
    return absl::InternalError(absl::StrCat("generated tokens ", row.first_index(), " to ",
                                            uint64_t{row.first_index()} + count - 1, " came where ",
                                            request.generated.size(), " of ", most, " was due"));
  }
  if (row.logprobs_size() != (request.spec.logprobs().enabled() ? row.token_ids_size() : 0)) {
    return absl::InternalError(absl::StrCat(row.logprobs_size(), " log-probabilities came with ", count, " tokens"));
  }
  v1::GenerateEvent event;
  v1::Tokens* tokens = event.mutable_tokens();
  tokens->set_first_index(row.first_index());
  *tokens->mutable_token_ids() = row.token_ids();
  *tokens->mutable_logprobs() = row.logprobs();
  request.generated.insert(request.generated.end(), row.token_ids().begin(), row.token_ids().end());
  bool first_token = request.first_token_ms == 0;
  if (first_token) request.first_token_ms = now_ms;
  request.last_token_ms = now_ms;
  request.losses = 0;
  request.sink->OnEvent(std::move(event));
  metrics.generated_tokens.Increment(count);
  if (first_token) metrics.first_token_seconds.Observe((now_ms - request.received_ms) / 1000);
  return absl::OkStatus();
}

}  // namespace

absl::Status DeliverRow(Request& request, const v1::RowResult& row, const std::string& executor, double now_ms,
                        SchedulerMetrics& metrics) {
  if (row.computed_tokens() > request.known_tokens() + static_cast<uint32_t>(row.token_ids_size())) {
    return absl::InternalError(absl::StrCat("computed_tokens is ", row.computed_tokens(), " of a sequence of ",
                                            request.known_tokens(), " and ", row.token_ids_size(), " new tokens"));
  }
  if (!request.started) {
    request.cached_tokens = std::min(row.cached_tokens(), request.prompt_length());
    DeliverStarted(request, executor, now_ms, metrics);
  }
  request.computed_tokens = std::max(request.computed_tokens, row.computed_tokens());
  if (row.prompt_logprobs_size() > 0) {
    if (absl::Status status = DeliverPromptLogprobs(request, row); !status.ok()) return status;
  }
  if (row.token_ids_size() > 0) return DeliverTokens(request, row, now_ms, metrics);
  return absl::OkStatus();
}

void DeliverFinished(Request& request, v1::FinishReason reason, double now_ms, SchedulerMetrics& metrics) {
  if (!request.started) DeliverStarted(request, "", now_ms, metrics);
  v1::GenerateEvent event;
  v1::Finished* finished = event.mutable_finished();
  finished->set_reason(reason);
  v1::Usage* usage = finished->mutable_usage();
  usage->set_prompt_tokens(request.prompt_length());
  usage->set_cached_tokens(request.cached_tokens);
  usage->set_generated_tokens(static_cast<uint32_t>(request.generated.size()));
  v1::GenerateTiming* timing = finished->mutable_timing();
  timing->set_queue_ms(request.started_ms - request.received_ms);
  timing->set_prefill_ms((request.first_token_ms > 0 ? request.first_token_ms : now_ms) - request.started_ms);
  timing->set_decode_ms(request.last_token_ms - request.first_token_ms);
  request.sink->OnEvent(std::move(event));

  metrics.Finished(ReasonName(reason)).Increment();
  metrics.request_seconds.Observe((now_ms - request.received_ms) / 1000);
  // Of this call's own tokens: those of an earlier one took their time elsewhere.
  size_t own = request.generated.size() - static_cast<size_t>(request.spec.resume_token_ids_size());
  if (own > 1) {
    metrics.inter_token_seconds.Observe((request.last_token_ms - request.first_token_ms) / 1000 /
                                        static_cast<double>(own - 1));
  }
  request.sink->OnEnd(absl::OkStatus(), 0);
}

void DeliverError(Request& request, const absl::Status& status, double retry_after_ms, SchedulerMetrics& metrics) {
  metrics.Finished("error").Increment();
  request.sink->OnEnd(status, retry_after_ms);
}

}  // namespace tercet::scheduler
