// A place where callbacks run one at a time, in the order in which they were posted. Each connection has one; everything
// that belongs to its request runs there, so that request code needs no locks. Post and PostAfter are thread-safe.
#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/time/time.h>

#include <memory>

namespace tercet::gateway {

class Strand {
 public:
  virtual ~Strand() = default;
  virtual void Post(absl::AnyInvocable<void()> work) = 0;
  // Not before `delay` has passed. Work that is still waiting when the server ends is dropped.
  virtual void PostAfter(absl::Duration delay, absl::AnyInvocable<void()> work) = 0;
};

}  // namespace tercet::gateway
