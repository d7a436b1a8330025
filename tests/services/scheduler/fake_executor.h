// An executor made of arithmetic: its "model" maps the ids so far to the next id, so that every test knows the right answer
// of every request. It obeys plans as executor.proto says, takes steps only when told to, and counts its pages.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "services/scheduler/executor_link.h"

namespace tercet::scheduler {

// The next id after `ids`: any function of all of them will do.
inline uint32_t NextId(const std::vector<uint32_t>& ids) {
  uint64_t hash = 1469598103934665603ull;
  for (uint32_t id : ids) hash = (hash ^ id) * 1099511628211ull;
  return static_cast<uint32_t>(hash >> 33) % 900 + 100;
}

// What a request with this prompt must answer.
inline std::vector<uint32_t> RightAnswer(std::vector<uint32_t> prompt, size_t tokens) {
  std::vector<uint32_t> answer;
  for (size_t i = 0; i < tokens; ++i) {
    answer.push_back(NextId(prompt));
    prompt.push_back(answer.back());
  }
  return answer;
}

class FakeExecutor : public ExecutorLink {
 public:
  explicit FakeExecutor(uint32_t pages = 64, uint32_t context = 512) {
    description.set_model_name("fake");
    description.set_model_hash("0123456789abcdef");
    description.set_vocabulary_fingerprint("fedcba9876543210");
    description.set_vocabulary_size(1000);
    description.set_context_length(context);
    description.set_page_tokens(16);
    description.set_total_pages(pages);
    description.set_max_rows(64);
    description.set_max_sequences(32);
  }

  void Send(v1::Plan plan) override { plans.push_back(std::move(plan)); }

  // Takes one step of the newest plan; fills `results` and returns true, or returns false when there is nothing to do.
  bool Step(v1::StepResults* results) {
    while (!plans.empty()) {
      Apply(plans.front());
      plans.pop_front();
    }
    results->Clear();
    results->set_lease_epoch(epoch);
    results->set_plan_id(plan.plan_id());
    for (uint64_t handle : std::exchange(refused, {})) {
      v1::RowResult* row = results->add_rows();
      row->set_handle(handle);
      row->set_error_code(14);  // UNAVAILABLE
      row->set_error_message("this executor is draining");
    }
    if (steps_left == 0) return results->rows_size() > 0;
    --steps_left;
    v1::StepStatistics* statistics = results->add_steps();
    statistics->set_forward_us(1000);
    uint32_t rows = 0;
    for (const v1::PlanRow& row : plan.rows()) rows += Advance(row, results);
    statistics->set_rows(std::max(rows, 1u));
    if (rows == 0) steps_left = 0;
    results->set_idle(steps_left == 0);
    results->set_free_pages(description.total_pages() - used_pages());
    return true;
  }

  uint32_t used_pages() const {
    uint32_t pages = 0;
    for (const auto& [handle, sequence] : sequences) pages += PagesFor(sequence.computed);
    return pages;
  }

  v1::ExecutorDescription description;
  uint64_t epoch = 1;
  std::deque<v1::Plan> plans;
  uint32_t largest_use = 0;
  uint64_t prefilled = 0;
  uint32_t largest_rows = 0;  // entries of one plan
  bool draining = false;      // refuses new sequences, finishes those it has

 private:
  struct Sequence {
    std::vector<uint32_t> ids;
    uint32_t prompt = 0;
    uint32_t max_new = 0;
    uint32_t computed = 0;
    bool reported = false;
  };

  static uint32_t PagesFor(uint32_t tokens) { return (tokens + 15) / 16; }

  void Apply(const v1::Plan& next) {
    for (uint64_t handle : next.close()) sequences.erase(handle);
    for (const v1::OpenSequence& open : next.open()) {
      if (draining) {
        refused.push_back(open.handle());
        continue;
      }
      Sequence& sequence = sequences[open.handle()];
      sequence.ids.assign(open.token_ids().begin(), open.token_ids().end());
      sequence.prompt = open.prompt_length();
      sequence.max_new = open.stop().max_new_tokens();
    }
    plan = next;
    largest_rows = std::max(largest_rows, static_cast<uint32_t>(next.rows_size()));
    steps_left = next.rows_size() == 0 ? 0 : next.free_steps() + 1;
  }

  uint32_t Advance(const v1::PlanRow& row, v1::StepResults* results) {
    auto found = sequences.find(row.handle());
    if (found == sequences.end()) return 0;
    Sequence& sequence = found->second;
    uint32_t known = static_cast<uint32_t>(sequence.ids.size());
    uint32_t count = std::min(std::max(row.prefill_tokens(), 1u), known - sequence.computed);
    v1::RowResult* result = results->add_rows();
    result->set_handle(row.handle());
    if (!sequence.reported) result->set_cached_tokens(0);
    sequence.reported = true;
    result->set_computed_tokens(sequence.computed);
    result->set_pages(PagesFor(sequence.computed));
    if (PagesFor(sequence.computed + count) > row.page_limit()) {
      result->set_out_of_pages(true);
      return 0;
    }
    sequence.computed += count;
    prefilled += count;
    result->set_computed_tokens(sequence.computed);
    result->set_pages(PagesFor(sequence.computed));
    largest_use = std::max(largest_use, used_pages());
    if (sequence.computed < known) return count;
    if (known - sequence.prompt < sequence.max_new && known < description.context_length()) {
      result->set_first_index(known - sequence.prompt);
      result->add_token_ids(NextId(sequence.ids));
      sequence.ids.push_back(result->token_ids(0));
      ++known;
    }
    if (known - sequence.prompt >= sequence.max_new) {
      result->set_finish_reason(v1::FINISH_REASON_LENGTH);
      sequences.erase(found);
    } else if (known >= description.context_length()) {
      result->set_finish_reason(v1::FINISH_REASON_CONTEXT);
      sequences.erase(found);
    }
    return count;
  }

  std::map<uint64_t, Sequence> sequences;
  std::vector<uint64_t> refused;
  v1::Plan plan;
  uint32_t steps_left = 0;
};

}  // namespace tercet::scheduler
