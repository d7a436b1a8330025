// tercet.v1.Executor over gRPC: messages to plans, results to messages, and who may drive the engine.
//
// Callback API throughout: a reaction never blocks. Owns nothing of the engine; it is given one when the model has been
// loaded, and answers UNAVAILABLE before that.
//
// Thread safety: all methods, from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "services/executor/engine.h"
#include "services/executor/plan.h"
#include "tercet/v1/executor.grpc.pb.h"

namespace tercet::executor {

class AttachStream;

struct ServiceOptions {
  // For Drain requests that name no time.
  uint32_t drain_ms = 30000;
  // Called (any thread, once) when draining begins, for the health service.
  std::function<void()> on_drain;
};

class ExecutorService final : public v1::Executor::CallbackService {
 public:
  explicit ExecutorService(ServiceOptions options);
  ~ExecutorService() override;

  // 0 … 100, for the message that early callers get.
  void SetLoadProgress(int percent) { load_percent_.store(percent, std::memory_order_relaxed); }
  // From now on requests are served. `engine` must outlive the server.
  void SetReady(Engine* engine, v1::ExecutorDescription description, PlanLimits limits);
  // Refuses owners and sequences from now on; `empty` is called once no sequence is open, or at once when nothing is loaded.
  void BeginDrain(std::function<void()> empty);
  // Ends the owner's stream with `status`.
  void EndOwner(const absl::Status& status);

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context, const v1::DescribeExecutorRequest* request,
                                     v1::ExecutorDescription* reply) override;
  grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachReply>* Attach(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const v1::DrainExecutorRequest* request,
                                  v1::DrainExecutorReply* reply) override;

 private:
  friend class AttachStream;

  // OK, or UNAVAILABLE with how far loading has come.
  absl::Status CheckReady() const;
  v1::ExecutorDescription Description() const;  // REQUIRES mutex_

  // Makes the stream the owner, fencing the present one off, and fills the Welcome. FAILED_PRECONDITION, INVALID_ARGUMENT or
  // UNAVAILABLE as executor.proto says.
  absl::Status Adopt(const std::shared_ptr<AttachStream>& stream, const v1::Hello& hello, v1::Welcome* welcome);
  // The stream has ended. Nothing when it is not the owner (any more).
  void Retire(const AttachStream* stream);

  const ServiceOptions options_;
  std::atomic<int> load_percent_{0};

  mutable std::mutex mutex_;
  Engine* engine_ = nullptr;
  v1::ExecutorDescription description_;
  PlanLimits limits_;
  bool draining_ = false;
  std::shared_ptr<AttachStream> owner_;
  uint64_t owner_epoch_ = 0;
};

}  // namespace tercet::executor
