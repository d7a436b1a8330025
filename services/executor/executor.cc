#include "services/executor/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/dispatch.h"

namespace tercet::executor {
namespace {

// Rows of logits a step has room for, beyond one for each sequence: drafts and scored prompts use them.
constexpr uint32_t kLogitRows = 128;

uint64_t TensorBytes(const gguf::File& file) {
  uint64_t bytes = 0;
  for (const gguf::Tensor& tensor : file.tensors()) bytes += tensor.data.size();
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Load(std::unique_ptr<gguf::File> file,
                                                         const VocabularyFacts& vocabulary,
                                                         const ExecutorOptions& options, MemoryLedger& ledger,
                                                         telemetry::Metrics& metrics,
                                                         std::function<void(double)> progress) {
  if (options.max_sequences == 0 || options.max_sequences > options.max_rows) {
    return absl::InvalidArgumentError(absl::StrCat("--max-sequences ", options.max_sequences,
                                                   " must be between 1 and --max-rows (", options.max_rows,
                                                   "): each sequence needs a row of a step"));
  }
  // What the flags ask for is checked against the file's numbers first: loading takes seconds.
  absl::StatusOr<Hyperparameters> numbers = ReadHyperparameters(*file);
  if (!numbers.ok()) return numbers.status();
  uint32_t context = static_cast<uint32_t>(numbers->context_length);
  if (options.context > context) {
    return absl::InvalidArgumentError(absl::StrCat("--context ", options.context, " is more than the ", context,
                                                   " tokens that the model was made for"));
  }
  if (options.context > 0) context = options.context;
  const KvLayout layout{.layers = numbers->layers, .kv_heads = numbers->kv_heads, .head_dim = numbers->head_dim};
  // The file's size is the estimate that decides; the packed size is what is charged in the end.
  const uint64_t expected_bytes = TensorBytes(*file);
  if (absl::Status status = ledger.Charge(MemoryClass::kWeights, expected_bytes); !status.ok()) return status;
  absl::StatusOr<int32_t> pages = ChooseKvPages({.wanted_tokens = options.kv_tokens,
                                                 .context_length = context,
                                                 .page_tokens = kPageTokens,
                                                 .page_bytes = layout.PageBytes(),
                                                 .bytes_left = ledger.left()});
  if (!pages.ok()) return pages.status();

  auto executor = std::unique_ptr<Executor>(new Executor);
  executor->team_ = std::make_unique<WorkerTeam>(options.threads);
  absl::StatusOr<std::unique_ptr<Model>> model = Model::Load(*file, *executor->team_, {.progress = std::move(progress)});
  if (!model.ok()) return model.status();
  executor->model_ = *std::move(model);
  file.reset();
  ledger.Release(MemoryClass::kWeights, expected_bytes);
  if (absl::Status status = ledger.Charge(MemoryClass::kWeights, executor->model_->weight_bytes()); !status.ok()) {
    return status;
  }
  const Hyperparameters& hyper = executor->model_->hyper();

  absl::StatusOr<std::unique_ptr<PagePool>> pool = PagePool::Create(layout, *pages);
  if (!pool.ok()) return pool.status();
  executor->pool_ = *std::move(pool);
  if (absl::Status status = ledger.Charge(MemoryClass::kKv, executor->pool_->bytes()); !status.ok()) return status;
  // A sequence must fit into the pool alone: a longer one could never finish.
  context = static_cast<uint32_t>(std::min<int64_t>(context, int64_t{*pages} * kPageTokens));

  const uint32_t logit_rows = std::min(options.max_rows, std::max(options.max_sequences, kLogitRows));
  absl::StatusOr<std::unique_ptr<Forward>> forward =
      Forward::Create(*executor->model_, *executor->pool_, *executor->team_, static_cast<int32_t>(options.max_rows),
                      static_cast<int32_t>(logit_rows), static_cast<int32_t>(context));
  if (!forward.ok()) return forward.status();
  executor->forward_ = *std::move(forward);
  if (absl::Status status = ledger.Charge(MemoryClass::kBuffers, executor->forward_->buffer_bytes()); !status.ok()) {
    return status;
  }

  executor->limits_ = {.vocabulary_size = static_cast<uint32_t>(hyper.vocabulary),
                       .context_length = context,
                       .max_rows = options.max_rows,
                       .max_sequences = options.max_sequences};
  executor->metrics_ = std::make_unique<EngineMetrics>(metrics, &ledger, layout.PageBytes());
  v1::ExecutorDescription& description = executor->description_;
  description.set_model_name(hyper.model_name);
  description.set_architecture(hyper.architecture->name);
  description.set_model_hash(executor->model_->hash());
  description.set_vocabulary_fingerprint(vocabulary.fingerprint);
  description.set_vocabulary_size(executor->limits_.vocabulary_size);
  description.set_context_length(context);
  description.set_page_tokens(kPageTokens);
  description.set_total_pages(static_cast<uint32_t>(*pages));
  description.set_max_rows(options.max_rows);
  description.set_max_sequences(options.max_sequences);
  description.set_instruction_set(kernels::IsaName(kernels::ActiveIsa()));
  description.set_worker_threads(static_cast<uint32_t>(executor->team_->workers()));
  description.mutable_end_of_generation_ids()->Add(vocabulary.end_of_generation_ids.begin(),
                                                   vocabulary.end_of_generation_ids.end());
  executor->engine_ = std::make_unique<Engine>(EngineOptions{.limits = executor->limits_,
                                                             .flush = options.flush,
                                                             .end_of_generation_ids = vocabulary.end_of_generation_ids},
                                               *executor->forward_, *executor->pool_, *executor->team_,
                                               executor->metrics_.get());
  return executor;
}

}  // namespace tercet::executor
