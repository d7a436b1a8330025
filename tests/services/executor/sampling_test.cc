#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "services/executor/sampling/candidates.h"
#include "services/executor/sampling/gumbel.h"
#include "services/executor/sampling/logprobs.h"
#include "services/executor/sampling/noise.h"
#include "services/executor/sampling/sampler.h"
#include "services/executor/sampling/verify.h"

namespace tercet::executor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// p = .391696 .391696 .144097 .053010 .019501 0
const std::vector<float> kLogits = {2, 2, 1, 0, -1, -kInfinity};
const std::vector<double> kProbabilities = {.391696, .391696, .144097, .053010, .019501, 0};

std::vector<int> Kept(const std::vector<float>& logits, const SamplingParameters& parameters) {
  CandidateFilter filter(static_cast<int64_t>(logits.size()));
  std::vector<int> ids;
  for (const kernels::Candidate& candidate :
       filter.Keep(logits, *std::max_element(logits.begin(), logits.end()), parameters)) {
    ids.push_back(candidate.id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<int> KeptByTopP(float top_p) { return Kept(kLogits, {.temperature = 1, .top_p = top_p}); }
std::vector<int> KeptByMinP(float min_p) { return Kept(kLogits, {.temperature = 1, .min_p = min_p}); }
std::vector<int> KeptByTopK(uint32_t top_k) {
  // min_p switches the filter on when top_k is off.
  return Kept(kLogits, {.temperature = 1, .top_k = top_k, .min_p = 1e-30f});
}
using Ids = std::vector<int>;

TEST(CandidateFilter, TopPKeepsTheFewestTokensWhoseSumReachesIt) {
  EXPECT_EQ(KeptByTopP(1e-9f), Ids({0}));
  EXPECT_EQ(KeptByTopP(.35f), Ids({0}));
  EXPECT_EQ(KeptByTopP(.7f), Ids({0, 1}));
  EXPECT_EQ(KeptByTopP(.9f), Ids({0, 1, 2}));
  EXPECT_EQ(KeptByTopP(.9999999f), Ids({0, 1, 2, 3, 4}));
}

TEST(CandidateFilter, MinPIsRelativeToTheMostProbableToken) {
  EXPECT_EQ(KeptByMinP(.1f), Ids({0, 1, 2, 3}));
  EXPECT_EQ(KeptByMinP(.36f), Ids({0, 1, 2}));
  EXPECT_EQ(KeptByMinP(.5f), Ids({0, 1}));
  EXPECT_EQ(KeptByMinP(1), Ids({0, 1}));
  EXPECT_EQ(KeptByMinP(1e-45f), Ids({0, 1, 2, 3, 4}));
}

TEST(CandidateFilter, TopKCountsTokensAndZeroOrMoreThanAllIsOff) {
  EXPECT_EQ(KeptByTopK(1), Ids({0}));
  EXPECT_EQ(KeptByTopK(3), Ids({0, 1, 2}));
  EXPECT_EQ(KeptByTopK(0), Ids({0, 1, 2, 3, 4}));
  EXPECT_EQ(KeptByTopK(1000000000), Ids({0, 1, 2, 3, 4}));
  EXPECT_FALSE(HasFilters({.temperature = 1, .top_k = 6}, 6));
  EXPECT_FALSE(HasFilters({.temperature = 1}, 6));
}

TEST(CandidateFilter, TopPSeesTheDistributionAfterTemperatureAndTopK) {
  // Cold: the two best hold nearly everything.
  EXPECT_EQ(Kept(kLogits, {.temperature = .1f, .top_p = .99f}), Ids({0, 1}));
  // Hot: nearly uniform over the five.
  EXPECT_EQ(Kept(kLogits, {.temperature = 100, .top_p = .7f}), Ids({0, 1, 2, 3}));
  // Among the best three, two hold 84 %.
  EXPECT_EQ(Kept(kLogits, {.temperature = 1, .top_k = 3, .top_p = .8f}), Ids({0, 1}));
}

TEST(CandidateFilter, ExtremeTemperaturesKeepTheBest) {
  EXPECT_EQ(Kept({1, 3, 2}, {.temperature = 1e-45f, .top_p = .5f}), Ids({1}));
  EXPECT_EQ(Kept({1, 3, 2}, {.temperature = 1e-45f, .min_p = .5f}), Ids({1}));
  EXPECT_EQ(Kept({-3e38f, 3e38f, 0}, {.temperature = 1, .top_p = .5f}), Ids({1}));
}

TEST(CandidateFilter, LargeNucleiAreExact) {
  std::mt19937 random(1);
  for (int64_t n : {65, 1000, 5000}) {
    std::vector<float> logits(n);
    for (float& logit : logits) logit = std::normal_distribution<float>(0, .5f)(random);
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
    double mass = 0;
    for (float logit : logits) mass += std::exp(double{logit});
    for (float top_p : {.05f, .5f, .97f}) {
      std::vector<int> expected;
      double sum = 0;
      for (int id : order) {
        expected.push_back(id);
        sum += std::exp(double{logits[id]});
        if (sum >= double{top_p} * mass) break;
      }
      std::sort(expected.begin(), expected.end());
      // The mass is summed in single precision: one token at the border may differ.
      EXPECT_NEAR(static_cast<double>(Kept(logits, {.temperature = 1, .top_p = top_p}).size()),
                  static_cast<double>(expected.size()), 1)
          << n << " " << top_p;
    }
    std::vector<int> best(order.begin(), order.begin() + n * 2 / 3);
    std::sort(best.begin(), best.end());
    EXPECT_EQ(Kept(logits, {.temperature = 1, .top_k = static_cast<uint32_t>(best.size())}), best);
  }
}

TEST(Noise, LogarithmAndExponentialAreAccurate) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::uniform_real_distribution<double>(-700, 700)(random);
    const double e = Exponential(x);
    EXPECT_NEAR(e / std::exp(x), 1, 1e-15);
    EXPECT_NEAR(NaturalLog(e), std::log(e), 1e-15 * std::max(1.0, std::abs(x)));
    const double near_one = 1 + std::uniform_real_distribution<double>(-1e-3, 1e-3)(random);
    EXPECT_NEAR(NaturalLog(near_one) / std::log(near_one), 1, 1e-15) << near_one;
  }
  EXPECT_EQ(NaturalLog(1), 0);
  EXPECT_EQ(Exponential(0), 1);
}

TEST(Noise, IsFiniteAndBelowTheBoundOfItsBlock) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Noise noise(seed, seed * 3);
    for (uint32_t token = 0; token < 500; ++token) {
      EXPECT_TRUE(std::isfinite(noise.Gumbel(token)));
      EXPECT_LE(noise.Gumbel(token), noise.BlockBound(token / Noise::kBlock));
    }
  }
}

// Of n sorted samples of a distribution, the largest distance between their share and its cumulative function.
double KolmogorovDistance(std::vector<double> samples, double (*cumulative)(double)) {
  std::sort(samples.begin(), samples.end());
  double distance = 0;
  const double n = static_cast<double>(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const double expected = cumulative(samples[i]);
    distance = std::max({distance, std::abs(expected - i / n), std::abs(expected - (i + 1) / n)});
  }
  return distance;
}

TEST(Noise, IsGumbelOverTokensPositionsAndSeeds) {
  const auto cumulative = [](double x) { return std::exp(-std::exp(-x)); };
  constexpr int kSamples = 100000;
  std::vector<double> tokens, positions, seeds;
  for (int i = 0; i < kSamples; ++i) {
    tokens.push_back(Noise(42, 17).Gumbel(i));
    positions.push_back(Noise(42, i).Gumbel(1234));
    seeds.push_back(Noise(i, 17).Gumbel(1234));
  }
  // 1.95 / sqrt(n): p = 0.001.
  const double critical = 1.95 / std::sqrt(kSamples);
  EXPECT_LT(KolmogorovDistance(tokens, cumulative), critical);
  EXPECT_LT(KolmogorovDistance(positions, cumulative), critical);
  EXPECT_LT(KolmogorovDistance(seeds, cumulative), critical);
}

TEST(Noise, TokensOfABlockAreIndependent) {
  // Four tokens of one block and of two: every order of their noise is equally likely.
  for (const std::vector<uint32_t>& ids : {std::vector<uint32_t>{0, 1, 7, 15}, {14, 15, 16, 17}}) {
    std::map<std::vector<int>, int> orders;
    for (uint64_t position = 0; position < 100000; ++position) {
      const Noise noise(3, position);
      std::vector<int> order = {0, 1, 2, 3};
      std::sort(order.begin(), order.end(), [&](int a, int b) { return noise.Gumbel(ids[a]) > noise.Gumbel(ids[b]); });
      ++orders[order];
    }
    double chi_square = 0;
    EXPECT_EQ(orders.size(), 24u);
    for (const auto& [order, count] : orders) {
      chi_square += (count - 100000 / 24.0) * (count - 100000 / 24.0) / (100000 / 24.0);
    }
    EXPECT_LT(chi_square, 49.73);  // 23 degrees of freedom, p = 0.001
  }
}

TEST(Noise, PairsAreUncorrelated) {
  // u = exp(-e^-g) is uniform; over neighbours in token, block, position and seed its products average 1/4.
  const auto uniform = [](uint64_t seed, uint64_t position, uint32_t token) {
    return std::exp(-std::exp(-Noise(seed, position).Gumbel(token)));
  };
  double token = 0, block = 0, position = 0, seed = 0;
  constexpr int kSamples = 50000;
  for (int i = 0; i < kSamples; ++i) {
    const double u = uniform(1, 1000 + i, 5);
    token += u * uniform(1, 1000 + i, 6);
    block += u * uniform(1, 1000 + i, 21);
    position += u * uniform(1, 1001 + i, 5);
    seed += u * uniform(2, 1000 + i, 5);
  }
  // Standard deviation of a product of two uniforms: 0.2205; 3.3 of them.
  const double tolerance = 3.3 * .2205 / std::sqrt(kSamples);
  for (double sum : {token, block, position, seed}) EXPECT_NEAR(sum / kSamples, .25, tolerance);
}

TEST(Gumbel, ShortcutDrawsTheSameTokenAsEveryScore) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<float> logits(1000);
    const float spread = std::uniform_real_distribution<float>(.01f, 20)(random);
    for (float& logit : logits) logit = std::normal_distribution<float>(0, spread)(random);
    if (trial % 3 == 0) logits[trial] = -kInfinity;
    const Noise noise(trial, trial * 7);
    std::vector<kernels::Candidate> all;
    for (int32_t i = 0; i < 1000; ++i) {
      if (logits[i] > -kInfinity) all.push_back({.id = i, .logit = logits[i]});
    }
    Draw expected;
    for (const kernels::Candidate& candidate : all) {
      expected = Better(expected, {.score = double{candidate.logit} * 1.25 + noise.Gumbel(candidate.id), .id = candidate.id});
    }
    EXPECT_EQ(DrawFromCandidates(all, 1.25, noise).id, expected.id);
    const Draw drawn = DrawFromLogits(logits, 0, 1000, 1.25, noise);
    EXPECT_EQ(drawn.id, expected.id);
    EXPECT_EQ(drawn.score, expected.score);
    // Any split of the vocabulary at blocks gives the same token.
    const Draw split =
        Better(DrawFromLogits(logits, 0, 336, 1.25, noise), DrawFromLogits(logits, 336, 1000, 1.25, noise));
    EXPECT_EQ(split.id, expected.id);
  }
}

double ChiSquare(const std::vector<int>& counts, const std::vector<double>& probabilities) {
  const double draws = std::accumulate(counts.begin(), counts.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * probabilities[i];
    if (expected > 0) sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

TEST(Sampler, FrequenciesOverPositionsFollowTheDistribution) {
  Sampler sampler(6);
  std::vector<int> counts(6);
  for (uint64_t position = 0; position < 100000; ++position) {
    ++counts[*sampler.Sample(kLogits, {.temperature = 1, .seed = 42}, position)];
  }
  EXPECT_EQ(counts[5], 0);
  EXPECT_LT(ChiSquare(counts, kProbabilities), 18.47);  // 4 degrees of freedom, p = 0.001
}

TEST(Sampler, FrequenciesOverSeedsFollowTheDistribution) {
  Sampler sampler(6);
  std::vector<int> counts(6);
  for (uint64_t seed = 0; seed < 100000; ++seed) {
    ++counts[*sampler.Sample(kLogits, {.temperature = 1, .seed = seed}, 17)];
  }
  EXPECT_LT(ChiSquare(counts, kProbabilities), 18.47);
}

TEST(Sampler, NeighbouringPositionsAreIndependent) {
  Sampler sampler(6);
  std::vector<int> counts(25);
  std::vector<double> probabilities(25);
  uint32_t last = 0;
  for (uint64_t position = 0; position <= 100000; ++position) {
    const uint32_t token = *sampler.Sample(kLogits, {.temperature = 1, .seed = 7}, position);
    if (position > 0) ++counts[last * 5 + token];
    last = token;
  }
  for (int i = 0; i < 25; ++i) probabilities[i] = kProbabilities[i / 5] * kProbabilities[i % 5];
  EXPECT_LT(ChiSquare(counts, probabilities), 51.18);  // 24 degrees of freedom, p = 0.001
}

TEST(Sampler, FilteredFrequenciesFollowTheRenormalizedDistribution) {
  Sampler sampler(6);
  std::vector<int> counts(6);
  for (uint64_t position = 0; position < 100000; ++position) {
    ++counts[*sampler.Sample(kLogits, {.temperature = 1, .top_k = 3, .seed = 9}, position)];
  }
  const double mass = .391696 * 2 + .144097;
  EXPECT_LT(ChiSquare(counts, {.391696 / mass, .391696 / mass, .144097 / mass, 0, 0, 0}), 13.82);  // 2 degrees
  EXPECT_EQ(counts[3] + counts[4] + counts[5], 0);
}

TEST(Sampler, TemperatureSharpensTheDistribution) {
  Sampler sampler(3);
  const std::vector<float> logits = {0, 1, 2};
  std::vector<int> counts(3);
  for (uint64_t position = 0; position < 100000; ++position) {
    ++counts[*sampler.Sample(logits, {.temperature = .5f, .seed = 1}, position)];
  }
  const double mass = 1 + std::exp(2.0) + std::exp(4.0);
  EXPECT_LT(ChiSquare(counts, {1 / mass, std::exp(2.0) / mass, std::exp(4.0) / mass}), 13.82);
}

TEST(Sampler, GreedyTakesTheLowestIdOfEqualLogits) {
  Sampler sampler(6);
  for (uint64_t position = 0; position < 10; ++position) {
    EXPECT_EQ(*sampler.Sample(kLogits, {.temperature = 0, .top_k = 3, .top_p = .5f, .seed = position}, position), 0u);
  }
}

TEST(Sampler, TopKOneIsGreedyAtAnyTemperature) {
  Sampler sampler(6);
  for (uint64_t position = 0; position < 100; ++position) {
    EXPECT_EQ(*sampler.Sample(kLogits, {.temperature = 100, .top_k = 1, .seed = 1}, position), 0u);
  }
}

TEST(Sampler, SameSeedAndPositionDrawTheSameToken) {
  Sampler one(6), other(6);
  for (uint64_t position = 0; position < 1000; ++position) {
    EXPECT_EQ(*one.Sample(kLogits, {.temperature = .8f, .seed = 42}, position),
              *other.Sample(kLogits, {.temperature = .8f, .seed = 42}, position));
  }
}

TEST(Sampler, DamagedLogitsAreAnErrorThatNamesPositionAndToken) {
  Sampler sampler(3);
  for (const std::vector<float>& logits :
       {std::vector<float>{0, kNan, 1}, {0, -kNan, 1}, {0, kInfinity, 1}, {-kInfinity, -kInfinity, -kInfinity}}) {
    for (float temperature : {0.0f, 1.0f}) {
      const absl::Status status = sampler.Sample(logits, {.temperature = temperature}, 17).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_NE(status.message().find("17"), std::string::npos) << status;
    }
  }
  EXPECT_NE(CheckLogits(std::vector<float>{0, kNan, 1}, 5).message().find("token 1"), std::string::npos);
}

TEST(Logprobs, AreTheModelsOwnDistribution) {
  const PositionLogprobs result = ComputeLogprobs(kLogits, 2, 3);
  EXPECT_NEAR(result.logprob, std::log(.144097), 1e-5);
  ASSERT_EQ(result.top.size(), 3u);
  EXPECT_EQ(result.top[0].id, 0u);
  EXPECT_EQ(result.top[1].id, 1u);
  EXPECT_EQ(result.top[2].id, 2u);
  EXPECT_EQ(result.top[2].logprob, result.logprob);
  EXPECT_EQ(ComputeLogprobs(kLogits, 5, 0).logprob, -kInfinity);
}

TEST(Logprobs, AreNeverAboveZero) { EXPECT_EQ(ComputeLogprobs(std::vector<float>{80, -80, -80}, 0, 1).logprob, 0); }

TEST(Verify, DraftsStandWhileTheyEqualTheTargetsOwnTokens) {
  const std::vector<uint32_t> own = {4, 5, 6, 7};
  EXPECT_EQ(AcceptedDrafts(std::vector<uint32_t>{4, 5, 6}, own), 3u);
  EXPECT_EQ(AcceptedDrafts(std::vector<uint32_t>{4, 9, 6}, own), 1u);
  EXPECT_EQ(AcceptedDrafts(std::vector<uint32_t>{9, 5, 6}, own), 0u);
  EXPECT_EQ(AcceptedDrafts({}, std::vector<uint32_t>{4}), 0u);
}

}  // namespace
}  // namespace tercet::executor
