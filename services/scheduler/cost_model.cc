#include "services/scheduler/cost_model.h"

#include <algorithm>
#include <bit>

namespace tercet::scheduler {
namespace {
// A step counts for about the next 16 of its kind: quick enough to follow a neighbour's noise, slow enough to smooth it.
constexpr double kWeight = 1.0 / 16;
}  // namespace

void CostModel::Observe(uint32_t rows, double ms) {
  if (rows == 0 || !(ms >= 0)) return;
  size_t index = std::min<size_t>(std::bit_width(rows) - 1, buckets_.size() - 1);
  Bucket& bucket = buckets_[index];
  double weight = bucket.seen ? kWeight : 1;
  bucket.rows += (rows - bucket.rows) * weight;
  bucket.ms += (ms - bucket.ms) * weight;
  bucket.seen = true;
}

double CostModel::StepMs(uint32_t rows) const {
  const Bucket* below = nullptr;
  const Bucket* above = nullptr;
  for (const Bucket& bucket : buckets_) {
    if (!bucket.seen) continue;
    if (bucket.rows <= rows) below = &bucket;
    if (bucket.rows >= rows && above == nullptr) above = &bucket;
  }
  if (below == nullptr && above == nullptr) return 0;
  if (below == nullptr) return above->ms;
  if (above == nullptr) return below->ms * rows / below->rows;
  if (above->rows == below->rows) return below->ms;
  return below->ms + (above->ms - below->ms) * (rows - below->rows) / (above->rows - below->rows);
}

double CostModel::PrefillMs(uint64_t tokens, uint32_t chunk) const {
  if (tokens == 0) return 0;
  double whole = static_cast<double>(tokens / chunk) * StepMs(chunk);
  uint32_t rest = static_cast<uint32_t>(tokens % chunk);
  return whole + (rest == 0 ? 0 : StepMs(rest));
}

}  // namespace tercet::scheduler
