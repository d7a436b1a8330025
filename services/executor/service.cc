#include "services/executor/service.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/status.h"
#include "common/telemetry/log.h"
#include "services/executor/attach_stream.h"

namespace tercet::executor {
namespace {

constexpr size_t kMaxOwnerNameBytes = 128;

// One call of Drain: answered by the engine when no sequence is left, or by the clock.
class DrainCall final : public grpc::ServerUnaryReactor, public std::enable_shared_from_this<DrainCall> {
 public:
  static DrainCall* Start(uint32_t timeout_ms) {
    std::shared_ptr<DrainCall> call(new DrainCall);
    call->self_ = call;
    // A weak reference: the alarm belongs to the call.
    call->clock_.Set(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms),
                     [weak = std::weak_ptr<DrainCall>(call)](bool expired) {
                       const std::shared_ptr<DrainCall> alive = weak.lock();
                       if (expired && alive) alive->Answer(absl::DeadlineExceededError("sequences are still open"));
                     });
    return call.get();
  }

  void Answer(const absl::Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(answered_, true)) return;
    }
    Finish(rpc::ToGrpc(status));
  }

  void OnCancel() override { Answer(absl::CancelledError("the call was cancelled")); }
  void OnDone() override {
    clock_.Cancel();
    self_.reset();
  }

 private:
  DrainCall() = default;

  std::mutex mutex_;
  bool answered_ = false;
  grpc::Alarm clock_;
  std::shared_ptr<DrainCall> self_;
};

}  // namespace

ExecutorService::ExecutorService(ServiceOptions options) : options_(std::move(options)) {}
ExecutorService::~ExecutorService() = default;

void ExecutorService::SetReady(Engine* engine, v1::ExecutorDescription description, PlanLimits limits) {
  std::lock_guard lock(mutex_);
  engine_ = engine;
  description_ = std::move(description);
  limits_ = limits;
}

absl::Status ExecutorService::CheckReady() const {
  if (engine_ != nullptr) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the model is loading, ", load_percent_.load(), " %"));
}

v1::ExecutorDescription ExecutorService::Description() const {
  v1::ExecutorDescription description = description_;
  description.set_lease_epoch(owner_epoch_);
  return description;
}

grpc::ServerUnaryReactor* ExecutorService::Describe(grpc::CallbackServerContext* context,
                                                    const v1::DescribeExecutorRequest*,
                                                    v1::ExecutorDescription* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::Status status;
  {
    std::lock_guard lock(mutex_);
    status = CheckReady();
    if (status.ok()) *reply = Description();
  }
  reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachReply>* ExecutorService::Attach(
    grpc::CallbackServerContext* context) {
  return AttachStream::Start(*this, context);
}

absl::Status ExecutorService::Adopt(const std::shared_ptr<AttachStream>& stream, const v1::Hello& hello,
                                    v1::Welcome* welcome) {
  std::shared_ptr<AttachStream> fenced;
  {
    std::lock_guard lock(mutex_);
    if (absl::Status status = CheckReady(); !status.ok()) return status;
    if (draining_) return absl::UnavailableError("this executor is draining");
    if (hello.owner().size() > kMaxOwnerNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat("hello.owner has ", hello.owner().size(), " bytes; it may have ",
                                                     kMaxOwnerNameBytes));
    }
    if (hello.vocabulary_fingerprint() != description_.vocabulary_fingerprint()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "vocabulary fingerprint ", absl::BytesToHexString(hello.vocabulary_fingerprint().substr(0, 32)),
          " is not this executor's (", absl::BytesToHexString(description_.vocabulary_fingerprint()),
          "); give the tokenizer and the executor the same model file"));
    }
    if (hello.lease_epoch() <= owner_epoch_) {
      return absl::FailedPreconditionError(absl::StrCat("lease epoch ", hello.lease_epoch(),
                                                        " is not above the present owner's, ", owner_epoch_));
    }
    fenced = std::exchange(owner_, stream);
    owner_epoch_ = hello.lease_epoch();
    stream->engine_ = engine_;
    stream->limits_ = limits_;
    stream->epoch_ = owner_epoch_;
    engine_->Attach(owner_epoch_, stream);
    welcome->set_lease_epoch(owner_epoch_);
    *welcome->mutable_description() = Description();
  }
  log::Info("new owner", {{"owner", hello.owner()}, {"epoch", hello.lease_epoch()}});
  if (fenced != nullptr) {
    fenced->End(absl::AbortedError(absl::StrCat("another owner has taken over with lease epoch ", hello.lease_epoch())));
  }
  return absl::OkStatus();
}

void ExecutorService::Retire(const AttachStream* stream) {
  std::shared_ptr<AttachStream> kept_alive;
  {
    std::lock_guard lock(mutex_);
    if (owner_.get() != stream) return;
    kept_alive = std::exchange(owner_, nullptr);
    engine_->Detach(owner_epoch_);
    owner_epoch_ = 0;
  }
  log::Info("the owner has left; its sequences are closed");
}

void ExecutorService::BeginDrain(std::function<void()> empty) {
  Engine* engine;
  bool first;
  {
    std::lock_guard lock(mutex_);
    first = !std::exchange(draining_, true);
    engine = engine_;
  }
  if (first && options_.on_drain) options_.on_drain();
  if (engine != nullptr) {
    engine->Drain(std::move(empty));
  } else if (empty) {
    empty();
  }
}

void ExecutorService::EndOwner(const absl::Status& status) {
  std::shared_ptr<AttachStream> owner;
  {
    std::lock_guard lock(mutex_);
    owner = owner_;
  }
  if (owner != nullptr) owner->End(status);
}

grpc::ServerUnaryReactor* ExecutorService::Drain(grpc::CallbackServerContext*, const v1::DrainExecutorRequest* request,
                                                 v1::DrainExecutorReply*) {
  DrainCall* call = DrainCall::Start(request->timeout_ms() > 0 ? request->timeout_ms() : options_.drain_ms);
  BeginDrain([shared = call->shared_from_this()] { shared->Answer(absl::OkStatus()); });
  return call;
}

}  // namespace tercet::executor
