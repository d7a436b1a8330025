#include "services/executor/bench.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "common/gguf/file.h"
#include "kernels/dispatch.h"
#include "kernels/reduce.h"
#include "services/executor/forward/forward.h"

namespace tercet::executor {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

constexpr int32_t kMaxRows = 512;
constexpr int kVerifyRows[] = {1, 2, 4, 5, 8, 9, 16};
constexpr int kMostVerifyRows = 16;

double Milliseconds(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string MachineName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// Gigabytes a second when every worker reads its share of `bytes`.
double ReadBandwidth(WorkerTeam& team, size_t bytes) {
  absl::StatusOr<HugeBuffer> buffer = HugeBuffer::Allocate(bytes);
  if (!buffer.ok()) return 0;
  int64_t words = static_cast<int64_t>(bytes / sizeof(uint64_t));
  auto* data = reinterpret_cast<uint64_t*>(buffer->data());
  std::vector<double> speeds;
  std::vector<uint64_t> sums(static_cast<size_t>(team.workers()) * 16);
  for (int round = 0; round < 8; ++round) {
    Clock::time_point start = Clock::now();
    team.Run([&](int worker, int workers) {
      Share share = ShareOf(words, worker, workers);
      if (round == 0) std::memset(data + share.begin, 1, (share.end - share.begin) * sizeof(uint64_t));
      uint64_t sum[8] = {};
      int64_t i = share.begin;
      for (; i + 8 <= share.end; i += 8) {
        __builtin_prefetch(data + i + 512);
        for (int j = 0; j < 8; ++j) sum[j] += data[i + j];
      }
      for (int j = 0; j < 8; ++j) sums[worker * 16 + j] = sum[j];
    });
    if (round > 0) speeds.push_back(static_cast<double>(bytes) / 1e6 / Milliseconds(Clock::now() - start));
  }
  return *std::max_element(speeds.begin(), speeds.end());
}

// Bytes of packed weights by format, in the order of formats.
ordered_json FormatMix(const Model& model) {
  std::map<kernels::Format, size_t> bytes;
  auto add = [&](const kernels::PackedMatrix& m) { bytes[m.format] += kernels::PackedBytes(m.format, m.rows, m.cols); };
  for (const Layer& layer : model.layers()) {
    for (const kernels::PackedMatrix* m : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) add(*m);
  }
  add(model.head());
  ordered_json mix;
  for (const auto& [format, size] : bytes) mix[kernels::FormatName(format)] = size;
  return mix;
}

class Bench {
 public:
  Bench(const BenchOptions& options) : options_(options), team_(options.threads) {}

  absl::Status Load() {
    absl::StatusOr<std::unique_ptr<gguf::File>> file = gguf::File::Open(options_.model);
    if (!file.ok()) return file.status();
    Clock::time_point start = Clock::now();
    absl::StatusOr<std::unique_ptr<Model>> model = Model::Load(**file, team_, {});
    if (!model.ok()) return absl::Status(model.status().code(), absl::StrCat(options_.model, ": ", model.status().message()));
    model_ = *std::move(model);
    load_ms_ = Milliseconds(Clock::now() - start);
    const Hyperparameters& h = model_->hyper();
    int64_t tokens = int64_t{options_.depth} + std::max({options_.prompt, options_.gen, kMostVerifyRows});
    if (tokens > h.context_length) {
      return absl::InvalidArgumentError(absl::StrCat("--depth with --prompt or --gen makes ", tokens, " tokens; ", h.model_name,
                                                     " has a context of ", h.context_length));
    }
    int32_t pages = static_cast<int32_t>(tokens / kPageTokens + 1);
    absl::StatusOr<std::unique_ptr<PagePool>> pool = PagePool::Create({h.layers, h.kv_heads, h.head_dim}, pages);
    if (!pool.ok()) return pool.status();
    pool_ = *std::move(pool);
    absl::StatusOr<std::unique_ptr<Forward>> forward =
        Forward::Create(*model_, *pool_, team_, kMaxRows, kMostVerifyRows, static_cast<int32_t>(tokens));
    if (!forward.ok()) return forward.status();
    forward_ = *std::move(forward);
    table_ = std::make_unique<BlockTable>(*pool_);
    for (int32_t page = 0; page < pages; ++page) {
      if (absl::Status status = table_->AppendNew(); !status.ok()) return status;
    }
    std::mt19937 random(1);
    for (int64_t i = 0; i < tokens; ++i) ids_.push_back(static_cast<uint32_t>(random()) % static_cast<uint32_t>(h.vocabulary));
    return absl::OkStatus();
  }

  absl::StatusOr<ordered_json> Measure() {
    // Fills the depth and warms up.
    if (absl::Status status = Pass(0, options_.depth, 0); !status.ok()) return status;
    for (Clock::time_point until = Clock::now() + std::chrono::milliseconds(300); Clock::now() < until;) {
      if (absl::Status status = Pass(options_.depth, 1, 1); !status.ok()) return status;
    }
    std::vector<double> prefill, decode;
    PhaseTimes phases{};
    int steps = 0;
    for (int round = 0; round < options_.rounds; ++round) {
      Clock::time_point start = Clock::now();
      if (absl::Status status = Pass(options_.depth, options_.prompt, 1); !status.ok()) return status;
      prefill.push_back(options_.prompt / Milliseconds(Clock::now() - start) * 1000);
      start = Clock::now();
      for (int i = 0; i < options_.gen; ++i, ++steps) {
        if (absl::Status status = Pass(options_.depth + i, 1, 1); !status.ok()) return status;
        std::span<const float> logits = forward_->Logits(0);
        best_ += kernels::MaxIndex(logits.data(), static_cast<int64_t>(logits.size()));
        for (size_t phase = 0; phase < phases.size(); ++phase) phases[phase] += forward_->times()[phase];
      }
      decode.push_back(options_.gen / Milliseconds(Clock::now() - start) * 1000);
    }

    // All numbers of rows in turn, so that a disturbance meets all of them.
    std::map<int, std::vector<double>> verify;
    for (int round = 0; round < 8 * options_.rounds; ++round) {
      for (int rows : kVerifyRows) {
        Clock::time_point start = Clock::now();
        if (absl::Status status = Pass(options_.depth, rows, rows); !status.ok()) return status;
        verify[rows].push_back(Milliseconds(Clock::now() - start));
      }
    }
    std::map<int, double> cost;
    for (const auto& [rows, times] : verify) cost[rows] = Median(times);

    const Hyperparameters& h = model_->hyper();
    ordered_json result;
    result["model"] = h.model_name;
    result["architecture"] = h.architecture->name;
    result["machine"] = MachineName();
    result["isa"] = kernels::IsaName(kernels::ActiveIsa());
    result["threads"] = team_.workers();
    result["prompt"] = options_.prompt;
    result["gen"] = options_.gen;
    result["depth"] = options_.depth;
    result["prefill_tokens_per_s"] = Median(prefill);
    result["decode_tokens_per_s"] = Median(decode);
    for (int rows : {1, 2, 4, 8, 16}) result["step_ms"][std::to_string(rows)] = cost[rows];
    for (int drafts : {4, 8}) result["b_star"][std::to_string(drafts)] = cost[drafts + 1] / cost[1];
    result["read_gb_per_s"] = ReadBandwidth(team_, model_->bytes_per_token());
    result["bytes_per_token"] = model_->bytes_per_token();
    result["weights_gb_per_s"] = static_cast<double>(model_->bytes_per_token()) * Median(decode) / 1e9;
    for (size_t phase = 0; phase < phases.size(); ++phase) {
      result["phase_us"][PhaseName(static_cast<Phase>(phase))] = phases[phase] / steps;
    }
    result["formats"] = FormatMix(*model_);
    result["load_ms"] = load_ms_;
    return result;
  }

 private:
  // `count` tokens from `first` on; logits of the last `wanted`.
  absl::Status Pass(int32_t first, int32_t count, int32_t wanted) {
    for (int32_t done = 0; done < count;) {
      int32_t rows = std::min(kMaxRows, count - done);
      int32_t from = done + rows == count ? std::max(rows - wanted, 0) : rows;
      ForwardSpan span{table_.get(), std::span(ids_).subspan(first + done, rows), first + done, from};
      if (absl::Status status = forward_->Run({&span, 1}); !status.ok()) return status;
      done += rows;
    }
    return absl::OkStatus();
  }

  const BenchOptions options_;
  WorkerTeam team_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<BlockTable> table_;
  std::vector<uint32_t> ids_;
  int64_t best_ = 0;  // keeps the search for the best token alive
  double load_ms_ = 0;
};

void WriteTable(const ordered_json& r, std::ostream& out) {
  out << absl::StrFormat("%s (%s) on %s, %s, %d threads, depth %d\n", r["model"].get<std::string>(),
                         r["architecture"].get<std::string>(), r["machine"].get<std::string>(), r["isa"].get<std::string>(),
                         r["threads"].get<int>(), r["depth"].get<int>());
  out << absl::StrFormat("  prefill of %-5d   %10.1f tokens/s\n", r["prompt"].get<int>(), r["prefill_tokens_per_s"].get<double>());
  out << absl::StrFormat("  decode of %-5d    %10.1f tokens/s   (%.1f of %.1f GB/s)\n", r["gen"].get<int>(),
                         r["decode_tokens_per_s"].get<double>(), r["weights_gb_per_s"].get<double>(),
                         r["read_gb_per_s"].get<double>());
  out << "  rows of a step     ";
  for (const auto& [rows, ms] : r["step_ms"].items()) out << absl::StrFormat("%10s", rows);
  out << "\n  ms                 ";
  for (const auto& [rows, ms] : r["step_ms"].items()) out << absl::StrFormat("%10.2f", ms.get<double>());
  out << "\n  B* with drafts     ";
  for (const auto& [drafts, ratio] : r["b_star"].items()) out << absl::StrFormat("  %s: %.2f", drafts, ratio.get<double>());
  out << "\n  a decode step, us  ";
  for (const auto& [phase, us] : r["phase_us"].items()) out << absl::StrFormat("  %s %.0f", phase, us.get<double>());
  out << "\n  weights, MB        ";
  for (const auto& [format, bytes] : r["formats"].items()) out << absl::StrFormat("  %s %.1f", format, bytes.get<double>() / 1e6);
  out << "\n";
}

}  // namespace

absl::Status RunBench(const BenchOptions& options, std::ostream& out) {
  if (options.threads < 1 || options.prompt < 1 || options.gen < 1 || options.depth < 0 || options.rounds < 1) {
    return absl::InvalidArgumentError("threads, prompt, gen and rounds must be at least 1, depth at least 0");
  }
  Bench bench(options);
  if (absl::Status status = bench.Load(); !status.ok()) return status;
  absl::StatusOr<ordered_json> result = bench.Measure();
  if (!result.ok()) return result.status();
  if (options.json) {
    out << result->dump(2) << "\n";
  } else {
    WriteTable(*result, out);
  }
  return absl::OkStatus();
}

}  // namespace tercet::executor
