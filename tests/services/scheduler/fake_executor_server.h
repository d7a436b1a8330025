// FakeExecutor behind real gRPC: one owner at a time, leases as executor.proto says, a step every `step_ms` (0: as fast as it can).
#pragma once

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/rpc/server.h"
#include "tercet/v1/executor.grpc.pb.h"
#include "tests/services/scheduler/fake_executor.h"

namespace tercet::scheduler {

class FakeExecutorServer : public v1::Executor::Service {
 public:
  explicit FakeExecutorServer(const std::string& address, int step_ms = 1) : step_ms_(step_ms) {
    auto server = rpc::Server::Start({.address = address, .services = {this}});
    if (server.ok()) server_ = *std::move(server);
  }
  ~FakeExecutorServer() override { Stop(); }

  // As kill -9 does to the connection.
  void Stop() {
    stopped_ = true;
    if (server_ != nullptr) server_->Shutdown(absl::ZeroDuration());
    server_ = nullptr;
  }

  bool ok() const { return server_ != nullptr; }
  std::string address() const { return server_->address(); }
  uint32_t used_pages() {
    std::lock_guard lock(mutex_);
    return executor_ == nullptr ? 0 : executor_->used_pages();
  }
  int attached() const { return attached_; }
  // Stands in for another scheduler.
  void OwnedByAnother(uint64_t epoch) {
    std::lock_guard lock(mutex_);
    epoch_ = epoch;
  }

  v1::ExecutorDescription description = FakeExecutor(/*pages=*/256, /*context=*/2048).description;

 private:
  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeExecutorRequest*, v1::ExecutorDescription* reply) override {
    std::lock_guard lock(mutex_);
    *reply = description;
    reply->set_lease_epoch(epoch_);
    return grpc::Status::OK;
  }

  grpc::Status Attach(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<v1::AttachReply, v1::AttachRequest>* stream) override {
    v1::AttachRequest request;
    if (!stream->Read(&request) || !request.has_hello()) return {grpc::StatusCode::INVALID_ARGUMENT, "no hello"};
    uint64_t epoch = request.hello().lease_epoch();
    {
      std::lock_guard lock(mutex_);
      if (epoch <= epoch_) return {grpc::StatusCode::FAILED_PRECONDITION, absl::StrCat("epoch ", epoch_, " is present")};
      epoch_ = epoch;
      executor_ = std::make_unique<FakeExecutor>();
      executor_->description = description;
      executor_->epoch = epoch;
    }
    ++attached_;
    v1::AttachReply welcome;
    welcome.mutable_welcome()->set_lease_epoch(epoch);
    *welcome.mutable_welcome()->mutable_description() = description;
    stream->Write(welcome);

    std::atomic<bool> closed{false};
    std::thread steps([&] {
      while (!closed && !stopped_) {
        v1::AttachReply reply;
        bool worked;
        {
          std::lock_guard lock(mutex_);
          worked = epoch_ == epoch && executor_->Step(reply.mutable_results());
        }
        if (worked && !stream->Write(reply)) break;
        if (step_ms_ > 0 || !worked) std::this_thread::sleep_for(std::chrono::milliseconds(std::max(step_ms_, 1)));
      }
    });
    while (stream->Read(&request)) {
      std::lock_guard lock(mutex_);
      if (epoch_ == epoch) executor_->Send(request.plan());
    }
    closed = true;
    steps.join();
    std::lock_guard lock(mutex_);
    if (epoch_ == epoch) {
      epoch_ = 0;
      executor_.reset();
    }
    return context->IsCancelled() ? grpc::Status::CANCELLED : grpc::Status::OK;
  }

  const int step_ms_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> attached_{0};
  std::mutex mutex_;
  uint64_t epoch_ = 0;
  std::unique_ptr<FakeExecutor> executor_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace tercet::scheduler
