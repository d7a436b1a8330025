// The scheduler proper: which request runs on which executor, and what each executor computes next.
//
// Owns requests and executors' states. It has no thread, socket or clock of its own: events come in by the methods below,
// effects go out through RequestSink and ExecutorLink. Therefore a test can run it in virtual time. Not thread-safe: the
// caller serialises all calls (service.cc holds one mutex), and sinks and links must not call back from inside.
//
// Promises: each submitted request ends exactly once, unless cancelled; its tokens are gapless and in order; a request that
// lost its executor, or its pages to an older one, goes on elsewhere or later with the tokens it would have had.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "services/scheduler/admission.h"
#include "services/scheduler/batcher.h"
#include "services/scheduler/clock.h"
#include "services/scheduler/executor.h"
#include "services/scheduler/request.h"
#include "services/scheduler/request_queue.h"
#include "services/scheduler/router.h"
#include "services/scheduler/scheduler_metrics.h"
#include "services/scheduler/validation.h"

namespace tercet::scheduler {

struct SchedulerOptions {
  size_t max_queued_requests = 1024;
  uint64_t max_queued_tokens = 4 << 20;
  // Milliseconds; a request's own deadline is cut to this.
  double max_deadline_ms = 10 * 60 * 1000;
  // How long a request that has not begun waits while no executor is there at all.
  double no_executor_ms = 5000;
  BatchLimits batch;
};

class Scheduler {
 public:
  // `clock` and `metrics` must outlive the scheduler.
  Scheduler(const SchedulerOptions& options, const Clock& clock, SchedulerMetrics& metrics);
  ~Scheduler();

  // Takes a request. On an error nothing was taken and the sink will not be called; `retry_after_ms` is then set for
  // RESOURCE_EXHAUSTED and UNAVAILABLE.
  absl::StatusOr<RequestId> Submit(v1::GenerateRequest spec, RequestSink* sink, double* retry_after_ms);

  // Ends a request whose client is gone: its sink is not called again. Unknown ids are ignored.
  void Cancel(RequestId id);

  // Adds an executor by address; returns its index.
  uint32_t AddExecutor(const std::string& address);
  // The executor took our lease. Refused when it serves another model than the others; when it is the only one, requests
  // for the former model end with FAILED_PRECONDITION. `link` lives until ExecutorDown has returned.
  absl::Status ExecutorUp(uint32_t index, uint64_t lease_epoch, const v1::ExecutorDescription& description,
                          ExecutorLink* link);
  // The link is gone (a sentence says why); requests go back to the queue.
  void ExecutorDown(uint32_t index, const std::string& problem);
  // INTERNAL: the results contradict what was planned; the caller drops the link.
  absl::Status ExecutorResults(uint32_t index, const v1::StepResults& results);

  // Deadlines and waits. Call at NextTimerMs() or later; calling more often does no harm.
  void Tick();
  // When Tick has something to do next; infinity if never.
  double NextTimerMs() const;

  // From now on Submit answers UNAVAILABLE.
  void StartDraining() { draining_ = true; }
  bool draining() const { return draining_; }
  size_t unfinished_requests() const { return requests_.size(); }

  // Is an executor there that takes requests?
  bool HasExecutor() const;
  v1::SchedulerState Describe() const;

 private:
  absl::Status ApplyRow(Executor& executor, const v1::StepResults& results, const v1::RowResult& row);
  void UpdateLimits();
  void UpdateGauges();

  void Advance();
  void Assign();
  void Open(Request& request, Executor& executor);
  void Close(Request& request, bool tell_executor);
  void Requeue(Request& request);
  bool MakeRoom(Executor& executor, Request& request);
  bool SendPlans();

  // Both take the request off its executor or the queue, tell the client, and forget it.
  void Finish(Request& request, v1::FinishReason reason);
  void Fail(Request& request, const absl::Status& status, double retry_after_ms = 0);
  void Detach(Request& request);

  SchedulerOptions options_;
  const Clock& clock_;
  SchedulerMetrics& metrics_;
  bool draining_ = false;
  double without_executor_since_ms_;
  RequestId next_id_ = 1;
  ModelLimits limits_;
  Executors executors_;
  absl::flat_hash_map<RequestId, std::unique_ptr<Request>> requests_;
  RequestQueue queue_;
  Admission admission_;
  Router router_;
};

}  // namespace tercet::scheduler
