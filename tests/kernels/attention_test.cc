// Attention: any grouping of queries, any windows, any chunk ends, and garbage behind the last position.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/half.h"
#include "tests/kernels/testing.h"

namespace tercet::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The pages of one chunk. Slots without a position hold NaN, infinities and whatever a former owner left.
struct Pages {
  Pages(int64_t head_dim, int64_t tokens, std::mt19937& random)
      : keys(RandomFloats(kChunkTokens * head_dim, random)), values(RandomFloats(kChunkTokens * head_dim, random)) {
    const int64_t page_numbers = kPageTokens * head_dim;
    k.resize(kChunkTokens * head_dim);
    v.resize(k.size());
    for (uint16_t& bits : k) bits = static_cast<uint16_t>(random());
    for (uint16_t& bits : v) bits = static_cast<uint16_t>(random());
    for (int64_t p = 0; p < kChunkTokens / kPageTokens; ++p) {
      k_pages.push_back(&k[p * page_numbers]);
      v_pages.push_back(&v[p * page_numbers]);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      Reference().store_kv(&keys[t * head_dim], &values[t * head_dim], head_dim, t % kPageTokens,
                           const_cast<uint16_t*>(k_pages[t / kPageTokens]),
                           const_cast<uint16_t*>(v_pages[t / kPageTokens]));
    }
  }
  std::vector<float> keys, values;
  std::vector<uint16_t> k, v;
  std::vector<const uint16_t*> k_pages, v_pages;
};

struct Result {
  std::vector<float> max, sum, out;
};

struct Case {
  int64_t head_dim, queries, tokens, first_position;
  std::vector<float> q;
  std::vector<int32_t> begin, end;
};

Case RandomCase(int64_t head_dim, int64_t queries, int64_t tokens, std::mt19937& random) {
  Case c = {head_dim, queries, tokens, 512, RandomFloats(queries * head_dim, random, 0.4f), {}, {}};
  for (int64_t i = 0; i < queries; ++i) {
    // From before the chunk to behind it; some see nothing.
    const int32_t begin = static_cast<int32_t>(random() % 3 == 0 ? 512 + random() % 256 : random() % 513);
    c.begin.push_back(begin);
    c.end.push_back(static_cast<int32_t>(random() % 9 == 0 ? begin : 512 + random() % (tokens + 40)));
  }
  return c;
}

// Queries [first, last) of the case in one call.
void Attend(const Table& table, const Case& c, const Pages& pages, int64_t first, int64_t last, Result* result) {
  const int64_t stride = c.head_dim + 16;
  result->max.resize(c.queries);
  result->sum.resize(c.queries);
  result->out.resize(c.queries * stride);
  table.attend_chunk({.q = &c.q[first * c.head_dim],
                      .queries = last - first,
                      .q_stride = c.head_dim,
                      .query_begin = &c.begin[first],
                      .query_end = &c.end[first],
                      .k_pages = pages.k_pages.data(),
                      .v_pages = pages.v_pages.data(),
                      .first_position = c.first_position,
                      .tokens = c.tokens,
                      .head_dim = c.head_dim,
                      .max = &result->max[first],
                      .sum = &result->sum[first],
                      .out = &result->out[first * stride],
                      .out_stride = stride});
}

void ExpectSame(const Result& expected, const Result& actual, const std::string& what) {
  ASSERT_TRUE(SameBits(expected.max, actual.max)) << what;
  ASSERT_TRUE(SameBits(expected.sum, actual.sum)) << what;
  ASSERT_TRUE(SameBits(expected.out, actual.out)) << what;
}

TEST(Attention, HasTheSameBitsForAnyWindowsAndAnyGroupingOfQueries) {
  std::mt19937 random(1);
  for (const int64_t head_dim : {16, 64, 80, 96, 128, 256}) {
    for (const int64_t tokens : {1, 16, 17, 100, 255, 256}) {
      const Pages pages(head_dim, tokens, random);
      for (const int64_t queries : {1, 2, 3, 4, 5, 6, 7, 9, 27}) {
        const Case c = RandomCase(head_dim, queries, tokens, random);
        Result expected;
        Attend(Reference(), c, pages, 0, queries, &expected);
        for (const auto& [name, table] : IsasUnderTest()) {
          const std::string what = name + " head_dim " + std::to_string(head_dim) + " tokens " + std::to_string(tokens) +
                                   " queries " + std::to_string(queries);
          Result together, apart;
          Attend(*table, c, pages, 0, queries, &together);
          ExpectSame(expected, together, what);
          for (int64_t first = 0; first < queries;) {
            const int64_t last = std::min<int64_t>(queries, first + 1 + static_cast<int64_t>(random() % 4));
            Attend(*table, c, pages, first, last, &apart);
            first = last;
          }
          ExpectSame(expected, apart, what + " in pieces");
        }
      }
    }
  }
}

TEST(Attention, OfACausalPrefillHasTheSameBits) {
  std::mt19937 random(2);
  const int64_t head_dim = 64, heads = 3, tokens = 200, queries = 64 * heads;
  const Pages pages(head_dim, tokens, random);
  Case c = RandomCase(head_dim, queries, tokens, random);
  for (int64_t i = 0; i < queries; ++i) {
    c.end[i] = static_cast<int32_t>(c.first_position + tokens - 64 + i / heads + 1);
    c.begin[i] = std::max(0, c.end[i] - 100);
  }
  Result expected;
  Attend(Reference(), c, pages, 0, queries, &expected);
  for (const auto& [name, table] : IsasUnderTest()) {
    Result actual;
    Attend(*table, c, pages, 0, queries, &actual);
    ExpectSame(expected, actual, name);
  }
}

TEST(Attention, DoesNotDependOnWhatLiesBehindTheLastVisiblePosition) {
  std::mt19937 random(3);
  const int64_t head_dim = 64;
  std::vector<IsaUnderTest> isas = IsasUnderTest();
  isas.push_back({"scalar", &Reference()});
  for (const auto& [name, table] : isas) {
    Pages pages(head_dim, 256, random);
    Case c = RandomCase(head_dim, 5, 256, random);
    std::fill(c.begin.begin(), c.begin.end(), 0);
    for (int64_t i = 0; i < 5; ++i) c.end[i] = static_cast<int32_t>(512 + 90 + i);
    Result before, after;
    Attend(*table, c, pages, 0, 5, &before);
    for (int64_t t = 94; t < 256; ++t) {
      const std::vector<float> bad(head_dim, t % 2 == 0 ? NAN : kInfinity);
      table->store_kv(bad.data(), bad.data(), head_dim, t % 16, const_cast<uint16_t*>(pages.k_pages[t / 16]),
                      const_cast<uint16_t*>(pages.v_pages[t / 16]));
    }
    c.tokens = 94;
    Attend(*table, c, pages, 0, 5, &after);
    ExpectSame(before, after, name);
  }
}

TEST(Attention, IsCloseToExactMathematicsOverSeveralChunks) {
  std::mt19937 random(4);
  const int64_t head_dim = 64, chunks = 3, tokens = 2 * kChunkTokens + 77;
  const std::vector<float> q = RandomFloats(head_dim, random, 0.4f);
  std::vector<Pages> pages;
  for (int64_t i = 0; i < chunks; ++i) pages.emplace_back(head_dim, kChunkTokens, random);
  std::vector<Result> results(chunks);
  std::vector<float> max, sum;
  std::vector<const float*> out;
  const int64_t begin = 100;
  double total = 0;
  std::vector<double> exact(head_dim);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t stored = std::min(kChunkTokens, tokens - chunk * kChunkTokens);
    const Case c = {head_dim, 1, stored, chunk * kChunkTokens, q, {begin}, {static_cast<int32_t>(tokens)}};
    Attend(Reference(), c, pages[chunk], 0, 1, &results[chunk]);
    max.push_back(results[chunk].max[0]);
    sum.push_back(results[chunk].sum[0]);
    out.push_back(results[chunk].out.data());
    for (int64_t t = chunk == 0 ? begin : 0; t < stored; ++t) {
      double score = 0;
      for (int64_t d = 0; d < head_dim; ++d) score += q[d] * HalfToFloat(FloatToHalf(pages[chunk].keys[t * head_dim + d]));
      total += std::exp(score);
      for (int64_t d = 0; d < head_dim; ++d) {
        exact[d] += std::exp(score) * HalfToFloat(FloatToHalf(pages[chunk].values[t * head_dim + d]));
      }
    }
  }
  std::vector<float> merged(head_dim);
  Reference().merge_chunks(chunks, max.data(), sum.data(), out.data(), head_dim, merged.data());
  for (int64_t d = 0; d < head_dim; ++d) EXPECT_NEAR(merged[d], exact[d] / total, 2e-6);
}

TEST(Attention, MergesWithTheSameBitsAndPassesOverChunksThatSawNothing) {
  std::mt19937 random(5);
  for (const int64_t head_dim : {64, 80, 256}) {
    for (const int64_t chunks : {1, 2, 5}) {
      std::vector<float> max = RandomFloats(chunks, random, 10.0f), sum = RandomFloats(chunks, random);
      for (float& s : sum) s = 1.0f + std::abs(s);
      const std::vector<float> numbers = RandomFloats(chunks * head_dim, random), zeros(head_dim);
      std::vector<const float*> out;
      for (int64_t c = 0; c < chunks; ++c) out.push_back(&numbers[c * head_dim]);
      std::vector<float> expected(head_dim), actual(head_dim);
      Reference().merge_chunks(chunks, max.data(), sum.data(), out.data(), head_dim, expected.data());
      if (chunks == 1) {
        for (int64_t d = 0; d < head_dim; ++d) ASSERT_EQ(expected[d], numbers[d] * (1.0f / sum[0]));
      }
      for (const int64_t at : {int64_t{0}, chunks}) {
        for (int64_t i = 0; i < 2; ++i) {
          max.insert(max.begin() + at, -kInfinity);
          sum.insert(sum.begin() + at, 0.0f);
          out.insert(out.begin() + at, zeros.data());
        }
      }
      for (const auto& [name, table] : IsasUnderTest()) {
        table->merge_chunks(chunks + 4, max.data(), sum.data(), out.data(), head_dim, actual.data());
        EXPECT_TRUE(SameBits(expected, actual)) << name;
        table->merge_chunks(2, max.data(), sum.data(), out.data(), head_dim, actual.data());
        EXPECT_TRUE(SameBits(zeros, actual)) << name;
      }
    }
  }
}

TEST(Attention, LetsNanAndInfiniteScoresThroughAsNan) {
  std::mt19937 random(6);
  const int64_t head_dim = 64;
  std::vector<IsaUnderTest> isas = IsasUnderTest();
  isas.push_back({"scalar", &Reference()});
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    Pages pages(head_dim, 256, random);
    Case c = RandomCase(head_dim, 3, 256, random);
    std::fill(c.begin.begin(), c.begin.end(), 0);
    std::fill(c.end.begin(), c.end.end(), 768);
    c.q[head_dim + 5] = bad;  // The second query alone.
    Result expected;
    Attend(Reference(), c, pages, 0, 3, &expected);
    for (const auto& [name, table] : isas) {
      Result actual;
      Attend(*table, c, pages, 0, 3, &actual);
      ExpectSame(expected, actual, name);
      EXPECT_TRUE(std::isfinite(actual.out[0]));
      EXPECT_TRUE(std::isnan(actual.out[head_dim + 16]));
      EXPECT_TRUE(std::isnan(actual.sum[1]));
    }
  }
}

TEST(StoreKv, WritesTheSameHalvesEverywhere) {
  std::mt19937 random(7);
  const int64_t head_dim = 64;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> k(head_dim), v(head_dim);
    for (int64_t d = 0; d < head_dim; ++d) {
      // Mostly of the range of f16, its denormals, and what rounds over its end; sometimes any bits.
      const uint32_t bits = static_cast<uint32_t>(random());
      k[d] = std::bit_cast<float>(round % 2 == 0 ? bits : (bits & 0x8fffffff) | 0x30000000);
      v[d] = std::bit_cast<float>(round % 2 == 0 ? ~bits : (bits & 0x8fffffff) | 0x40000000);
    }
    std::vector<uint16_t> k_expected(16 * head_dim), v_expected(16 * head_dim);
    Reference().store_kv(k.data(), v.data(), head_dim, round % 16, k_expected.data(), v_expected.data());
    for (const auto& [name, table] : IsasUnderTest()) {
      std::vector<uint16_t> k_actual(16 * head_dim), v_actual(16 * head_dim);
      table->store_kv(k.data(), v.data(), head_dim, round % 16, k_actual.data(), v_actual.data());
      ASSERT_EQ(k_expected, k_actual) << name;
      ASSERT_EQ(v_expected, v_actual) << name;
    }
  }
}

}  // namespace
}  // namespace tercet::kernels
