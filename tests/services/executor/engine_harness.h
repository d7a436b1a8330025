// Drives an Engine over a tiny model and records, per sequence, everything that it reports.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "services/executor/engine.h"
#include "tests/services/executor/tiny_parts.h"

namespace tercet::executor {

// Everything one sequence has reported.
struct Outcome {
  std::vector<uint32_t> ids;
  std::vector<PositionLogprobs> logprobs;
  std::vector<PositionLogprobs> prompt_logprobs;
  std::optional<uint32_t> cached_tokens;
  std::optional<FinishReason> finish;
  absl::Status error;
  bool out_of_pages = false;
  uint32_t computed = 0;
  uint32_t drafted = 0;
  uint32_t accepted = 0;
  uint32_t pages = 0;

  bool ended() const { return finish.has_value() || !error.ok(); }
};

class RecordingSink : public ResultSink {
 public:
  void OnResults(StepResults results) override {
    std::lock_guard lock(mutex_);
    ++messages;
    for (RowResult& row : results.rows) {
      Outcome& outcome = outcomes[row.handle];
      EXPECT_FALSE(outcome.ended()) << "handle " << row.handle << " reports after its end";
      if (!row.token_ids.empty()) {
        const uint32_t base = first_index.contains(row.handle) ? first_index[row.handle] : 0;
        EXPECT_EQ(row.first_index, base + outcome.ids.size());
      }
      if (!row.prompt_logprobs.empty()) {
        EXPECT_EQ(row.prompt_first_index, outcome.prompt_logprobs.size() + 1);
      }
      if (row.cached_tokens) {
        EXPECT_FALSE(outcome.cached_tokens.has_value());
        outcome.cached_tokens = row.cached_tokens;
      }
      outcome.ids.insert(outcome.ids.end(), row.token_ids.begin(), row.token_ids.end());
      outcome.logprobs.insert(outcome.logprobs.end(), row.logprobs.begin(), row.logprobs.end());
      outcome.prompt_logprobs.insert(outcome.prompt_logprobs.end(), row.prompt_logprobs.begin(),
                                     row.prompt_logprobs.end());
      outcome.finish = row.finish;
      outcome.error = row.error;
      outcome.out_of_pages = row.out_of_pages;
      outcome.computed = row.computed_tokens;
      outcome.drafted += row.drafted_tokens;
      outcome.accepted += row.accepted_tokens;
      outcome.pages = row.pages;
    }
    steps.insert(steps.end(), results.steps.begin(), results.steps.end());
    free_pages = results.free_pages;
    cached_pages = results.cached_pages;
    if (results.idle) idle_plan = results.plan_id;
    changed_.notify_all();
  }
  void OnPlansTaken() override {}
  void OnFault(absl::Status status) override {
    std::lock_guard lock(mutex_);
    fault = std::move(status);
    changed_.notify_all();
  }

  // Waits until `done` holds (evaluated under the lock).
  bool WaitFor(const std::function<bool()>& done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), done);
  }
  Outcome outcome(uint64_t handle) {
    std::lock_guard lock(mutex_);
    return outcomes[handle];
  }

  std::map<uint64_t, Outcome> outcomes;
  std::map<uint64_t, uint32_t> first_index;
  std::vector<StepStatistics> steps;
  uint32_t free_pages = 0;
  uint32_t cached_pages = 0;
  uint64_t idle_plan = 0;
  int messages = 0;
  absl::Status fault;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct HarnessOptions {
  TinyOptions tiny;
  uint32_t context_length = 512;
  uint32_t max_sequences = 32;
  std::vector<uint32_t> end_of_generation_ids;
  std::chrono::milliseconds flush{1};
  PrefixTree::HashFunction prefix_hash = &PrefixTree::HashPage;
  EngineMetrics* metrics = nullptr;
};

class Harness {
 public:
  explicit Harness(const HarnessOptions& options = {})
      : parts(options.tiny),
        engine({.limits = {.vocabulary_size = parts.vocabulary(),
                           .context_length = options.context_length,
                           .max_rows = static_cast<uint32_t>(options.tiny.max_rows),
                           .max_sequences = options.max_sequences},
                .flush = options.flush,
                .end_of_generation_ids = options.end_of_generation_ids,
                .prefix_hash = options.prefix_hash},
               parts.forward(), parts.pool(), parts.team(), options.metrics) {
    Attach(1);
  }

  void Attach(uint64_t epoch) {
    epoch_ = epoch;
    plan_id_ = 0;
    sink = std::make_shared<RecordingSink>();
    engine.Attach(epoch, sink);
  }

  // Sends a plan without waiting; returns its number.
  uint64_t Send(Plan plan) {
    plan.id = ++plan_id_;
    for (const OpenSequence& open : plan.open) {
      sink->first_index[open.handle] = static_cast<uint32_t>(open.token_ids.size()) - open.prompt_length;
    }
    engine.Submit(epoch_, std::move(plan));
    return plan_id_;
  }
  // Sends a plan and waits until it is used up.
  void Run(Plan plan) {
    const uint64_t id = Send(std::move(plan));
    ASSERT_TRUE(sink->WaitFor([&] { return sink->idle_plan == id || !sink->fault.ok(); }));
  }
  void Close(uint64_t handle) { Run({.close = {handle}}); }

  // Drafts to verify behind the ids of a sequence.
  using Drafter = std::function<std::vector<uint32_t>(const std::vector<uint32_t>& generated)>;

  // Runs one request alone to its end.
  Outcome Complete(OpenSequence open, uint32_t chunk = 64, uint32_t free_steps = 64, const Drafter& drafter = nullptr) {
    const uint64_t handle = open.handle = ++handle_;
    const uint32_t prompt = open.prompt_length;
    const std::vector<uint32_t> resumed(open.token_ids.begin() + prompt, open.token_ids.end());
    Run({.open = {std::move(open)}});
    for (int plans = 0; plans < 2000; ++plans) {
      const Outcome so_far = sink->outcome(handle);
      if (so_far.ended()) return so_far;
      std::vector<uint32_t> generated = resumed;
      generated.insert(generated.end(), so_far.ids.begin(), so_far.ids.end());
      PlanRow row{.handle = handle, .prefill_tokens = chunk};
      if (drafter && !so_far.ids.empty()) row.draft_token_ids = drafter(generated);
      Run({.rows = {std::move(row)}, .free_steps = free_steps});
    }
    ADD_FAILURE() << "the sequence does not end";
    return sink->outcome(handle);
  }

  // No page is lost: each is free or cached.
  void ExpectBaseline() {
    Run({});
    EXPECT_EQ(engine.open_sequences(), 0);
    EXPECT_EQ(static_cast<int32_t>(sink->free_pages + sink->cached_pages), parts.pool().total_pages());
    EXPECT_EQ(engine.free_pages() + engine.cached_pages(), parts.pool().total_pages());
  }

  TinyParts parts;
  std::shared_ptr<RecordingSink> sink;
  Engine engine;

  uint64_t NewHandle() { return ++handle_; }

 private:
  uint64_t epoch_ = 0;
  uint64_t plan_id_ = 0;
  uint64_t handle_ = 100;
};

inline void ExpectSameAnswer(const Outcome& actual, const Outcome& expected) {
  EXPECT_EQ(actual.ids, expected.ids);
  EXPECT_EQ(actual.logprobs, expected.logprobs);
  EXPECT_EQ(actual.finish, expected.finish);
}

}  // namespace tercet::executor
