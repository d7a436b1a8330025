// What a step costs on one executor, learned from its step results.
//
// Milliseconds of a step with M rows, kept as an exponentially weighted mean per power-of-two bucket of M; between buckets
// it interpolates, beyond the largest seen it extrapolates linearly. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

namespace tercet::scheduler {

class CostModel {
 public:
  // A step with `rows` ≥ 1 rows took `ms`.
  void Observe(uint32_t rows, double ms);

  // Predicted milliseconds of a step with `rows` ≥ 1 rows; 0 while nothing is known.
  double StepMs(uint32_t rows) const;

  // Predicted milliseconds to prefill `tokens` in chunks of `chunk` ≥ 1.
  double PrefillMs(uint64_t tokens, uint32_t chunk) const;

 private:
  struct Bucket {
    double rows = 0;  // mean
    double ms = 0;    // mean
    bool seen = false;
  };
  std::array<Bucket, 20> buckets_;
};

}  // namespace tercet::scheduler
