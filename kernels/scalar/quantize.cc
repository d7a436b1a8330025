#include <bit>
#include <cmath>
#include <limits>

#include "kernels/scalar/ops.h"

namespace tercet::kernels::scalar {

void QuantizeRow(const float* x, int64_t cols, QuantizedBlock* out) {
  for (int64_t block = 0; block < cols / kActivationBlock; ++block) {
    const float* in = x + block * kActivationBlock;
    QuantizedBlock& to = out[block];

    // As integers the magnitudes order like the numbers, infinity and then NaN on top.
    uint32_t largest = 0;
    for (int i = 0; i < 32; ++i) {
      const uint32_t magnitude = std::bit_cast<uint32_t>(in[i]) & 0x7fffffff;
      if (magnitude > largest) largest = magnitude;
    }
    const float amax = std::bit_cast<float>(largest);
    const bool finite = largest < 0x7f800000;
    const bool zero = amax < 0x1p-110f;
    to.scale = !finite ? std::numeric_limits<float>::quiet_NaN() : zero ? 0.0f : amax / 127.0f;
    const float inverse = !finite || zero ? 0.0f : 127.0f / amax;

    int sums[2] = {}, low_sums[2] = {};
    for (int i = 0; i < 32; ++i) {
      const int q = finite ? static_cast<int>(std::nearbyint(in[i] * inverse)) : 0;
      to.q[i] = static_cast<int8_t>(q);
      sums[i / 2 % 2] += q;
      if (i < 16) low_sums[i / 2 % 2] += q;
    }
    for (int i = 0; i < 2; ++i) {
      to.pair_sums[i] = static_cast<int16_t>(sums[i]);
      to.low_pair_sums[i] = static_cast<int16_t>(low_sums[i]);
    }
    to.scaled_sum = to.scale * static_cast<float>(sums[0] + sums[1]);
  }
}

}  // namespace tercet::kernels::scalar
