#include "kernels/table.h"

#include "kernels/scalar/ops.h"

namespace tercet::kernels::scalar {

const Table kTable = {
    .quantize_row = &QuantizeRow,
    .matmul = &Matmul,
    .matmul_f32 = &MatmulF32,
    .rms_norm = &RmsNorm,
    .rope = &Rope,
    .silu_mul = &SiluMul,
    .gelu_tanh_mul = &GeluTanhMul,
    .attend_chunk = &AttendChunk,
    .merge_chunks = &MergeChunks,
    .store_kv = &StoreKv,
    .add_into = &AddInto,
    .scale = &Scale,
    .max_index = &MaxIndex,
    .log_sum_exp = &LogSumExp,
    .collect_at_least = &CollectAtLeast,
    .exp = &ExpEach,
};

}  // namespace tercet::kernels::scalar
