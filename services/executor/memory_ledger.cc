#include "services/executor/memory_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tercet::executor {
namespace {

std::string Mebibytes(uint64_t bytes) { return absl::StrCat((bytes + (1 << 20) - 1) >> 20, " MiB"); }

}  // namespace

const char* MemoryClassName(MemoryClass kind) {
  switch (kind) {
    case MemoryClass::kWeights:
      return "weights";
    case MemoryClass::kKv:
      return "kv";
    case MemoryClass::kPrefix:
      return "prefix";
    case MemoryClass::kBuffers:
      return "buffers";
  }
  return "";
}

MemoryLedger::MemoryLedger(uint64_t limit, telemetry::Metrics* metrics) : limit_(limit) {
  if (metrics == nullptr) return;
  for (int kind = 0; kind < kMemoryClasses; ++kind) {
    gauges_[kind] = &metrics->Gauge("tercet_memory_bytes", "Memory charged, by what it is for.",
                                    {{"class", MemoryClassName(static_cast<MemoryClass>(kind))}});
  }
  metrics->Gauge("tercet_memory_limit_bytes", "What the process may use (--memory-limit).")
      .Set(static_cast<double>(limit));
}

uint64_t MemoryLedger::Total() const {
  // The prefix cache is a part of the KV pool.
  return used_[static_cast<int>(MemoryClass::kWeights)] + used_[static_cast<int>(MemoryClass::kKv)] +
         used_[static_cast<int>(MemoryClass::kBuffers)];
}

void MemoryLedger::Publish(MemoryClass kind) {
  prometheus::Gauge* gauge = gauges_[static_cast<int>(kind)];
  if (gauge != nullptr) gauge->Set(static_cast<double>(used_[static_cast<int>(kind)]));
}

absl::Status MemoryLedger::Charge(MemoryClass kind, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const uint64_t total = Total();
  const uint64_t left = limit_ > total ? limit_ - total : 0;
  if (bytes > left) {
    return absl::ResourceExhaustedError(absl::StrCat(MemoryClassName(kind), " need ", Mebibytes(bytes), ", but of the ",
                                                     Mebibytes(limit_), " limit only ", Mebibytes(left),
                                                     " are left; raise --memory-limit or take a smaller model"));
  }
  used_[static_cast<int>(kind)] += bytes;
  Publish(kind);
  return absl::OkStatus();
}

void MemoryLedger::Release(MemoryClass kind, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  uint64_t& used = used_[static_cast<int>(kind)];
  used -= std::min(used, bytes);
  Publish(kind);
}

void MemoryLedger::SetPrefixBytes(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  uint64_t& used = used_[static_cast<int>(MemoryClass::kPrefix)];
  if (used == bytes) return;
  used = bytes;
  Publish(MemoryClass::kPrefix);
}

uint64_t MemoryLedger::used(MemoryClass kind) const {
  std::lock_guard lock(mutex_);
  return used_[static_cast<int>(kind)];
}

uint64_t MemoryLedger::left() const {
  std::lock_guard lock(mutex_);
  const uint64_t total = Total();
  return limit_ > total ? limit_ - total : 0;
}

absl::StatusOr<int32_t> ChooseKvPages(const KvBudget& budget) {
  // Page numbers are 31 bits; far more than any machine holds.
  constexpr uint64_t kMostPages = 1 << 28;
  const auto pages_for = [&](uint64_t tokens) { return (tokens + budget.page_tokens - 1) / budget.page_tokens; };
  if (budget.wanted_tokens > 0) {
    const uint64_t pages = pages_for(budget.wanted_tokens);
    if (budget.wanted_tokens < kLeastKvTokens || pages > kMostPages || pages > budget.bytes_left / budget.page_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "--kv-tokens ", budget.wanted_tokens, " is out of range: at least ", kLeastKvTokens, ", and ",
          Mebibytes(budget.bytes_left), " of memory hold ", budget.bytes_left / budget.page_bytes * budget.page_tokens,
          " tokens"));
    }
    return static_cast<int32_t>(pages);
  }
  const uint64_t pages = std::min({pages_for(std::max(budget.context_length, kDefaultKvTokens)),
                                   budget.bytes_left / 2 / budget.page_bytes, kMostPages});
  if (pages * budget.page_tokens < kLeastKvTokens) {
    return absl::ResourceExhaustedError(absl::StrCat("keys and values of ", kLeastKvTokens, " tokens need more than half of the ",
                                                     Mebibytes(budget.bytes_left),
                                                     " that the weights leave; raise --memory-limit"));
  }
  return static_cast<int32_t>(pages);
}

}  // namespace tercet::executor
