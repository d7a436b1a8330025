#include "services/executor/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reduce.h"
#include "services/executor/sampling/noise.h"

namespace tercet::executor {
namespace {

using kernels::Candidate;

// Exponents below this add nothing to a sum that holds e^0; they also keep -inf and overflow out of the arithmetic.
constexpr double kLeastExponent = -100;

// Larger selections than this are collected and sorted.
constexpr int64_t kMostSelected = 1024;

class Weigher {
 public:
  Weigher(float max_logit, double inverse_temperature) : max_(max_logit), inverse_(inverse_temperature) {}

  // log of the probability relative to the most probable token; ≤ 0.
  double Exponent(float logit) const { return (static_cast<double>(logit) - max_) * inverse_; }
  double Weight(float logit) const { return Exponential(std::max(Exponent(logit), kLeastExponent)); }

 private:
  double max_;
  double inverse_;
};

// Length of the prefix of `sorted` whose weights reach `mass`, at least 1; sorted.size() + 1 when they do not reach it.
size_t PrefixReaching(std::span<const Candidate> sorted, const Weigher& weigher, double mass) {
  double sum = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    sum += weigher.Weight(sorted[i].logit);
    if (sum >= mass) return i + 1;
  }
  return sorted.size() + 1;
}

}  // namespace

bool HasFilters(const SamplingParameters& parameters, int64_t vocabulary) {
  return (parameters.top_k > 0 && parameters.top_k < vocabulary) || parameters.top_p < 1 || parameters.min_p > 0;
}

CandidateFilter::CandidateFilter(int64_t vocabulary)
    : candidates_(std::max(vocabulary, kernels::TopKRoom(std::min(vocabulary, kMostSelected)))), scaled_(vocabulary) {}

int64_t CandidateFilter::SelectBest(std::span<const float> logits, int64_t k) {
  const int64_t n = static_cast<int64_t>(logits.size());
  if (k <= kMostSelected) return kernels::TopK(logits.data(), n, k, candidates_.data());
  int64_t next = 0;
  const int64_t finite = kernels::CollectAtLeast(logits.data(), 0, n, std::numeric_limits<float>::lowest(),
                                                 candidates_.data(), n, &next);
  k = std::min(k, finite);
  std::partial_sort(candidates_.begin(), candidates_.begin() + k, candidates_.begin() + finite,
                    [](const Candidate& a, const Candidate& b) {
                      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
                    });
  return k;
}

double CandidateFilter::Mass(std::span<const float> logits, float max_logit, double inverse_temperature) {
  if (inverse_temperature == 1) {
    return Exponential(kernels::LogSumExp(logits.data(), static_cast<int64_t>(logits.size())) - max_logit);
  }
  // In single precision, like the sum. The largest difference times the largest factor may be infinite, but never NaN.
  const float factor = static_cast<float>(std::min(inverse_temperature, 1e30));
  const float least = static_cast<float>(kLeastExponent);
  for (size_t i = 0; i < logits.size(); ++i) {
    const float exponent = (logits[i] - max_logit) * factor;
    scaled_[i] = exponent > least ? exponent : least;
  }
  return Exponential(kernels::LogSumExp(scaled_.data(), static_cast<int64_t>(logits.size())));
}

std::span<const Candidate> CandidateFilter::Keep(std::span<const float> logits, float max_logit,
                                                 const SamplingParameters& parameters) {
  const int64_t n = static_cast<int64_t>(logits.size());
  const double inverse_temperature = 1.0 / static_cast<double>(parameters.temperature);
  const Weigher weigher(max_logit, inverse_temperature);
  // log(min_p) = 0 for min_p = 1, so ties with the best are kept exactly.
  const double least_exponent = parameters.min_p > 0 ? NaturalLog(static_cast<double>(parameters.min_p)) : 0;
  const auto likely = [&](float logit) {
    return logit > -INFINITY && (parameters.min_p <= 0 || weigher.Exponent(logit) >= least_exponent);
  };

  int64_t kept = 0;
  if (parameters.top_k > 0 && parameters.top_k < n) {
    kept = SelectBest(logits, parameters.top_k);
    if (parameters.top_p < 1) {
      double mass = 0;
      for (int64_t i = 0; i < kept; ++i) mass += weigher.Weight(candidates_[i].logit);
      const size_t nucleus = PrefixReaching({candidates_.data(), static_cast<size_t>(kept)}, weigher,
                                            static_cast<double>(parameters.top_p) * mass);
      kept = std::min(kept, static_cast<int64_t>(nucleus));
    }
  } else if (parameters.top_p < 1) {
    const double wanted = static_cast<double>(parameters.top_p) * Mass(logits, max_logit, inverse_temperature);
    for (int64_t k : {int64_t{64}, kMostSelected, n}) {
      kept = SelectBest(logits, std::min(k, n));
      const int64_t nucleus = static_cast<int64_t>(
          PrefixReaching({candidates_.data(), static_cast<size_t>(kept)}, weigher, wanted));
      const bool reached = nucleus <= kept || kept < k;
      kept = std::min(kept, nucleus);
      // Enough as well when min_p ends the list before top_p does.
      if (reached || kept == n || !likely(candidates_[kept - 1].logit)) break;
    }
  } else {
    // A threshold a little low, then the exact test.
    const double threshold = max_logit + least_exponent * parameters.temperature;
    int64_t next = 0;
    const int64_t near = kernels::CollectAtLeast(
        logits.data(), 0, n,
        static_cast<float>(std::max(threshold - 1e-5 * (1 + std::abs(threshold)), -3e38)), candidates_.data(), n, &next);
    for (int64_t i = 0; i < near; ++i) {
      if (likely(candidates_[i].logit)) candidates_[kept++] = candidates_[i];
    }
    return {candidates_.data(), static_cast<size_t>(kept)};
  }
  while (kept > 1 && !likely(candidates_[kept - 1].logit)) --kept;
  return {candidates_.data(), static_cast<size_t>(kept)};
}

}  // namespace tercet::executor
