// The matmul over the shapes of a 135M model, per format and number of rows.
//
// Counters: MAC/cycle per core (against the clock given by TERCET_GHZ, default 2.45) and GB/s of packed weights. A matrix is
// repeated until `bytes` of weights pass, so that "small" runs from L2 and "large" streams from memory as a decode step does.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/formats.h"
#include "kernels/matmul.h"

namespace tercet::kernels {
namespace {

double CyclesPerSecond() {
  const char* ghz = std::getenv("TERCET_GHZ");
  return (ghz == nullptr ? 2.45 : std::atof(ghz)) * 1e9;
}

// Weights of any bits with tame scales: speed does not depend on values, but NaN and denormals could disturb it.
void BM_Matmul(benchmark::State& state, Isa isa, Format format, int64_t rows, int64_t cols, int64_t m) {
  const Table* table = TableFor(isa);
  if (table == nullptr) {
    state.SkipWithError("this machine lacks the instruction set");
    return;
  }
  const size_t bytes = PackedBytes(format, rows, cols);
  std::byte* panels = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}));
  for (size_t i = 0; i < bytes; ++i) panels[i] = static_cast<std::byte>(0x11 + i % 7);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(m * cols), out(m * rows);
  for (float& v : x) v = normal(random);
  std::vector<QuantizedBlock> blocks(m * cols / 32);
  for (int64_t i = 0; i < m; ++i) table->quantize_row(&x[i * cols], cols, &blocks[i * cols / 32]);
  const PackedMatrix w = {format, rows, cols, panels};

  for (auto _ : state) {
    if (IsQuantized(format)) {
      table->matmul(w, 0, PanelCount(rows), {blocks.data(), cols / 32}, 0, m, out.data(), rows);
    } else {
      table->matmul_f32(w, 0, PanelCount(rows), x.data(), cols, 0, m, out.data(), rows);
    }
    benchmark::ClobberMemory();
  }
  const double macs = static_cast<double>(rows * cols * m) * static_cast<double>(state.iterations());
  state.counters["MAC/cycle"] = benchmark::Counter(macs / CyclesPerSecond(), benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(bytes) * static_cast<double>(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
  ::operator delete(panels, std::align_val_t{64});
}

void RegisterAll() {
  constexpr struct {
    int64_t rows, cols;
  } kShapes[] = {{576, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
  for (const Isa isa : kAllIsas) {
    if (isa == Isa::kScalar || TableFor(isa) == nullptr) continue;
    for (const Format format : kAllFormats) {
      for (const auto& shape : kShapes) {
        for (const int64_t m : {1, 2, 3, 4, 8, 16, 64, 256}) {
          if (shape.cols % BlockSize(format) != 0) continue;
          if (shape.rows == 49152 && m > 16) continue;
          const std::string name = std::string("matmul/") + IsaName(isa) + "/" + FormatName(format) + "/" +
                                   std::to_string(shape.rows) + "x" + std::to_string(shape.cols) + "/M:" + std::to_string(m);
          benchmark::RegisterBenchmark(name.c_str(), BM_Matmul, isa, format, shape.rows, shape.cols, m)
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

const bool registered = (RegisterAll(), true);

}  // namespace
}  // namespace tercet::kernels
