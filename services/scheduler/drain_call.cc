#include "services/scheduler/drain_call.h"

#include <absl/strings/str_cat.h>

#include "services/scheduler/service.h"

namespace tercet::scheduler {
namespace {

// Draining takes seconds; looking this often costs nothing and delays nobody.
constexpr auto kLookInterval = std::chrono::milliseconds(20);

}  // namespace

DrainCall::DrainCall(SchedulerService& service, uint32_t timeout_ms, v1::DrainSchedulerReply* reply)
    : service_(service),
      reply_(reply),
      at_start_(service.OpenStreams()),
      until_(std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms)) {
  Look();
}

void DrainCall::Look() {
  size_t left = service_.OpenStreams();
  if (left == 0) {
    reply_->set_finished_requests(static_cast<uint32_t>(at_start_));
    Finish(grpc::Status::OK);
  } else if (cancelled_ || std::chrono::steady_clock::now() >= until_) {
    Finish(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, absl::StrCat(left, " requests are still running")));
  } else {
    again_.Set(std::chrono::system_clock::now() + kLookInterval, [this](bool) { Look(); });
  }
}

}  // namespace tercet::scheduler
