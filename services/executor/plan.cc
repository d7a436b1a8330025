#include "services/executor/plan.h"

#include <absl/container/flat_hash_set.h>

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tercet/v1/executor.pb.h"

namespace tercet::executor {
namespace {

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// NaN fails every comparison, so ranges are written as what must hold.
absl::StatusOr<SamplingParameters> ParseSampling(const v1::SamplingParameters& message) {
  SamplingParameters parameters;
  parameters.temperature = message.temperature();
  parameters.top_k = message.top_k();
  parameters.top_p = message.has_top_p() ? message.top_p() : 1.0f;
  parameters.min_p = message.min_p();
  parameters.seed = message.seed();
  if (!(parameters.temperature >= 0 && parameters.temperature <= 100)) {
    return Refuse("sampling.temperature is ", parameters.temperature, "; it must be between 0 and 100");
  }
  if (parameters.top_k > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
    return Refuse("sampling.top_k is ", parameters.top_k, "; it must be between 0 (off) and 2147483647");
  }
  if (!(parameters.top_p > 0 && parameters.top_p <= 1)) {
    return Refuse("sampling.top_p is ", parameters.top_p, "; it must be above 0 and at most 1");
  }
  if (!(parameters.min_p >= 0 && parameters.min_p <= 1)) {
    return Refuse("sampling.min_p is ", parameters.min_p, "; it must be between 0 and 1");
  }
  return parameters;
}

template <typename Ids>
absl::Status CheckIds(const char* field, const Ids& ids, uint32_t vocabulary_size) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocabulary_size) {
      return Refuse(field, "[", i, "] is ", ids[i], "; the vocabulary has ", vocabulary_size, " tokens (ids from 0)");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenSequence> ParseOpen(const v1::OpenSequence& message, const PlanLimits& limits) {
  if (message.handle() == 0) return Refuse("handle is 0; it must be above 0");
  const uint32_t ids = static_cast<uint32_t>(message.token_ids_size());
  if (ids == 0 || ids > limits.context_length) {
    return Refuse("token_ids has ", ids, " ids; it must have between 1 and ", limits.context_length,
                  " (the context length)");
  }
  if (absl::Status status = CheckIds("token_ids", message.token_ids(), limits.vocabulary_size); !status.ok()) {
    return status;
  }
  if (message.prompt_length() == 0 || message.prompt_length() > ids) {
    return Refuse("prompt_length is ", message.prompt_length(), "; it must be between 1 and ", ids,
                  " (the number of token_ids)");
  }
  absl::StatusOr<SamplingParameters> sampling = ParseSampling(message.sampling());
  if (!sampling.ok()) return sampling.status();

  const v1::StopConditions& stop = message.stop();
  if (stop.max_new_tokens() > limits.context_length) {
    return Refuse("stop.max_new_tokens is ", stop.max_new_tokens(), "; it must be between 0 and ",
                  limits.context_length, " (the context length)");
  }
  if (static_cast<uint32_t>(stop.stop_token_ids_size()) > kMaxStopTokenIds) {
    return Refuse("stop.stop_token_ids has ", stop.stop_token_ids_size(), " ids; it may have ", kMaxStopTokenIds);
  }
  if (absl::Status status = CheckIds("stop.stop_token_ids", stop.stop_token_ids(), limits.vocabulary_size);
      !status.ok()) {
    return status;
  }
  constexpr uint32_t kMaxTop = 20;
  if (message.logprobs().top() > kMaxTop) {
    return Refuse("logprobs.top is ", message.logprobs().top(), "; it must be between 0 and ", kMaxTop);
  }
  if (message.cache_salt().size() > kMaxCacheSaltBytes) {
    return Refuse("cache_salt has ", message.cache_salt().size(), " bytes; it may have ", kMaxCacheSaltBytes);
  }

  OpenSequence open;
  open.handle = message.handle();
  open.token_ids.assign(message.token_ids().begin(), message.token_ids().end());
  open.prompt_length = message.prompt_length();
  open.sampling = *sampling;
  open.stop = {.max_new_tokens = stop.max_new_tokens(),
               .stop_token_ids = {stop.stop_token_ids().begin(), stop.stop_token_ids().end()},
               .ignore_eos = stop.ignore_eos()};
  open.logprobs = {.enabled = message.logprobs().enabled(),
                   .top = message.logprobs().top(),
                   .prompt = message.logprobs().prompt()};
  open.cache_salt = message.cache_salt();
  return open;
}

absl::StatusOr<PlanRow> ParseRow(const v1::PlanRow& message, const PlanLimits& limits) {
  if (message.handle() == 0) return Refuse("handle is 0; it must be above 0");
  if (message.prefill_tokens() > limits.max_rows) {
    return Refuse("prefill_tokens is ", message.prefill_tokens(), "; it must be at most ", limits.max_rows,
                  " (max_rows)");
  }
  if (absl::Status status = CheckIds("draft_token_ids", message.draft_token_ids(), limits.vocabulary_size);
      !status.ok()) {
    return status;
  }
  PlanRow row;
  row.handle = message.handle();
  row.prefill_tokens = message.prefill_tokens();
  row.draft_token_ids.assign(message.draft_token_ids().begin(), message.draft_token_ids().end());
  row.page_limit = message.page_limit();
  return row;
}

absl::Status Locate(const absl::Status& status, uint64_t plan, const char* field, int index, uint64_t handle) {
  return absl::Status(status.code(), absl::StrCat("plan ", plan, ", ", field, "[", index, "] (handle ", handle,
                                                  "): ", status.message()));
}

}  // namespace

absl::StatusOr<Plan> ParsePlan(const v1::Plan& message, const PlanLimits& limits) {
  Plan plan;
  plan.id = message.plan_id();
  if (plan.id == 0) return Refuse("plan_id is 0; plans are numbered from 1");
  if (message.free_steps() > kMaxFreeSteps) {
    return Refuse("plan ", plan.id, ": free_steps is ", message.free_steps(), "; it must be at most ", kMaxFreeSteps);
  }
  plan.free_steps = message.free_steps();
  if (static_cast<uint32_t>(message.open_size()) > limits.max_sequences) {
    return Refuse("plan ", plan.id, " opens ", message.open_size(), " sequences; this executor holds ",
                  limits.max_sequences);
  }

  absl::flat_hash_set<uint64_t> handles;
  plan.open.reserve(message.open_size());
  for (int i = 0; i < message.open_size(); ++i) {
    const v1::OpenSequence& item = message.open(i);
    absl::StatusOr<OpenSequence> open = ParseOpen(item, limits);
    if (!open.ok()) return Locate(open.status(), plan.id, "open", i, item.handle());
    if (!handles.insert(item.handle()).second) {
      return Locate(absl::InvalidArgumentError("the handle is opened twice"), plan.id, "open", i, item.handle());
    }
    plan.open.push_back(*std::move(open));
  }

  plan.close.assign(message.close().begin(), message.close().end());

  handles.clear();
  uint64_t least_rows = 0;
  plan.rows.reserve(message.rows_size());
  for (int i = 0; i < message.rows_size(); ++i) {
    const v1::PlanRow& item = message.rows(i);
    absl::StatusOr<PlanRow> row = ParseRow(item, limits);
    if (!row.ok()) return Locate(row.status(), plan.id, "rows", i, item.handle());
    if (!handles.insert(item.handle()).second) {
      return Locate(absl::InvalidArgumentError("the sequence has two rows"), plan.id, "rows", i, item.handle());
    }
    least_rows += 1 + row->draft_token_ids.size();
    plan.rows.push_back(*std::move(row));
  }
  if (least_rows > limits.max_rows) {
    return Refuse("plan ", plan.id, " asks for ", least_rows, " rows in one step (a row and its drafts each); ",
                  "this executor computes at most ", limits.max_rows, " (max_rows)");
  }
  return plan;
}

}  // namespace tercet::executor
