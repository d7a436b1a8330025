// 32 weights of one row of a panel, taken apart again: for the scalar matmul and for GatherRow. Internal to kernels/.
#pragma once

#include <cstdint>

#include "kernels/panels.h"

namespace tercet::kernels {

// Weight k = q[k] · scale[k / 16] + minimum (the minimum only if the format has one). Everything is exact.
struct PanelBlock {
  int q[32];        // Offset applied.
  float scale[2];
  float minimum;
};

// k = 32·block … of `row`; the format of `w` is quantized.
PanelBlock ReadPanelBlock(const PackedMatrix& w, int64_t row, int64_t block);

// Weight (row, k) of an F32, F16 or BF16 matrix.
float ReadPanelFloat(const PackedMatrix& w, int64_t row, int64_t k);

}  // namespace tercet::kernels
