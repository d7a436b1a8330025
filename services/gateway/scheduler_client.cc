#include "services/gateway/scheduler_client.h"

#include <absl/strings/numbers.h>
#include <absl/time/clock.h>
#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "common/rpc/status.h"
#include "services/gateway/http/api_error.h"
#include "tercet/v1/scheduler.grpc.pb.h"

namespace tercet::gateway {
namespace {

// The scheduler ends a request at its deadline by itself; this much later the call is given up as lost.
constexpr absl::Duration kDeadlineSlack = absl::Seconds(10);
constexpr uint32_t kWatchIntervalMs = 200;
constexpr absl::Duration kWatchPause = absl::Milliseconds(100);

// A Generate stream. Events are gathered while the strand is busy, so that a burst costs one callback.
class GenerateCall final : public grpc::ClientReadReactor<v1::GenerateEvent>,
                           public Call,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  GenerateCall(v1::GenerateRequest request, absl::Time deadline, std::shared_ptr<Strand> strand,
               SchedulerClient::OnEvents on_events, SchedulerClient::OnEnd on_end)
      : request_(std::move(request)),
        strand_(std::move(strand)),
        on_events_(std::move(on_events)),
        on_end_(std::move(on_end)) {
    if (deadline != absl::InfiniteFuture()) context_.set_deadline(absl::ToChronoTime(deadline + kDeadlineSlack));
    context_.AddMetadata("x-request-id", request_.request_id());
    if (!request_.traceparent().empty()) context_.AddMetadata("traceparent", request_.traceparent());
  }

  void Start(v1::Scheduler::Stub* stub) {
    self_ = shared_from_this();  // gRPC holds us until OnDone
    stub->async()->Generate(&context_, &request_, this);
    StartRead(&event_);
    StartCall();
  }

  void Cancel() override { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      std::lock_guard lock(mutex_);
      arrived_.push_back(std::move(event_));
    }
    event_.Clear();
    Wake();
    StartRead(&event_);
  }

  void OnDone(const grpc::Status& status) override {
    absl::Status end = rpc::FromGrpc(status);
    const auto& trailers = context_.GetServerTrailingMetadata();
    if (auto found = trailers.find("retry-after-ms"); !end.ok() && found != trailers.end()) {
      int64_t milliseconds = 0;
      absl::string_view text(found->second.data(), found->second.size());
      if (absl::SimpleAtoi(text, &milliseconds) && milliseconds >= 0) end = WithRetryAfter(end, milliseconds);
    }
    {
      std::lock_guard lock(mutex_);
      end_ = std::move(end);
    }
    Wake();
    self_.reset();
  }

 private:
  void Wake() {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(awake_, true)) return;
    }
    strand_->Post([self = shared_from_this()] { self->Deliver(); });
  }

  void Deliver() {
    std::vector<v1::GenerateEvent> events;
    std::optional<absl::Status> end;
    {
      std::lock_guard lock(mutex_);
      awake_ = false;
      events.swap(arrived_);
      end = std::exchange(end_, std::nullopt);
    }
    if (!events.empty()) on_events_(std::move(events));
    if (end.has_value()) {
      // Whoever waits may hold us; let go of it.
      on_events_ = nullptr;
      std::exchange(on_end_, nullptr)(*std::move(end));
    }
  }

  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  v1::GenerateEvent event_;
  std::shared_ptr<Strand> strand_;
  SchedulerClient::OnEvents on_events_;  // these two: on the strand
  SchedulerClient::OnEnd on_end_;
  std::shared_ptr<GenerateCall> self_;

  std::mutex mutex_;  // guards the three below
  bool awake_ = false;
  std::vector<v1::GenerateEvent> arrived_;
  std::optional<absl::Status> end_;
};

// What watching shares between a stream and its successor.
struct WatchState {
  std::mutex mutex;
  std::optional<v1::SchedulerState> latest;
  bool stopped = false;
  grpc::ClientContext* context = nullptr;  // of the running stream
  std::unique_ptr<grpc::Alarm> alarm;      // until the next stream
};

// A Watch stream; when it ends it starts the next one after a pause. Deletes itself.
class WatchStream final : public grpc::ClientReadReactor<v1::SchedulerState> {
 public:
  static void Start(std::shared_ptr<WatchState> state, std::shared_ptr<v1::Scheduler::Stub> stub) {
    auto* stream = new WatchStream(std::move(state), std::move(stub));
    {
      std::lock_guard lock(stream->state_->mutex);
      if (stream->state_->stopped) {
        delete stream;
        return;
      }
      stream->state_->context = &stream->context_;
    }
    stream->request_.set_interval_ms(kWatchIntervalMs);
    stream->stub_->async()->Watch(&stream->context_, &stream->request_, stream);
    stream->StartRead(&stream->reply_);
    stream->StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      std::lock_guard lock(state_->mutex);
      state_->latest = std::move(reply_);
    }
    reply_.Clear();
    StartRead(&reply_);
  }

  void OnDone(const grpc::Status&) override {
    auto alarm = std::make_unique<grpc::Alarm>();
    {
      std::lock_guard lock(state_->mutex);
      state_->latest.reset();
      state_->context = nullptr;
      if (!state_->stopped) {
        // An alarm keeps its callback after it has rung, so the callback must not keep what owns the alarm.
        alarm->Set(absl::ToChronoTime(absl::Now() + kWatchPause), [weak = std::weak_ptr(state_), stub = stub_](bool rang) {
          if (auto state = weak.lock(); rang && state != nullptr) Start(state, stub);
        });
        alarm.swap(state_->alarm);
      }
    }
    delete this;
  }

 private:
  WatchStream(std::shared_ptr<WatchState> state, std::shared_ptr<v1::Scheduler::Stub> stub)
      : state_(std::move(state)), stub_(std::move(stub)) {}

  std::shared_ptr<WatchState> state_;
  std::shared_ptr<v1::Scheduler::Stub> stub_;
  grpc::ClientContext context_;
  v1::WatchRequest request_;
  v1::SchedulerState reply_;
};

class Implementation final : public SchedulerClient {
 public:
  explicit Implementation(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)),
        stub_(v1::Scheduler::NewStub(channel_)),
        watch_(std::make_shared<WatchState>()) {}

  ~Implementation() override {
    std::lock_guard lock(watch_->mutex);
    watch_->stopped = true;
    if (watch_->context != nullptr) watch_->context->TryCancel();
  }

  std::shared_ptr<Call> Generate(v1::GenerateRequest request, absl::Time deadline, std::shared_ptr<Strand> strand,
                                 OnEvents events, OnEnd end) override {
    auto call = std::make_shared<GenerateCall>(std::move(request), deadline, std::move(strand), std::move(events),
                                               std::move(end));
    call->Start(stub_.get());
    return call;
  }

  bool Connected() override { return channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY; }

  void StartWatching() override { WatchStream::Start(watch_, stub_); }

  std::optional<v1::SchedulerState> Latest() const override {
    std::lock_guard lock(watch_->mutex);
    return watch_->latest;
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<v1::Scheduler::Stub> stub_;
  std::shared_ptr<WatchState> watch_;
};

}  // namespace

std::shared_ptr<SchedulerClient> SchedulerClient::Create(std::shared_ptr<grpc::Channel> channel) {
  return std::make_shared<Implementation>(std::move(channel));
}

}  // namespace tercet::gateway
