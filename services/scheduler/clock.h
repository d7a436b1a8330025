// Time as the scheduler sees it: injected, so that a test or a simulation decides when things happen.
#pragma once

#include <chrono>

namespace tercet::scheduler {

// Monotonic milliseconds since an arbitrary start.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double NowMs() const = 0;
};

class SteadyClock : public Clock {
 public:
  double NowMs() const override {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

}  // namespace tercet::scheduler
