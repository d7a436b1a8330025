#include "services/scheduler/service.h"

#include <absl/strings/str_cat.h>
#include <grpcpp/alarm.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>

#include "common/rpc/status.h"
#include "common/telemetry/log.h"

namespace tercet::scheduler {
namespace {

// Tokens that may wait for a client which does not read; at most some 100 KB.
constexpr size_t kMaxPendingTokens = 8192;

std::chrono::system_clock::time_point InMs(double ms) {
  return std::chrono::system_clock::now() + std::chrono::microseconds(static_cast<int64_t>(ms * 1000));
}

}  // namespace

// ---- Generate

// One client's stream. Events queue behind the write under way, tokens merge into the last waiting event. `finishing_` is
// set once; Finish is called once, when no write is under way.
class SchedulerService::GenerateStream : public grpc::ServerWriteReactor<v1::GenerateEvent>, public RequestSink {
 public:
  GenerateStream(SchedulerService& service, grpc::CallbackServerContext* context) : service_(service), context_(context) {}

  void Begin(const v1::GenerateRequest& spec) {
    double retry_after_ms = 0;
    absl::StatusOr<RequestId> id;
    {
      std::lock_guard lock(service_.mutex_);
      id = service_.scheduler_.Submit(spec, this, &retry_after_ms);
      if (id.ok()) id_ = *id;
      service_.work_.notify_all();
    }
    if (!id.ok()) OnEnd(id.status(), retry_after_ms);
  }

  void OnEvent(v1::GenerateEvent event) override {
    std::lock_guard lock(mutex_);
    if (finishing_) return;
    size_t fresh = event.has_tokens() ? event.tokens().token_ids_size() : 0;
    // The front may be under way; only what waits behind it can still grow.
    if (fresh > 0 && queue_.size() > (writing_ ? 1 : 0) && queue_.back().has_tokens()) {
      v1::Tokens* last = queue_.back().mutable_tokens();
      last->mutable_token_ids()->MergeFrom(event.tokens().token_ids());
      last->mutable_logprobs()->MergeFrom(event.tokens().logprobs());
    } else {
      queue_.push_back(std::move(event));
    }
    pending_tokens_ += fresh;
    if (pending_tokens_ > kMaxPendingTokens) {
      queue_.resize(writing_ ? 1 : 0);
      EndLocked(absl::ResourceExhaustedError("slow consumer: the client does not read its tokens"), 0);
      context_->TryCancel();
      return;
    }
    WriteLocked();
  }

  void OnEnd(const absl::Status& status, double retry_after_ms) override {
    std::lock_guard lock(mutex_);
    EndLocked(status, retry_after_ms);
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (queue_.front().has_tokens()) pending_tokens_ -= queue_.front().tokens().token_ids_size();
    queue_.pop_front();
    if (!ok) queue_.clear();
    WriteLocked();
  }

  void OnCancel() override {
    {
      std::lock_guard lock(service_.mutex_);
      service_.scheduler_.Cancel(id_);
      service_.work_.notify_all();
    }
    std::lock_guard lock(mutex_);
    queue_.resize(std::min<size_t>(queue_.size(), writing_ ? 1 : 0));
    EndLocked(absl::CancelledError("the client cancelled"), 0);
  }

  void OnDone() override { delete this; }

 private:
  void EndLocked(const absl::Status& status, double retry_after_ms) {
    if (finishing_) return;
    finishing_ = true;
    status_ = rpc::ToGrpc(status);
    if (retry_after_ms > 0) {
      context_->AddTrailingMetadata("retry-after-ms", absl::StrCat(static_cast<int64_t>(retry_after_ms)));
    }
    WriteLocked();
  }

  void WriteLocked() {
    if (writing_ || finished_) return;
    if (!queue_.empty()) {
      writing_ = true;
      StartWrite(&queue_.front());
    } else if (finishing_) {
      finished_ = true;
      Finish(status_);
    }
  }

  SchedulerService& service_;
  grpc::CallbackServerContext* const context_;
  std::atomic<RequestId> id_{0};

  std::mutex mutex_;
  std::deque<v1::GenerateEvent> queue_;
  size_t pending_tokens_ = 0;
  bool writing_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  grpc::Status status_;
};

grpc::ServerWriteReactor<v1::GenerateEvent>* SchedulerService::Generate(grpc::CallbackServerContext* context,
                                                                        const v1::GenerateRequest* request) {
  auto* stream = new GenerateStream(*this, context);
  stream->Begin(*request);
  return stream;
}

// ---- Watch

class SchedulerService::WatchStream : public grpc::ServerWriteReactor<v1::SchedulerState> {
 public:
  WatchStream(SchedulerService& service, double interval_ms) : service_(service), interval_ms_(interval_ms) { Write(); }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok || cancelled_) return EndLocked();
    waiting_ = true;
    alarm_.Set(InMs(interval_ms_), [this](bool) {
      std::unique_lock lock(mutex_);
      waiting_ = false;
      if (cancelled_) return EndLocked();
      lock.unlock();
      Write();
    });
  }

  void OnCancel() override {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (waiting_) alarm_.Cancel();  // its callback ends the call
  }

  void OnDone() override { delete this; }

 private:
  void Write() {
    v1::SchedulerState state = service_.Describe();
    std::lock_guard lock(mutex_);
    if (cancelled_) return EndLocked();
    state_ = std::move(state);
    writing_ = true;
    StartWrite(&state_);
  }

  void EndLocked() {
    if (finished_) return;
    finished_ = true;
    Finish(grpc::Status::CANCELLED);
  }

  SchedulerService& service_;
  const double interval_ms_;
  std::mutex mutex_;
  grpc::Alarm alarm_;
  v1::SchedulerState state_;
  bool writing_ = false;
  bool waiting_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
};

grpc::ServerWriteReactor<v1::SchedulerState>* SchedulerService::Watch(grpc::CallbackServerContext*,
                                                                      const v1::WatchRequest* request) {
  uint32_t interval = request->interval_ms() == 0 ? 1000 : request->interval_ms();
  if (interval < 50 || interval > 60000) {
    class Refusal : public grpc::ServerWriteReactor<v1::SchedulerState> {
     public:
      explicit Refusal(uint32_t interval) {
        Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                            absl::StrCat("interval_ms is ", interval, "; it must be 50 to 60000")));
      }
      void OnDone() override { delete this; }
    };
    return new Refusal(interval);
  }
  return new WatchStream(*this, interval);
}

// ---- Drain

class SchedulerService::DrainCall : public grpc::ServerUnaryReactor {
 public:
  DrainCall(SchedulerService& service, double timeout_ms, v1::DrainSchedulerReply* reply)
      : service_(service), reply_(reply), at_start_(service.Unfinished()), until_ms_(service.clock_.NowMs() + timeout_ms) {
    Poll();
  }
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { delete this; }

 private:
  void Poll() {
    size_t left = service_.Unfinished();
    if (left == 0) {
      reply_->set_finished_requests(static_cast<uint32_t>(at_start_));
      Finish(grpc::Status::OK);
    } else if (cancelled_ || service_.clock_.NowMs() >= until_ms_) {
      Finish(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, absl::StrCat(left, " requests are still running")));
    } else {
      alarm_.Set(InMs(20), [this](bool) { Poll(); });
    }
  }

  SchedulerService& service_;
  v1::DrainSchedulerReply* const reply_;
  const size_t at_start_;
  const double until_ms_;
  std::atomic<bool> cancelled_{false};
  grpc::Alarm alarm_;
};

grpc::ServerUnaryReactor* SchedulerService::Drain(grpc::CallbackServerContext*, const v1::DrainSchedulerRequest* request,
                                                  v1::DrainSchedulerReply* reply) {
  StartDraining();
  return new DrainCall(*this, request->timeout_ms() == 0 ? 30000 : request->timeout_ms(), reply);
}

// ---- The scheduler behind its mutex

SchedulerService::SchedulerService(const SchedulerOptions& options, SchedulerMetrics* metrics,
                                   std::function<void(bool)> on_ready)
    : scheduler_(options, clock_, metrics), on_ready_(std::move(on_ready)), timers_([this] { RunTimers(); }) {}

SchedulerService::~SchedulerService() {
  links_.clear();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    work_.notify_all();
  }
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
      ReportReadiness();
      return status;
    };
    events.results = [this, index](const v1::StepResults& results) {
      std::lock_guard lock(mutex_);
      absl::Status status = scheduler_.ExecutorResults(index, results);
      if (scheduler_.unfinished_requests() == 0) work_.notify_all();
      return status;
    };
    events.down = [this, index](const std::string& problem) {
      std::lock_guard lock(mutex_);
      scheduler_.ExecutorDown(index, problem);
      ReportReadiness();
      work_.notify_all();
    };
    links_.push_back(std::make_unique<GrpcExecutorLink>(address, owner, std::move(events)));
  }
}

void SchedulerService::ReportReadiness() {
  bool ready = scheduler_.HasExecutor();
  if (ready == ready_) return;
  ready_ = ready;
  on_ready_(ready);
}

void SchedulerService::RunTimers() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (scheduler_.unfinished_requests() == 0) {
      work_.wait(lock);
      continue;
    }
    // Deadlines are kept to a tenth of a second; nothing on the way of a token waits for this thread.
    work_.wait_for(lock, std::chrono::milliseconds(100), [&] { return stopping_; });
    scheduler_.Tick();
  }
}

void SchedulerService::StartDraining() {
  std::lock_guard lock(mutex_);
  scheduler_.StartDraining();
}

bool SchedulerService::WaitUntilIdle(double timeout_ms) {
  double until = clock_.NowMs() + timeout_ms;
  while (Unfinished() > 0) {
    if (clock_.NowMs() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

v1::SchedulerState SchedulerService::Describe() {
  std::lock_guard lock(mutex_);
  return scheduler_.Describe();
}

size_t SchedulerService::Unfinished() {
  std::lock_guard lock(mutex_);
  return scheduler_.unfinished_requests();
}

}  // namespace tercet::scheduler
