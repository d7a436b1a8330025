// Where a matmul's results go. Internal to kernels/; include after a vocabulary.
#pragma once

#include "kernels/lanes/inline.h"
#include "kernels/lanes/tail.h"
#include "kernels/panels.h"

namespace tercet::kernels {
namespace {

// Writes the 16 outputs of a panel and a token; fewer at the end of the matrix.
TERCET_INLINE void StoreOutputs(const PackedMatrix& w, int64_t panel, F32 acc, float* out_row) {
  const int64_t n = panel * kPanelRows;
  if (n + kPanelRows <= w.rows) {
    Store(out_row + n, acc);
  } else {
    StoreFirst(out_row + n, acc, w.rows - n);
  }
}

}  // namespace
}  // namespace tercet::kernels
