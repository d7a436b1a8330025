// How the next token is chosen: plain values, checked where they enter (plan.h).
#pragma once

#include <cstdint>

namespace tercet::executor {

struct SamplingParameters {
  // 0 … 100; 0 is greedy.
  float temperature = 0;
  // 0 (off) … 2^31-1.
  uint32_t top_k = 0;
  // 0 < top_p ≤ 1; 1 is off.
  float top_p = 1;
  // 0 (off) … 1.
  float min_p = 0;
  // Any value.
  uint64_t seed = 0;
};

}  // namespace tercet::executor
