#include "services/executor/results.h"

#include <absl/container/flat_hash_map.h>

#include <iterator>
#include <utility>

#include "tercet/v1/executor.pb.h"

namespace tercet::executor {
namespace {

template <typename T>
void Append(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void MergeRow(RowResult& earlier, RowResult&& later) {
  if (later.cached_tokens.has_value()) earlier.cached_tokens = later.cached_tokens;
  earlier.computed_tokens = later.computed_tokens;
  if (earlier.token_ids.empty()) earlier.first_index = later.first_index;
  Append(earlier.token_ids, std::move(later.token_ids));
  Append(earlier.logprobs, std::move(later.logprobs));
  if (earlier.prompt_logprobs.empty()) earlier.prompt_first_index = later.prompt_first_index;
  Append(earlier.prompt_logprobs, std::move(later.prompt_logprobs));
  earlier.finish = later.finish;
  earlier.error = std::move(later.error);
  earlier.out_of_pages = later.out_of_pages;
  earlier.drafted_tokens += later.drafted_tokens;
  earlier.accepted_tokens += later.accepted_tokens;
  earlier.pages = later.pages;
}

bool Ended(const RowResult& row) { return row.finish.has_value() || !row.error.ok(); }

size_t LogprobBytes(const std::vector<PositionLogprobs>& logprobs) {
  size_t bytes = 0;
  for (const PositionLogprobs& position : logprobs) bytes += sizeof(position) + position.top.size() * 16;
  return bytes;
}

v1::FinishReason ToMessage(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kContext:
      return v1::FINISH_REASON_CONTEXT;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

void ToMessage(const PositionLogprobs& logprobs, v1::PositionLogprobs* message) {
  message->set_logprob(logprobs.logprob);
  for (const TokenLogprob& top : logprobs.top) {
    v1::TokenLogprob* item = message->add_top();
    item->set_token_id(top.id);
    item->set_logprob(top.logprob);
  }
}

void ToMessage(const RowResult& row, v1::RowResult* message) {
  message->set_handle(row.handle);
  if (row.cached_tokens.has_value()) message->set_cached_tokens(*row.cached_tokens);
  message->set_computed_tokens(row.computed_tokens);
  message->set_first_index(row.first_index);
  message->mutable_token_ids()->Add(row.token_ids.begin(), row.token_ids.end());
  for (const PositionLogprobs& position : row.logprobs) ToMessage(position, message->add_logprobs());
  message->set_prompt_first_index(row.prompt_first_index);
  for (const PositionLogprobs& position : row.prompt_logprobs) ToMessage(position, message->add_prompt_logprobs());
  if (row.finish.has_value()) message->set_finish_reason(ToMessage(*row.finish));
  if (!row.error.ok()) {
    message->set_error_code(static_cast<int32_t>(row.error.code()));
    message->set_error_message(std::string(row.error.message()));
  }
  message->set_out_of_pages(row.out_of_pages);
  message->set_drafted_tokens(row.drafted_tokens);
  message->set_accepted_tokens(row.accepted_tokens);
  message->set_pages(row.pages);
}

}  // namespace

void ToMessage(const StepResults& results, v1::StepResults* message) {
  message->set_lease_epoch(results.epoch);
  message->set_plan_id(results.plan_id);
  for (const RowResult& row : results.rows) ToMessage(row, message->add_rows());
  for (const StepStatistics& step : results.steps) {
    v1::StepStatistics* item = message->add_steps();
    item->set_rows(step.rows);
    item->set_prefill_rows(step.prefill_rows);
    item->set_forward_us(step.forward_us);
    item->set_sample_us(step.sample_us);
  }
  message->set_free_pages(results.free_pages);
  message->set_cached_pages(results.cached_pages);
  message->set_idle(results.idle);
}

void Merge(StepResults& earlier, StepResults&& later) {
  absl::flat_hash_map<uint64_t, size_t> row_of;
  row_of.reserve(earlier.rows.size());
  for (size_t i = 0; i < earlier.rows.size(); ++i) row_of[earlier.rows[i].handle] = i;
  for (RowResult& row : later.rows) {
    const auto known = row_of.find(row.handle);
    // A handle is free again once its sequence has ended: what follows is another sequence.
    if (known != row_of.end() && !Ended(earlier.rows[known->second])) {
      MergeRow(earlier.rows[known->second], std::move(row));
    } else {
      row_of[row.handle] = earlier.rows.size();
      earlier.rows.push_back(std::move(row));
    }
  }
  Append(earlier.steps, std::move(later.steps));
  earlier.free_pages = later.free_pages;
  earlier.cached_pages = later.cached_pages;
  earlier.idle = later.idle;
}

size_t ApproximateBytes(const StepResults& results) {
  size_t bytes = sizeof(results) + results.steps.size() * sizeof(StepStatistics);
  for (const RowResult& row : results.rows) {
    bytes += sizeof(row) + row.token_ids.size() * 5 + LogprobBytes(row.logprobs) + LogprobBytes(row.prompt_logprobs);
  }
  return bytes;
}

}  // namespace tercet::executor
