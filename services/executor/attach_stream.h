// One call of Attach: reads Hello and plans, writes Welcome and results.
//
// At most one read and one write are outstanding. Results that arrive during a write wait and are merged (same plan, same
// handle), so a slow reader gets fewer, larger messages; one that falls kMaxWaitingBytes behind is cut off with
// RESOURCE_EXHAUSTED. When the engine has enough plans waiting, reading pauses until it has taken them.
//
// Lifetime: the stream keeps itself alive until OnDone; the service and the engine may hold it longer, and then talk to a
// stream that drops what it is told.
//
// Thread safety: all methods; mutex_ orders starting writes and finishing, which the library does not allow to race.
#pragma once

#include <grpcpp/alarm.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "services/executor/engine.h"
#include "services/executor/plan.h"
#include "tercet/v1/executor.grpc.pb.h"

namespace tercet::executor {

class ExecutorService;

class AttachStream final : public grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachReply>,
                           public ResultSink,
                           public std::enable_shared_from_this<AttachStream> {
 public:
  static constexpr size_t kMaxWaitingBytes = size_t{16} << 20;

  static AttachStream* Start(ExecutorService& service, grpc::CallbackServerContext* context);

  // Ends the call with `status`; later calls do nothing.
  void End(const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void OnResults(StepResults results) override;
  void OnPlansTaken() override;
  void OnFault(absl::Status status) override;

 private:
  // How long a finished stream may wait for its peer to read before the call is cancelled.
  static constexpr int kLingerMs = 2000;
  // Messages above this size are not merged any further.
  static constexpr size_t kMergeBytes = size_t{1} << 20;

  AttachStream(ExecutorService& service, grpc::CallbackServerContext* context)
      : service_(service), context_(context) {}

  absl::Status HandleHello(const v1::Hello& hello);
  // False in `*room`: read no further before OnPlansTaken.
  absl::Status HandlePlan(const v1::Plan& plan, bool* room);
  void StartNextWrite();  // REQUIRES mutex_

  ExecutorService& service_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<AttachStream> self_;

  // Used by reactions to reads only, which follow one another.
  v1::AttachRequest request_;
  Engine* engine_ = nullptr;
  PlanLimits limits_;
  uint64_t epoch_ = 0;

  std::mutex mutex_;
  v1::AttachReply reply_;
  bool writing_ = false;
  bool read_paused_ = false;
  bool plans_taken_ = false;
  bool ended_ = false;
  bool done_ = false;
  std::deque<StepResults> waiting_;
  size_t waiting_bytes_ = 0;
  grpc::Alarm linger_;

  friend class ExecutorService;
};

}  // namespace tercet::executor
