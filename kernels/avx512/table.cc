#include "kernels/avx512/table.h"

#include "kernels/avx512/lanes.h"
#include "kernels/lanes/attention.h"
#include "kernels/lanes/matmul.h"
#include "kernels/lanes/matmul_f32.h"
#include "kernels/lanes/vectors.h"

namespace tercet::kernels::avx512 {

const Table kTable = {
    .quantize_row = &QuantizeRowLanes,
    .matmul = &MatmulLanes,
    .matmul_f32 = &MatmulF32Lanes,
    .rms_norm = &RmsNormLanes,
    .rope = &RopeLanes,
    .silu_mul = &SiluMulLanes,
    .gelu_tanh_mul = &GeluTanhMulLanes,
    .attend_chunk = &AttendChunkLanes,
    .merge_chunks = &MergeChunksLanes,
    .store_kv = &StoreKvLanes,
    .add_into = &AddIntoLanes,
    .scale = &ScaleLanes,
    .max_index = &MaxIndexLanes,
    .log_sum_exp = &LogSumExpLanes,
    .collect_at_least = &CollectAtLeastLanes,
    .exp = &ExpEachLanes,
};

}  // namespace tercet::kernels::avx512
