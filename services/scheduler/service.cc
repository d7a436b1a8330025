#include "services/scheduler/service.h"

#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "services/scheduler/drain_call.h"
#include "services/scheduler/generate_stream.h"
#include "services/scheduler/watch_stream.h"

namespace tercet::scheduler {

SchedulerService::SchedulerService(const ServiceOptions& options, SchedulerMetrics& metrics,
                                   std::function<void(bool)> on_ready)
    : drain_ms_(options.drain_ms),
      scheduler_(options.scheduler, clock_, metrics),
      on_ready_(std::move(on_ready)),
      timers_([this] { RunTimers(); }) {}

SchedulerService::~SchedulerService() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    timer_.notify_all();
  }
  links_.clear();
  timers_.join();
}

void SchedulerService::Connect(const std::vector<std::string>& addresses) {
  std::string owner = absl::StrCat("scheduler-", getpid());
  for (const std::string& address : addresses) {
    uint32_t index;
    {
      std::lock_guard lock(mutex_);
      index = scheduler_.AddExecutor(address);
    }
    GrpcExecutorLink::Events events;
    events.up = [this, index](uint64_t epoch, const v1::ExecutorDescription& description, ExecutorLink* link) {
      std::lock_guard lock(mutex_);
      absl::Status status = scheduler_.ExecutorUp(index, epoch, description, link);
      ReportReadinessLocked();
      return status;
    };
    events.results = [this, index](const v1::StepResults& results) {
      std::lock_guard lock(mutex_);
      absl::Status status = scheduler_.ExecutorResults(index, results);
      if (ready_ != scheduler_.HasExecutor()) ReportReadinessLocked();
      return status;
    };
    events.down = [this, index](const std::string& problem) {
      std::lock_guard lock(mutex_);
      scheduler_.ExecutorDown(index, problem);
      ReportReadinessLocked();
      WakeTimersLocked();
    };
    links_.push_back(std::make_unique<GrpcExecutorLink>(address, owner, std::move(events)));
  }
}

// ---- Calls

grpc::ServerWriteReactor<v1::GenerateEvent>* SchedulerService::Generate(grpc::CallbackServerContext* context,
                                                                        const v1::GenerateRequest* request) {
  return new GenerateStream(*this, context, *request);
}

grpc::ServerWriteReactor<v1::SchedulerState>* SchedulerService::Watch(grpc::CallbackServerContext*,
                                                                      const v1::WatchRequest* request) {
  return new WatchStream(*this, request->interval_ms());
}

grpc::ServerUnaryReactor* SchedulerService::Drain(grpc::CallbackServerContext*, const v1::DrainSchedulerRequest* request,
                                                  v1::DrainSchedulerReply* reply) {
  StartDraining();
  return new DrainCall(*this, request->timeout_ms() == 0 ? drain_ms_ : request->timeout_ms(), reply);
}

absl::StatusOr<RequestId> SchedulerService::Submit(const v1::GenerateRequest& spec, RequestSink* sink,
                                                   double* retry_after_ms) {
  std::lock_guard lock(mutex_);
  ++streams_;
  absl::StatusOr<RequestId> id = scheduler_.Submit(spec, sink, retry_after_ms);
  if (id.ok()) WakeTimersLocked();
  return id;
}

void SchedulerService::Cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  scheduler_.Cancel(id);
}

void SchedulerService::OnStreamDone() {
  std::lock_guard lock(mutex_);
  if (--streams_ == 0) idle_.notify_all();
}

v1::SchedulerState SchedulerService::Describe() {
  std::lock_guard lock(mutex_);
  return scheduler_.Describe();
}

size_t SchedulerService::OpenStreams() {
  std::lock_guard lock(mutex_);
  return streams_;
}

// ---- Readiness and the end

void SchedulerService::ReportReadinessLocked() {
  bool ready = scheduler_.HasExecutor() && !scheduler_.draining();
  if (ready == ready_ || stopping_) return;
  ready_ = ready;
  on_ready_(ready);
}

void SchedulerService::StartDraining() {
  std::lock_guard lock(mutex_);
  scheduler_.StartDraining();
  ReportReadinessLocked();
}

bool SchedulerService::WaitUntilIdle(double timeout_ms) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, std::chrono::duration<double, std::milli>(timeout_ms), [&] { return streams_ == 0; });
}

// ---- Time

// Nothing on the way of a token waits for this thread: it sleeps until the next deadline.
void SchedulerService::RunTimers() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_ms_ = scheduler_.NextTimerMs();
    double wait_ms = wake_ms_ - clock_.NowMs();
    if (std::isinf(wait_ms)) {
      timer_.wait(lock);
    } else if (wait_ms > 0) {
      timer_.wait_for(lock, std::chrono::duration<double, std::milli>(wait_ms));
    }
    scheduler_.Tick();
  }
}

void SchedulerService::WakeTimersLocked() {
  if (scheduler_.NextTimerMs() < wake_ms_) timer_.notify_all();
}

}  // namespace tercet::scheduler
