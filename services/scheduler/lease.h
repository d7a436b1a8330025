// The right to drive one executor: an epoch that grows with every claim.
//
// A scheduler claims an executor that has no owner, or whose owner it was itself (its stream broke, but the executor has not
// noticed yet). It never takes one from a living scheduler: two of them would fence each other off for ever.
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace tercet::scheduler {

class Lease {
 public:
  // `present` is the owner's epoch as the executor tells it, 0 for none. Returns the epoch to claim it with, above all that
  // were seen; nothing when it belongs to somebody else.
  std::optional<uint64_t> Claim(uint64_t present) {
    highest_ = std::max(highest_, present);
    bool free = present == 0 || present == mine_;
    if (!free || highest_ == std::numeric_limits<uint64_t>::max()) return std::nullopt;
    return mine_ = ++highest_;
  }

 private:
  uint64_t highest_ = 0;
  uint64_t mine_ = 0;
};

}  // namespace tercet::scheduler
