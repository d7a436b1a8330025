#include "services/scheduler/grpc_executor_link.h"

#include <absl/strings/str_cat.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <utility>

#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "common/telemetry/log.h"
#include "tercet/v1/executor.grpc.pb.h"

namespace tercet::scheduler {
namespace {

constexpr auto kDescribeTimeout = std::chrono::seconds(5);
constexpr auto kWelcomeTimeout = std::chrono::seconds(5);
// An executor that starts, or that its former owner left, is found within the longer of these.
constexpr double kFirstRetryMs = 50;
constexpr double kLastRetryMs = 500;

}  // namespace

// One Attach call. At most one read and one write are under way; plans queue behind the write. A hold keeps the call open
// for writes from outside its reactions until reading has ended; from then on nothing more is started.
class GrpcExecutorLink::Stream : public grpc::ClientBidiReactor<v1::AttachRequest, v1::AttachReply>, public ExecutorLink {
 public:
  explicit Stream(const Events& events) : events_(events) {}

  void Start(v1::Executor::Stub& stub, v1::AttachRequest hello) {
    stub.async()->Attach(&context_, this);
    AddHold();
    StartRead(&reply_);
    queue_.push_back(std::move(hello));
    writing_ = true;
    StartWrite(&queue_.front());
    StartCall();
  }

  void Send(v1::Plan plan) override {
    v1::AttachRequest request;
    *request.mutable_plan() = std::move(plan);
    std::lock_guard lock(mutex_);
    if (phase_ >= Phase::kClosing) return;
    queue_.push_back(std::move(request));
    WriteNextLocked();
  }

  void Cancel() { context_.TryCancel(); }

  // Waits until the executor is ours or the call has ended, at most `timeout`. True: it is ours.
  template <typename Duration>
  bool WaitForWelcome(Duration timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return phase_ != Phase::kConnecting; });
    return welcomed_;
  }

  // Waits for the end of the call and says why it ended.
  std::string WaitForEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return phase_ == Phase::kDone; });
    return problem_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Enter(Phase::kClosing);
      RemoveHold();
      return;
    }
    absl::Status status;
    switch (reply_.reply_case()) {
      case v1::AttachReply::kWelcome:
        status = events_.up(reply_.welcome().lease_epoch(), reply_.welcome().description(), this);
        if (status.ok()) Enter(Phase::kServing);
        break;
      case v1::AttachReply::kResults:
        status = events_.results(reply_.results());
        break;
      case v1::AttachReply::REPLY_NOT_SET:
        status = absl::InternalError("the executor sent a message of an unknown kind");
        break;
    }
    if (!status.ok()) {
      {
        std::lock_guard lock(mutex_);
        if (problem_.empty()) problem_ = std::string(status.message());
      }
      Cancel();
    }
    StartRead(&reply_);
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    queue_.pop_front();
    writing_ = false;
    if (ok && phase_ < Phase::kClosing) WriteNextLocked();
  }

  void OnDone(const grpc::Status& status) override {
    std::lock_guard lock(mutex_);
    phase_ = Phase::kDone;
    if (problem_.empty()) problem_ = status.ok() ? "the executor ended the stream" : status.error_message();
    changed_.notify_all();
  }

 private:
  enum class Phase {
    kConnecting,  // hello is on its way
    kServing,     // the executor is ours
    kClosing,     // nothing more can be read
    kDone,        // the call has ended
  };

  void Enter(Phase phase) {
    std::lock_guard lock(mutex_);
    phase_ = phase;
    welcomed_ |= phase == Phase::kServing;
    changed_.notify_all();
  }

  void WriteNextLocked() {
    if (writing_ || queue_.empty()) return;
    writing_ = true;
    StartWrite(&queue_.front());
  }

  const Events& events_;
  grpc::ClientContext context_;
  v1::AttachReply reply_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::kConnecting;
  bool welcomed_ = false;
  std::deque<v1::AttachRequest> queue_;  // the front is being written while `writing_`
  bool writing_ = false;
  std::string problem_;
};

GrpcExecutorLink::GrpcExecutorLink(const std::string& address, const std::string& owner, Events events)
    : address_(address), owner_(owner), events_(std::move(events)), channel_(rpc::MakeChannel(address)) {
  thread_ = std::thread([this] { Run(); });
}

GrpcExecutorLink::~GrpcExecutorLink() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (describing_ != nullptr) describing_->TryCancel();
    if (stream_ != nullptr) stream_->Cancel();
    changed_.notify_all();
  }
  thread_.join();
}

bool GrpcExecutorLink::WaitMs(double ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double, std::milli>(ms), [&] { return stopping_; });
  return !stopping_;
}

void GrpcExecutorLink::Run() {
  // Jitter keeps schedulers that lost an executor together from coming back together.
  std::minstd_rand random(std::random_device{}());
  std::uniform_real_distribution<> jitter(0.8, 1.2);
  Lease lease;
  double retry_ms = kFirstRetryMs;
  bool reported = false;
  do {
    bool served = false;
    std::string problem = ConnectAndServe(lease, &served);
    events_.down(problem);
    {
      // Only now has the scheduler let go of it.
      std::lock_guard lock(mutex_);
      stream_.reset();
      if (stopping_) return;
    }
    retry_ms = served ? kFirstRetryMs : std::min(retry_ms * 2, kLastRetryMs);
    // Once for each absence; the present reason stands in SchedulerState.
    if (served || !reported) log::Warn("executor not attached", {{"executor", address_}, {"problem", problem}});
    reported = true;
  } while (WaitMs(retry_ms * jitter(random)));
}

absl::Status GrpcExecutorLink::Describe(v1::ExecutorDescription* description) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDescribeTimeout);
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::CancelledError("the scheduler stops");
    describing_ = &context;
  }
  grpc::Status status = v1::Executor::NewStub(channel_)->Describe(&context, v1::DescribeExecutorRequest(), description);
  std::lock_guard lock(mutex_);
  describing_ = nullptr;
  return rpc::FromGrpc(status);
}

std::string GrpcExecutorLink::ConnectAndServe(Lease& lease, bool* served) {
  v1::ExecutorDescription description;
  if (absl::Status status = Describe(&description); !status.ok()) return std::string(status.message());
  std::optional<uint64_t> epoch = lease.Claim(description.lease_epoch());
  if (!epoch.has_value()) {
    return absl::StrCat("another scheduler owns it (lease epoch ", description.lease_epoch(), ")");
  }
  auto stream = std::make_shared<Stream>(events_);
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return "the scheduler stops";
    stream_ = stream;
  }
  v1::AttachRequest hello;
  hello.mutable_hello()->set_lease_epoch(*epoch);
  hello.mutable_hello()->set_owner(owner_);
  hello.mutable_hello()->set_vocabulary_fingerprint(description.vocabulary_fingerprint());
  auto stub = v1::Executor::NewStub(channel_);
  stream->Start(*stub, std::move(hello));
  *served = stream->WaitForWelcome(kWelcomeTimeout);
  if (*served) {
    log::Info("executor attached", {{"executor", address_},
                                    {"epoch", *epoch},
                                    {"model", description.model_name()},
                                    {"pages", description.total_pages()},
                                    {"isa", description.instruction_set()}});
  } else {
    stream->Cancel();
  }
  return stream->WaitForEnd();
}

}  // namespace tercet::scheduler
