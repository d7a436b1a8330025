// Reductions and candidates over logits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/candidates.h"
#include "kernels/reduce.h"
#include "tests/kernels/testing.h"

namespace tercet::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kLengths[] = {0, 1, 15, 16, 17, 40, 1000, 49153};

std::vector<IsaUnderTest> AllIsas() {
  std::vector<IsaUnderTest> isas = IsasUnderTest();
  isas.push_back({"scalar", &Reference()});
  return isas;
}

// Logits with many ties, some of them masked.
std::vector<float> Logits(int64_t n, std::mt19937& random) {
  std::vector<float> x = RandomFloats(n, random, 4.0f);
  for (float& v : x) {
    v = std::round(v * 4) / 4;
    if (random() % 7 == 0) v = -kInfinity;
    if (random() % 997 == 0) v = NAN;
  }
  return x;
}

TEST(MaxIndex, IsTheLowestIndexOfTheLargest) {
  std::mt19937 random(1);
  for (const int64_t n : kLengths) {
    for (int round = 0; round < 20; ++round) {
      const std::vector<float> x = Logits(n, random);
      int64_t expected = -1;
      for (int64_t i = 0; i < n; ++i) {
        if (!std::isnan(x[i]) && x[i] != -kInfinity && (expected < 0 || x[i] > x[expected])) expected = i;
      }
      for (const auto& [name, table] : AllIsas()) EXPECT_EQ(table->max_index(x.data(), n), expected) << name << " n = " << n;
    }
  }
}

TEST(MaxIndex, BreaksEveryTieDownwards) {
  for (int64_t first = 0; first < 40; ++first) {
    for (int64_t second = first + 1; second < 40; ++second) {
      std::vector<float> x(40, -1.0f);
      x[first] = 0.0f;
      x[second] = -0.0f;  // Equal to +0.
      for (const auto& [name, table] : AllIsas()) ASSERT_EQ(table->max_index(x.data(), 40), first) << name << second;
    }
  }
}

TEST(MaxIndex, FindsNothingAmongMaskedOnes) {
  for (const int64_t n : {0, 7, 16, 50}) {
    const std::vector<float> masked(n, -kInfinity), nans(n, NAN);
    for (const auto& [name, table] : AllIsas()) {
      EXPECT_EQ(table->max_index(masked.data(), n), -1) << name;
      EXPECT_EQ(table->max_index(nans.data(), n), -1) << name;
    }
  }
}

TEST(LogSumExp, HasTheSameBitsOnEveryInstructionSetAndIsClose) {
  std::mt19937 random(2);
  for (const int64_t n : kLengths) {
    std::vector<float> x = RandomFloats(n, random, 4.0f);
    if (n > 3) x[1] = -kInfinity;
    const float expected = Reference().log_sum_exp(x.data(), n);
    double sum = 0;
    for (const float v : x) sum += std::exp(static_cast<double>(v));
    if (n == 0) {
      EXPECT_EQ(expected, -kInfinity);
    } else {
      EXPECT_NEAR(expected, std::log(sum), 1e-6 * std::abs(std::log(sum)) + 4e-6);
    }
    for (const auto& [name, table] : IsasUnderTest()) {
      EXPECT_TRUE(SameBits(expected, table->log_sum_exp(x.data(), n))) << name << " n = " << n;
    }
  }
}

TEST(LogSumExp, HasDefinedEnds) {
  for (const auto& [name, table] : AllIsas()) {
    std::vector<float> x(20, -kInfinity);
    EXPECT_EQ(table->log_sum_exp(x.data(), 20), -kInfinity) << name;
    x[3] = -1000.0f;
    EXPECT_EQ(table->log_sum_exp(x.data(), 20), -1000.0f) << name;
    x[17] = NAN;
    EXPECT_TRUE(std::isnan(table->log_sum_exp(x.data(), 20))) << name;
    x[17] = kInfinity;
    EXPECT_TRUE(std::isnan(table->log_sum_exp(x.data(), 20))) << name;
  }
}

TEST(CollectAtLeast, FindsInOrderAndResumesWhereRoomEnded) {
  std::mt19937 random(3);
  for (const int64_t n : kLengths) {
    const std::vector<float> x = Logits(n, random);
    for (const float threshold : {-kInfinity, -1.0f, 0.0f, 7.5f, kInfinity}) {
      std::vector<int32_t> expected;
      for (int64_t i = 0; i < n; ++i) {
        if (x[i] >= threshold && x[i] > -kInfinity) expected.push_back(static_cast<int32_t>(i));
      }
      for (const int64_t room : {1, 16, 100, 100000}) {
        if (room == 1 && n > 1000) continue;
        for (const auto& [name, table] : AllIsas()) {
          std::vector<int32_t> found;
          std::vector<Candidate> out(room);
          for (int64_t next = 0; next < n;) {
            const int64_t count = table->collect_at_least(x.data(), next, n, threshold, out.data(), room, &next);
            ASSERT_LE(count, room);
            for (int64_t i = 0; i < count; ++i) {
              found.push_back(out[i].id);
              ASSERT_EQ(out[i].logit, x[out[i].id]);
            }
          }
          ASSERT_EQ(found, expected) << name << " n = " << n << " room " << room;
        }
      }
    }
  }
}

TEST(TopK, IsThePrefixOfTheSortedOrder) {
  std::mt19937 random(4);
  for (const int64_t n : kLengths) {
    const std::vector<float> x = Logits(n, random);
    std::vector<Candidate> sorted;
    for (int64_t i = 0; i < n; ++i) {
      if (x[i] > -kInfinity) sorted.push_back({static_cast<int32_t>(i), x[i]});
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.logit > b.logit; });
    for (const int64_t k : {1, 2, 20, 64, 1000, 60000}) {
      std::vector<Candidate> out(TopKRoom(k));
      const int64_t count = TopK(x.data(), n, k, out.data());
      ASSERT_EQ(count, std::min<int64_t>(k, static_cast<int64_t>(sorted.size())));
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(out[i].id, sorted[i].id) << "n = " << n << " k = " << k << " place " << i;
        ASSERT_EQ(out[i].logit, sorted[i].logit);
      }
    }
  }
}

TEST(TopK, HoldsWhenAllAreEqualOrRising) {
  std::vector<float> x(5000, 1.0f);
  std::vector<Candidate> out(TopKRoom(10));
  ASSERT_EQ(TopK(x.data(), 5000, 10, out.data()), 10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(out[i].id, i);
  for (int i = 0; i < 5000; ++i) x[i] = static_cast<float>(i);
  ASSERT_EQ(TopK(x.data(), 5000, 10, out.data()), 10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(out[i].id, 4999 - i);
}

}  // namespace
}  // namespace tercet::kernels
