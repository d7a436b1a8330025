#include "services/executor/memory_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tercet::executor {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(MemoryLedger, RefusesWhatDoesNotFitAndNamesTheFlag) {
  MemoryLedger ledger(100 * kMiB, nullptr);
  EXPECT_TRUE(ledger.Charge(MemoryClass::kWeights, 60 * kMiB).ok());
  const absl::Status status = ledger.Charge(MemoryClass::kKv, 41 * kMiB);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--memory-limit"));
  EXPECT_EQ(ledger.left(), 40 * kMiB);
  EXPECT_TRUE(ledger.Charge(MemoryClass::kKv, 40 * kMiB).ok());
  EXPECT_EQ(ledger.left(), 0u);
  ledger.Release(MemoryClass::kWeights, 60 * kMiB);
  EXPECT_EQ(ledger.left(), 60 * kMiB);
}

TEST(MemoryLedger, PrefixCacheIsAPartOfTheKvPool) {
  telemetry::Metrics metrics;
  MemoryLedger ledger(100 * kMiB, &metrics);
  ASSERT_TRUE(ledger.Charge(MemoryClass::kKv, 80 * kMiB).ok());
  ledger.SetPrefixBytes(50 * kMiB);
  EXPECT_EQ(ledger.left(), 20 * kMiB);
  EXPECT_EQ(ledger.used(MemoryClass::kPrefix), 50 * kMiB);
  EXPECT_THAT(metrics.Text(), testing::HasSubstr("tercet_memory_bytes{class=\"prefix\"} 52428800"));
}

TEST(ChooseKvPages, TakesTheLongerOfContextAndDefaultWithinHalfOfTheMemory) {
  KvBudget budget{.context_length = 8192, .page_tokens = 16, .page_bytes = 1000, .bytes_left = 100'000'000'000};
  EXPECT_EQ(*ChooseKvPages(budget), 65536 / 16);
  budget.context_length = 131072;
  EXPECT_EQ(*ChooseKvPages(budget), 131072 / 16);
  budget.bytes_left = 1'000'000;
  EXPECT_EQ(*ChooseKvPages(budget), 500);
  budget.bytes_left = 6000;
  EXPECT_EQ(ChooseKvPages(budget).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ChooseKvPages, TakesWhatWasAskedForOrRefuses) {
  KvBudget budget{.wanted_tokens = 250, .context_length = 8192, .page_tokens = 16, .page_bytes = 1000, .bytes_left = 16000};
  EXPECT_EQ(*ChooseKvPages(budget), 16);
  for (uint64_t tokens : {uint64_t{1}, uint64_t{63}, uint64_t{257}, uint64_t{1} << 62}) {
    budget.wanted_tokens = tokens;
    EXPECT_EQ(ChooseKvPages(budget).status().code(), absl::StatusCode::kResourceExhausted) << tokens;
  }
}

}  // namespace
}  // namespace tercet::executor
