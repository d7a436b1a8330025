// What the executor's memory is spent on, against one limit.
//
// Every large allocation is charged here by class before it is made; what does not fit is refused with a sentence, so that
// the process is never killed for memory in the middle of its work. The KV pool is one charge; the part of it that the
// prefix cache holds is shown apart (it can be shed at any time).
//
// Thread safety: all methods, from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/telemetry/metrics.h"

namespace tercet::executor {

enum class MemoryClass { kWeights, kKv, kPrefix, kBuffers };
inline constexpr int kMemoryClasses = 4;
const char* MemoryClassName(MemoryClass kind);

class MemoryLedger {
 public:
  // `limit`: bytes. `metrics` (may be null) shows tercet_memory_bytes{class}.
  MemoryLedger(uint64_t limit, telemetry::Metrics* metrics);

  // RESOURCE_EXHAUSTED when it would pass the limit; the message has the numbers and the flag to change.
  absl::Status Charge(MemoryClass kind, uint64_t bytes);
  void Release(MemoryClass kind, uint64_t bytes);

  // The prefix cache holds `bytes` of the KV pool now.
  void SetPrefixBytes(uint64_t bytes);

  uint64_t limit() const { return limit_; }
  uint64_t used(MemoryClass kind) const;
  // Bytes not charged.
  uint64_t left() const;

 private:
  uint64_t Total() const;           // REQUIRES mutex_
  void Publish(MemoryClass kind);   // REQUIRES mutex_

  const uint64_t limit_;
  mutable std::mutex mutex_;
  std::array<uint64_t, kMemoryClasses> used_{};
  std::array<prometheus::Gauge*, kMemoryClasses> gauges_{};
};

// How large the KV pool is to be.
struct KvBudget {
  // --kv-tokens; 0: choose.
  uint64_t wanted_tokens = 0;
  // Longest sequence.
  uint64_t context_length = 0;
  uint64_t page_tokens = 0;
  uint64_t page_bytes = 0;
  // What the ledger has left.
  uint64_t bytes_left = 0;
};

// Pages of the pool: those asked for, else room for one longest sequence or 65536 tokens, whichever is more, in at most half
// of what is left. RESOURCE_EXHAUSTED when that is less than kLeastKvTokens, or what was asked for does not fit.
absl::StatusOr<int32_t> ChooseKvPages(const KvBudget& budget);

inline constexpr uint64_t kDefaultKvTokens = 65536;
inline constexpr uint64_t kLeastKvTokens = 64;

}  // namespace tercet::executor
