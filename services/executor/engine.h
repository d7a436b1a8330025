// The step loop: takes plans, runs the forward pass, chooses tokens, hands back results.
//
// Owns the sequences, their pages and the prefix cache. One thread, the engine's, does everything; it is worker 0 of the
// WorkerTeam. Others reach it through a mailbox whose lock the loop takes only when a flag says that there is mail; between
// steps of a plan it takes none.
//
// Promises:
//   1. What a sequence produces depends on its own ids, parameters and positions only; every row of a step is computed and
//      sampled on its own.
//   2. A token is reported once, in order; a sequence ends with exactly one finish reason or error, or by being closed.
//   3. When a sequence ends, is closed, or its owner leaves, its pages are free or cached before the next step runs.
//   4. Memory is bounded: by max_sequences, the page pool, kMaxWaitingPlans, and what the owner's sink agrees to hold.
//
// Thread safety: the public methods may be called from any thread; they never block on a step. Sink methods are called on the
// engine's thread and must not block.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "services/executor/engine_metrics.h"
#include "services/executor/forward/forward.h"
#include "services/executor/forward/worker_team.h"
#include "services/executor/kv/page_pool.h"
#include "services/executor/kv/prefix_tree.h"
#include "services/executor/plan.h"
#include "services/executor/results.h"
#include "services/executor/sequence.h"
#include "services/executor/token_choice.h"

namespace tercet::executor {

// Where an owner's results go.
class ResultSink {
 public:
  virtual ~ResultSink() = default;
  virtual void OnResults(StepResults results) = 0;
  // The waiting plans have been taken: there is room for more.
  virtual void OnPlansTaken() = 0;
  // The owner broke the protocol. Its sequences are closed and its later messages dropped.
  virtual void OnFault(absl::Status status) = 0;
};

struct EngineOptions {
  PlanLimits limits;
  // Results are gathered for at most so long; a first token, an end and an error go at once.
  std::chrono::milliseconds flush{8};
  // Ids that end a sequence unless it ignores them.
  std::vector<uint32_t> end_of_generation_ids;
  // Tests force collisions.
  PrefixTree::HashFunction prefix_hash = &PrefixTree::HashPage;
};

class Engine {
 public:
  // Plans that may wait for the next step boundary; at this number Submit asks the sender to hold back.
  static constexpr size_t kMaxWaitingPlans = 16;

  // The parts must outlive the engine; nobody else uses them while it runs. `forward` computes at least max_rows rows and
  // max_sequences rows of logits. `metrics` may be null.
  Engine(EngineOptions options, Forward& forward, PagePool& pool, WorkerTeam& team, EngineMetrics* metrics);
  // Stops after the step in progress.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // A new owner: sequences of the one before are closed, and what that one still sends is dropped.
  void Attach(uint64_t epoch, std::shared_ptr<ResultSink> sink);
  // Returns false when kMaxWaitingPlans wait: the caller sends no more before OnPlansTaken.
  bool Submit(uint64_t epoch, Plan plan);
  // The owner has left: closes its sequences, keeps the prefix cache. Nothing when another epoch has taken over.
  void Detach(uint64_t epoch);
  // From now on sequences are refused (UNAVAILABLE). `empty` is called once, on the engine's thread, when none is open.
  void Drain(std::function<void()> empty);

  int32_t open_sequences() const { return open_sequences_.load(std::memory_order_relaxed); }
  // As of the last step boundary.
  int32_t free_pages() const { return free_pages_.load(std::memory_order_relaxed); }
  int32_t cached_pages() const { return cached_pages_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;

  struct AttachMail {
    uint64_t epoch;
    std::shared_ptr<ResultSink> sink;
  };
  struct PlanMail {
    uint64_t epoch;
    Plan plan;
  };
  struct DetachMail {
    uint64_t epoch;
  };
  struct DrainMail {
    std::function<void()> empty;
  };
  using Mail = std::variant<AttachMail, PlanMail, DetachMail, DrainMail>;

  // A row of the plan in progress.
  struct ActiveRow {
    Sequence* sequence = nullptr;
    int32_t prefill_tokens = 0;
    int32_t page_limit = 0;
    std::vector<uint32_t> draft;
    // Out of the plan; removed at the end of the step, with its sequence if that has ended.
    bool dropped = false;
    bool ended = false;
  };

  // One sequence's part of the step in progress.
  struct BatchEntry {
    ActiveRow* row = nullptr;
    int32_t first_position = 0;
    int32_t tokens = 0;
    // Decode: tokens - 1 of them are drafts. Prefill: ids of the prompt.
    bool prefill = false;
    // Choices [first_choice, first_choice + choices) are this entry's.
    int32_t first_choice = 0;
    int32_t choices = 0;
  };

  void Post(Mail mail);
  void Loop();
  void WaitForMail();
  void TakeMail();
  void Handle(AttachMail mail);
  void Handle(PlanMail mail);
  void Handle(DetachMail mail);
  void Handle(DrainMail mail);

  absl::Status ApplyPlan(Plan plan);
  void OpenOne(OpenSequence open);
  void CloseAll();
  void Fault(absl::Status status);

  void Step();
  void BuildBatch();
  // Puts decode rows or prefill chunks into the batch; `budget` is what is left of max_rows.
  void AddDecode(ActiveRow& row, int32_t& budget);
  void AddPrefill(ActiveRow& row, int32_t& budget);
  void AddSpan(ActiveRow& row, std::span<const uint32_t> tokens, int32_t logits_from, bool prefill);
  void Pause(ActiveRow& row);
  void ApplyDecode(const BatchEntry& entry);
  void ApplyPrefill(const BatchEntry& entry);
  // Appends chosen tokens to the sequence and its result until one ends it. Returns how many were appended.
  int32_t Emit(ActiveRow& row, std::span<TokenChoice> choices);
  void Finish(ActiveRow& row, FinishReason reason);
  void Fail(ActiveRow& row, absl::Status status);
  void RemoveDropped();

  // The sequence's row in the results being gathered.
  RowResult& ResultOf(Sequence& sequence);
  void UpdateCounts(Sequence& sequence);
  // Sends what was gathered if it is urgent or would be late after another step like the last one.
  void FlushIfDue(Clock::duration last_step);
  void Flush();
  void PublishCounts();
  void NotifyIfEmpty();

  const EngineOptions options_;
  Forward& forward_;
  PagePool& pool_;
  WorkerTeam& team_;
  EngineMetrics* const metrics_;

  PrefixTree tree_;
  TokenChooser chooser_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Sequence>> sequences_;

  // The owner.
  uint64_t epoch_ = 0;
  std::shared_ptr<ResultSink> sink_;
  uint64_t plan_id_ = 0;
  bool draining_ = false;
  std::vector<std::function<void()>> waiting_for_empty_;

  // The plan in progress.
  std::vector<ActiveRow> rows_;
  uint32_t steps_left_ = 0;
  bool plan_open_ = false;

  // The step in progress; capacity is kept from step to step.
  std::vector<BatchEntry> batch_;
  std::vector<ForwardSpan> spans_;
  std::vector<uint32_t> batch_tokens_;
  std::vector<TokenChoice> choices_;
  std::vector<uint32_t> own_tokens_;
  StepStatistics statistics_;
  int32_t logit_rows_ = 0;
  int32_t spare_logits_ = 0;

  // Results not yet sent.
  StepResults gathered_;
  uint64_t gathering_ = 1;
  Clock::time_point gathered_since_;
  bool urgent_ = false;

  std::mutex mutex_;
  std::condition_variable mail_arrived_;
  std::vector<Mail> mailbox_;  // guarded by mutex_
  size_t waiting_plans_ = 0;   // guarded by mutex_
  bool stop_ = false;          // guarded by mutex_
  std::atomic<bool> has_mail_{false};

  std::atomic<int32_t> open_sequences_{0};
  std::atomic<int32_t> free_pages_{0};
  std::atomic<int32_t> cached_pages_{0};

  std::thread thread_;
};

}  // namespace tercet::executor
