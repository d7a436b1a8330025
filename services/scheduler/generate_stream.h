// One client's Generate stream.
//
// Events queue behind the write under way; tokens merge into the last waiting event, so that a slow reader gets fewer and
// larger messages. Beyond kMaxPendingTokens the reader is cut off: memory stays bounded, and nobody else waits for it.
// Deletes itself when gRPC is done with it. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <deque>
#include <mutex>

#include "services/scheduler/request.h"
#include "tercet/v1/scheduler.pb.h"

namespace tercet::scheduler {

class SchedulerService;

class GenerateStream final : public grpc::ServerWriteReactor<v1::GenerateEvent>, public RequestSink {
 public:
  // Tokens that may wait for a client which does not read; at most some 100 KB.
  static constexpr size_t kMaxPendingTokens = 8192;

  // Submits the request; called before gRPC knows the reactor.
  GenerateStream(SchedulerService& service, grpc::CallbackServerContext* context, const v1::GenerateRequest& spec);

  // From the scheduler, under its lock.
  void OnEvent(v1::GenerateEvent event) override;
  void OnEnd(const absl::Status& status, double retry_after_ms) override;

  // From gRPC.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  enum class Phase {
    kStreaming,  // more events may come
    kEnding,     // the end is known and waits behind the events
    kFinished,   // Finish was called; nothing may follow
  };

  ~GenerateStream() override = default;
  void EndLocked(const absl::Status& status, double retry_after_ms);
  void WriteLocked();
  void DropWaitingLocked();

  SchedulerService& service_;
  grpc::CallbackServerContext* const context_;
  RequestId id_ = 0;  // 0: refused

  std::mutex mutex_;
  Phase phase_ = Phase::kStreaming;
  bool writing_ = false;
  std::deque<v1::GenerateEvent> queue_;  // the front is being written while `writing_`
  size_t pending_tokens_ = 0;
  grpc::Status status_;
};

}  // namespace tercet::scheduler
