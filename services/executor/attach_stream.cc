#include "services/executor/attach_stream.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status.h"
#include "common/telemetry/log.h"
#include "services/executor/service.h"

namespace tercet::executor {

AttachStream* AttachStream::Start(ExecutorService& service, grpc::CallbackServerContext* context) {
  std::shared_ptr<AttachStream> stream(new AttachStream(service, context));
  stream->self_ = stream;
  stream->StartRead(&stream->request_);
  return stream.get();
}

void AttachStream::End(const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    waiting_.clear();
    waiting_bytes_ = 0;
    Finish(rpc::ToGrpc(status));
    // The status waits behind a message that the peer does not read.
    if (writing_) {
      linger_.Set(std::chrono::system_clock::now() + std::chrono::milliseconds(kLingerMs),
                  [weak = weak_from_this()](bool expired) {
                    const std::shared_ptr<AttachStream> stream = weak.lock();
                    if (!expired || stream == nullptr) return;
                    std::lock_guard lock(stream->mutex_);
                    if (!stream->done_) stream->context_->TryCancel();
                  });
    }
  }
  service_.Retire(this);
}

void AttachStream::OnReadDone(bool ok) {
  // The owner has closed its side, or the call is broken.
  if (!ok) return End(absl::OkStatus());
  bool room = true;
  absl::Status status;
  switch (request_.request_case()) {
    case v1::AttachRequest::kHello:
      status = HandleHello(request_.hello());
      break;
    case v1::AttachRequest::kPlan:
      status = HandlePlan(request_.plan(), &room);
      break;
    case v1::AttachRequest::REQUEST_NOT_SET:
      status = absl::InvalidArgumentError("an AttachRequest must hold a hello or a plan");
      break;
  }
  if (!status.ok()) return End(status);
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    // The engine may have made room already.
    read_paused_ = !room && !std::exchange(plans_taken_, false);
    if (read_paused_) return;
  }
  StartRead(&request_);
}

absl::Status AttachStream::HandleHello(const v1::Hello& hello) {
  if (engine_ != nullptr) return absl::InvalidArgumentError("hello was sent twice");
  v1::AttachReply reply;
  if (absl::Status status = service_.Adopt(shared_from_this(), hello, reply.mutable_welcome()); !status.ok()) {
    return status;
  }
  std::unique_lock lock(mutex_);
  if (ended_) {
    // Cancelled while it became the owner.
    lock.unlock();
    service_.Retire(this);
    return absl::CancelledError("the call was cancelled");
  }
  reply_ = std::move(reply);
  writing_ = true;
  StartWrite(&reply_);
  return absl::OkStatus();
}

absl::Status AttachStream::HandlePlan(const v1::Plan& message, bool* room) {
  if (engine_ == nullptr) return absl::InvalidArgumentError("the first message of a stream must be hello");
  absl::StatusOr<Plan> plan = ParsePlan(message, limits_);
  if (!plan.ok()) return plan.status();
  {
    std::lock_guard lock(mutex_);
    plans_taken_ = false;
  }
  *room = engine_->Submit(epoch_, *std::move(plan));
  return absl::OkStatus();
}

void AttachStream::OnPlansTaken() {
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!read_paused_) {
      plans_taken_ = true;
      return;
    }
    read_paused_ = false;
  }
  StartRead(&request_);
}

void AttachStream::OnResults(StepResults results) {
  bool too_slow = false;
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    const size_t bytes = ApproximateBytes(results);
    if (!waiting_.empty() && waiting_.back().plan_id == results.plan_id &&
        ApproximateBytes(waiting_.back()) + bytes <= kMergeBytes) {
      Merge(waiting_.back(), std::move(results));
    } else {
      waiting_.push_back(std::move(results));
    }
    waiting_bytes_ += bytes;
    too_slow = waiting_bytes_ > kMaxWaitingBytes;
    if (!too_slow && !writing_) StartNextWrite();
  }
  if (too_slow) {
    log::Warn("the owner does not read its results; its stream is cut", {{"epoch", epoch_}});
    End(absl::ResourceExhaustedError(
        absl::StrCat("results wait unread (more than ", kMaxWaitingBytes >> 20, " MiB); read them faster")));
  }
}

void AttachStream::OnFault(absl::Status status) { End(status); }

void AttachStream::StartNextWrite() {
  reply_.Clear();
  ToMessage(waiting_.front(), reply_.mutable_results());
  waiting_.pop_front();
  if (waiting_.empty()) waiting_bytes_ = 0;
  writing_ = true;
  StartWrite(&reply_);
}

void AttachStream::OnWriteDone(bool ok) {
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (ended_) return;
    if (ok) {
      if (!waiting_.empty()) StartNextWrite();
      return;
    }
  }
  End(absl::UnavailableError("the owner's connection broke"));
}

void AttachStream::OnCancel() { End(absl::CancelledError("the call was cancelled")); }

void AttachStream::OnDone() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  linger_.Cancel();
  self_.reset();
}

}  // namespace tercet::executor
