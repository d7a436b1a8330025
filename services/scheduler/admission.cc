#include "services/scheduler/admission.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace tercet::scheduler {
namespace {

constexpr double kShortestWaitMs = 100;
constexpr double kLongestWaitMs = 60000;
constexpr double kUnknownWaitMs = 1000;
// An end counts for about the next eight: load changes within seconds.
constexpr double kWeight = 1.0 / 8;

}  // namespace

absl::Status Admission::Check(const Request& request, const RequestQueue& queue) const {
  if (queue.size() >= max_requests_) {
    return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", queue.size(), " requests wait, at most ",
                                                     max_requests_, " may (--max-queued-requests)"));
  }
  if (!queue.empty() && queue.tokens() + request.known_tokens() > max_tokens_) {
    return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", queue.tokens(), " tokens wait, and with the ",
                                                     request.known_tokens(), " of this request there would be more than ",
                                                     max_tokens_, " (--max-queued-tokens)"));
  }
  return absl::OkStatus();
}

void Admission::OnEnd(double now_ms, size_t waiting) {
  if (waiting == 0) {
    // Without anyone waiting, the time between ends tells how often clients ask, not how fast we are.
    last_end_ms_ = 0;
    return;
  }
  if (last_end_ms_ > 0) {
    double interval = now_ms - last_end_ms_;
    interval_ms_ = interval_ms_ == 0 ? interval : interval_ms_ + (interval - interval_ms_) * kWeight;
  }
  last_end_ms_ = now_ms;
}

double Admission::PredictedWaitMs(size_t waiting) const {
  if (interval_ms_ == 0) return kUnknownWaitMs;
  return std::clamp(interval_ms_ * static_cast<double>(waiting + 1), kShortestWaitMs, kLongestWaitMs);
}

}  // namespace tercet::scheduler
