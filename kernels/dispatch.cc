#include "kernels/dispatch.h"

#include <atomic>
#include <cstdlib>

#include "kernels/activation.h"
#include "kernels/avx2/table.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"
#include "kernels/scalar/ops.h"

namespace tercet::kernels {

namespace {

bool Supported(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
             __builtin_cpu_supports("bmi2");
    case Isa::kAvx512:
      // It has no kernels yet: a machine with AVX-512 runs those for AVX2.
      return false;
  }
  return false;
}

struct Selection {
  Isa isa;
  const Table* table;
};

Selection SelectionOf(Isa isa) { return {isa, TableFor(isa)}; }

// Points to one of three constants, so a reader never sees half a selection.
const Selection* Constant(Isa isa) {
  static const Selection selections[] = {SelectionOf(Isa::kScalar), SelectionOf(Isa::kAvx2), SelectionOf(Isa::kAvx512)};
  return &selections[static_cast<int>(isa)];
}

std::atomic<const Selection*> selected{nullptr};

const Selection& Selected() {
  const Selection* selection = selected.load(std::memory_order_acquire);
  if (selection == nullptr) {
    std::string error;
    if (!SelectIsaFromEnvironment(&error)) SelectIsa("", &error);
    selection = selected.load(std::memory_order_acquire);
  }
  return *selection;
}

const Table& Active() { return *Selected().table; }

}  // namespace

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

const Table* TableFor(Isa isa) {
  if (!Supported(isa)) return nullptr;
  switch (isa) {
    case Isa::kScalar:
      return &scalar::kTable;
    case Isa::kAvx2:
      return &avx2::kTable;
    case Isa::kAvx512:
      break;
  }
  return nullptr;
}

Isa DetectIsa() {
  if (Supported(Isa::kAvx512)) return Isa::kAvx512;
  if (Supported(Isa::kAvx2)) return Isa::kAvx2;
  return Isa::kScalar;
}

Isa ActiveIsa() { return Selected().isa; }

bool SelectIsa(std::string_view name, std::string* error) {
  if (name.empty()) {
    selected.store(Constant(DetectIsa()), std::memory_order_release);
    return true;
  }
  for (const Isa isa : kAllIsas) {
    if (name != IsaName(isa)) continue;
    if (!Supported(isa)) {
      *error = "TERCET_ISA: this machine has no " + std::string(name) + "; the best it has is " + IsaName(DetectIsa());
      return false;
    }
    selected.store(Constant(isa), std::memory_order_release);
    return true;
  }
  *error = "TERCET_ISA: \"" + std::string(name) + "\" is not an instruction set; name scalar, avx2 or avx512";
  return false;
}

bool SelectIsaFromEnvironment(std::string* error) {
  const char* name = std::getenv("TERCET_ISA");
  return SelectIsa(name == nullptr ? "" : name, error);
}

void QuantizeRow(const float* x, int64_t cols, QuantizedBlock* out) { Active().quantize_row(x, cols, out); }

void Matmul(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const QuantizedRows& x, int64_t row_begin,
            int64_t row_end, float* out, int64_t out_stride) {
  Active().matmul(w, panel_begin, panel_end, x, row_begin, row_end, out, out_stride);
}

void MatmulF32(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const float* x, int64_t x_stride,
               int64_t row_begin, int64_t row_end, float* out, int64_t out_stride) {
  Active().matmul_f32(w, panel_begin, panel_end, x, x_stride, row_begin, row_end, out, out_stride);
}

void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  Active().rms_norm(x, weight, n, eps, out);
}

void Rope(float* head, int64_t rotary_dim, const float* cos, const float* sin, RopeStyle style) {
  Active().rope(head, rotary_dim, cos, sin, style);
}

void SiluMul(const float* gate, const float* up, int64_t n, float* out) { Active().silu_mul(gate, up, n, out); }

void GeluTanhMul(const float* gate, const float* up, int64_t n, float* out) {
  Active().gelu_tanh_mul(gate, up, n, out);
}

void AttendChunk(const AttentionChunk& chunk) { Active().attend_chunk(chunk); }

void MergeChunks(int64_t chunks, const float* max, const float* sum, const float* const* out, int64_t head_dim,
                 float* result) {
  Active().merge_chunks(chunks, max, sum, out, head_dim, result);
}

void StoreKv(const float* k, const float* v, int64_t head_dim, int64_t slot, uint16_t* k_page, uint16_t* v_page) {
  Active().store_kv(k, v, head_dim, slot, k_page, v_page);
}

void AddInto(float* dst, const float* src, int64_t n) { Active().add_into(dst, src, n); }

void Scale(float* dst, float factor, int64_t n) { Active().scale(dst, factor, n); }

int64_t MaxIndex(const float* x, int64_t n) { return Active().max_index(x, n); }

float LogSumExp(const float* x, int64_t n) { return Active().log_sum_exp(x, n); }

int64_t CollectAtLeast(const float* logits, int64_t begin, int64_t n, float threshold, Candidate* out, int64_t room,
                       int64_t* next) {
  return Active().collect_at_least(logits, begin, n, threshold, out, room, next);
}

}  // namespace tercet::kernels
