#include "services/executor/sampling/gumbel.h"

#include <algorithm>
#include <cstring>

namespace tercet::executor {
namespace {

// The largest of x[n], n ≤ Noise::kBlock, without NaN. A full block goes four lanes at a time; a loop of std::max would not
// be turned into that, because of how it treats NaN.
float Largest(const float* x, int64_t n) {
  if (n < Noise::kBlock) return *std::max_element(x, x + n);
  using Lanes [[gnu::vector_size(16)]] = float;
  Lanes part[4];
  static_assert(sizeof(part) == Noise::kBlock * sizeof(float));
  std::memcpy(part, x, sizeof(part));
  const Lanes low = part[0] > part[1] ? part[0] : part[1];
  const Lanes high = part[2] > part[3] ? part[2] : part[3];
  const Lanes most = low > high ? low : high;
  return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

}  // namespace

Draw Better(const Draw& a, const Draw& b) {
  if (a.id < 0) return b;
  if (b.id < 0) return a;
  if (a.score != b.score) return a.score > b.score ? a : b;
  return a.id < b.id ? a : b;
}

Draw DrawFromLogits(std::span<const float> logits, int64_t begin, int64_t end, double inverse_temperature,
                    const Noise& noise) {
  Draw best;
  for (int64_t first = begin; first < end; first += Noise::kBlock) {
    const int64_t last = std::min<int64_t>(first + Noise::kBlock, end);
    const double bound = noise.BlockBound(static_cast<uint32_t>(first / Noise::kBlock));
    // Rounding is monotone, so a bound that loses here means scores that would lose.
    if (static_cast<double>(Largest(logits.data() + first, last - first)) * inverse_temperature + bound < best.score) {
      continue;
    }
    for (int64_t i = first; i < last; ++i) {
      const double scaled = static_cast<double>(logits[i]) * inverse_temperature;
      if (scaled + bound < best.score) continue;
      const double score = scaled + noise.Gumbel(static_cast<uint32_t>(i));
      if (score > best.score) best = {.score = score, .id = i};
    }
  }
  return best;
}

Draw DrawFromCandidates(std::span<const kernels::Candidate> candidates, double inverse_temperature,
                        const Noise& noise) {
  Draw best;
  for (const kernels::Candidate& candidate : candidates) {
    const uint32_t id = static_cast<uint32_t>(candidate.id);
    const double scaled = static_cast<double>(candidate.logit) * inverse_temperature;
    if (scaled + noise.BlockBound(id / Noise::kBlock) < best.score) continue;
    best = Better(best, {.score = scaled + noise.Gumbel(id), .id = candidate.id});
  }
  return best;
}

}  // namespace tercet::executor
