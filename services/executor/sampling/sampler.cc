#include "services/executor/sampling/sampler.h"

#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/reduce.h"
#include "services/executor/sampling/gumbel.h"

namespace tercet::executor {
namespace {

// NaN of either sign, or +inf.
bool Unusable(float logit) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit);
  return (bits & 0x7fffffffu) > 0x7f800000u || bits == 0x7f800000u;
}

}  // namespace

absl::Status CheckLogits(std::span<const float> logits, uint64_t position) {
  // In integers and without a branch inside, so that the compiler makes a vector loop of it.
  uint32_t unusable = 0;
  for (float logit : logits) unusable |= static_cast<uint32_t>(Unusable(logit));
  if (unusable == 0) return absl::OkStatus();
  size_t token = 0;
  while (!Unusable(logits[token])) ++token;
  return absl::InternalError(absl::StrCat("the model's output for position ", position, " is not a number (token ", token,
                                          ", ", std::isnan(logits[token]) ? "NaN" : "infinity",
                                          "): the model file is damaged or its values overflow"));
}

absl::StatusOr<uint32_t> Sampler::Sample(std::span<const float> logits, const SamplingParameters& parameters,
                                         uint64_t position) {
  if (absl::Status status = CheckLogits(logits, position); !status.ok()) return status;
  const int64_t vocabulary = static_cast<int64_t>(logits.size());
  const int64_t best = kernels::MaxIndex(logits.data(), vocabulary);
  if (best < 0 || best >= vocabulary || std::isinf(logits[best])) {
    return absl::InternalError(
        absl::StrCat("every token is ruled out at position ", position, " (all logits are -infinity)"));
  }
  if (parameters.temperature <= 0) return static_cast<uint32_t>(best);

  const Noise noise(parameters.seed, position);
  const double inverse_temperature = 1.0 / static_cast<double>(parameters.temperature);
  const Draw draw =
      HasFilters(parameters, vocabulary)
          ? DrawFromCandidates(filter_.Keep(logits, logits[best], parameters), inverse_temperature, noise)
          : DrawFromLogits(logits, 0, vocabulary, inverse_temperature, noise);
  // The best token is always kept and has a finite score.
  return static_cast<uint32_t>(draw.id < 0 ? best : draw.id);
}

}  // namespace tercet::executor
