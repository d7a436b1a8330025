// The KV pages of one executor as the scheduler hands them out.
//
// Invariant: the limits of all open sequences sum up to at most the pool. The executor can therefore always satisfy them,
// giving up cached pages where it must; the scheduler never over-commits. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tercet::scheduler {

class PageBudget {
 public:
  void Reset(uint32_t total_pages, uint32_t page_tokens) {
    total_ = total_pages;
    page_tokens_ = page_tokens;
    promised_ = 0;
  }

  uint32_t PagesFor(uint64_t tokens) const { return static_cast<uint32_t>((tokens + page_tokens_ - 1) / page_tokens_); }

  // Raises a sequence's limit from `present` towards `wanted` as far as pages are left, but gives nothing if not even
  // `needed` can be had. Returns the new limit.
  uint32_t Raise(uint32_t present, uint32_t needed, uint32_t wanted) {
    uint32_t reachable = std::min(std::max(wanted, needed), present + left());
    if (reachable <= present || reachable < needed) return present;
    promised_ += reachable - present;
    return reachable;
  }

  void Release(uint32_t limit) { promised_ -= limit; }

  uint32_t total() const { return total_; }
  uint32_t left() const { return total_ - promised_; }

 private:
  uint32_t total_ = 0;
  uint32_t page_tokens_ = 16;
  uint32_t promised_ = 0;
};

}  // namespace tercet::scheduler
