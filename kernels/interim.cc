#include "kernels/avx2/table.h"
#include "kernels/avx512/table.h"
#include "kernels/scalar/ops.h"
namespace tercet::kernels {
const Table avx512::kTable = scalar::kTable;
}
