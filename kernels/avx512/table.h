#pragma once

#include "kernels/table.h"

namespace tercet::kernels::avx512 {

// The operations for AVX-512 F, BW, VL, DQ and VNNI.
extern const Table kTable;

}  // namespace tercet::kernels::avx512
