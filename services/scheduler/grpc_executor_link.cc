#include "services/scheduler/grpc_executor_link.h"

#include <absl/strings/str_cat.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <random>

#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "common/telemetry/log.h"
#include "tercet/v1/executor.grpc.pb.h"

namespace tercet::scheduler {
namespace {

constexpr auto kDescribeTimeout = std::chrono::seconds(5);
constexpr auto kWelcomeTimeout = std::chrono::seconds(5);
constexpr double kFirstRetryMs = 50;
constexpr double kLastRetryMs = 2000;

}  // namespace

// One Attach call. At most one read and one write are under way; plans queue behind the write. A hold keeps the call open
// for writes from outside its reactions until reading has ended; after `closed_` is set nothing more is started.
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
    if (closed_) return;
    queue_.push_back(std::move(request));
    if (!writing_) {
      writing_ = true;
      StartWrite(&queue_.front());
    }
  }

  void Cancel() { context_.TryCancel(); }

  // Waits for the end of the call, at most `timeout`; true when it has ended or was welcomed (if `or_welcomed`).
  template <typename Duration>
  bool WaitFor(Duration timeout, bool or_welcomed) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return done_ || (or_welcomed && welcomed_); });
  }
  void WaitDone() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }
  bool welcomed() {
    std::lock_guard lock(mutex_);
    return welcomed_;
  }
  // Why it ended, in a sentence.
  std::string problem() {
    std::lock_guard lock(mutex_);
    return problem_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        std::lock_guard lock(mutex_);
        closed_ = true;
      }
      RemoveHold();
      return;
    }
    absl::Status status;
    if (reply_.has_welcome()) {
      status = events_.up(reply_.welcome().lease_epoch(), reply_.welcome().description(), this);
      if (status.ok()) {
        std::lock_guard lock(mutex_);
        welcomed_ = true;
        changed_.notify_all();
      }
    } else if (reply_.has_results()) {
      status = events_.results(reply_.results());
    }
    if (!status.ok()) {
      {
        std::lock_guard lock(mutex_);
        problem_ = std::string(status.message());
      }
      Cancel();
    }
    StartRead(&reply_);
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    queue_.pop_front();
    writing_ = false;
    if (!ok || closed_ || queue_.empty()) return;
    writing_ = true;
    StartWrite(&queue_.front());
  }

  void OnDone(const grpc::Status& status) override {
    std::lock_guard lock(mutex_);
    done_ = true;
    if (problem_.empty()) problem_ = status.ok() ? "the executor ended the stream" : status.error_message();
    changed_.notify_all();
  }

 private:
  const Events& events_;
  grpc::ClientContext context_;
  v1::AttachReply reply_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::AttachRequest> queue_;  // the front is being written while `writing_`
  bool writing_ = false;
  bool closed_ = false;
  bool welcomed_ = false;
  bool done_ = false;
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
  double retry_ms = kFirstRetryMs;
  std::string last_problem;
  while (true) {
    std::string problem = ConnectAndServe();
    events_.down(problem);
    if (served_) retry_ms = kFirstRetryMs;
    if (problem != last_problem || served_) {
      log::Warn("executor not attached", {{"executor", address_}, {"problem", problem}});
      last_problem = problem;
    }
    if (!WaitMs(retry_ms * std::uniform_real_distribution<>(0.8, 1.2)(random))) return;
    retry_ms = std::min(retry_ms * 2, kLastRetryMs);
  }
}

std::string GrpcExecutorLink::ConnectAndServe() {
  served_ = false;
  auto stub = v1::Executor::NewStub(channel_);
  v1::ExecutorDescription description;
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kDescribeTimeout);
    grpc::Status status = stub->Describe(&context, v1::DescribeExecutorRequest(), &description);
    if (!status.ok()) return status.error_message();
  }
  auto stream = std::make_shared<Stream>(events_);
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return "shutting down";
    stream_ = stream;
  }
  v1::AttachRequest hello;
  hello.mutable_hello()->set_lease_epoch(description.lease_epoch() + 1);
  hello.mutable_hello()->set_owner(owner_);
  hello.mutable_hello()->set_vocabulary_fingerprint(description.vocabulary_fingerprint());
  stream->Start(*stub, std::move(hello));
  if (!stream->WaitFor(kWelcomeTimeout, /*or_welcomed=*/true)) stream->Cancel();
  if (stream->welcomed()) {
    served_ = true;
    log::Info("executor attached", {{"executor", address_},
                                    {"epoch", description.lease_epoch() + 1},
                                    {"model", description.model_name()},
                                    {"pages", description.total_pages()},
                                    {"isa", description.instruction_set()}});
  }
  stream->WaitDone();
  std::lock_guard lock(mutex_);
  stream_.reset();
  return stream->problem();
}

}  // namespace tercet::scheduler
