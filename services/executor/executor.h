// The parts of an executor, put together in the order in which they need each other: worker team, weights, KV pool, forward
// pass, engine.
//
// Owns all of them. Thread safety: immutable after Load; the engine has its own rules.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/gguf/file.h"
#include "services/executor/engine.h"
#include "services/executor/engine_metrics.h"
#include "services/executor/memory_ledger.h"
#include "services/executor/model/model.h"
#include "tercet/v1/executor.pb.h"

namespace tercet::executor {

struct ExecutorOptions {
  // ≥ 1.
  int threads = 1;
  // Longest sequence in tokens; 0: what the model was made for.
  uint32_t context = 0;
  // Tokens the KV pool holds; 0: see ChooseKvPages.
  uint64_t kv_tokens = 0;
  uint32_t max_rows = 512;
  // ≤ max_rows.
  uint32_t max_sequences = 64;
  std::chrono::milliseconds flush{8};
};

// What the executor needs to know of the vocabulary.
struct VocabularyFacts {
  std::string fingerprint;  // 16 bytes
  std::vector<uint32_t> end_of_generation_ids;
};

class Executor {
 public:
  // `progress` is told the share that is loaded, 0 … 1. INVALID_ARGUMENT or UNIMPLEMENTED: the model file;
  // RESOURCE_EXHAUSTED: memory. `ledger` and `metrics` must outlive the executor.
  static absl::StatusOr<std::unique_ptr<Executor>> Load(std::unique_ptr<gguf::File> file, const VocabularyFacts& vocabulary,
                                                        const ExecutorOptions& options, MemoryLedger& ledger,
                                                        telemetry::Metrics& metrics,
                                                        std::function<void(double)> progress);

  Engine& engine() { return *engine_; }
  const v1::ExecutorDescription& description() const { return description_; }
  const PlanLimits& limits() const { return limits_; }

 private:
  Executor() = default;

  std::unique_ptr<WorkerTeam> team_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<EngineMetrics> metrics_;
  v1::ExecutorDescription description_;
  PlanLimits limits_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace tercet::executor
