// One row of a packed matrix as f32: the embedding of a token.
#pragma once

#include <cstdint>

#include "kernels/panels.h"

namespace tercet::kernels {

// out[w.cols] = row `row` (0 … w.rows − 1); the same bits as DequantizeRow of the GGUF row. Thread safety: pure function.
void GatherRow(const PackedMatrix& w, int64_t row, float* out);

}  // namespace tercet::kernels
