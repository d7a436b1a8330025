#pragma once

#include "kernels/table.h"

namespace tercet::kernels::avx2 {

// The operations for AVX2, FMA, F16C and BMI2.
extern const Table kTable;

}  // namespace tercet::kernels::avx2
