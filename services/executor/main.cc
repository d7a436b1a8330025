// tercet-executor: flags, wiring, and the way down.
#include <absl/strings/str_cat.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "common/config/machine.h"
#include "common/config/program.h"
#include "common/rpc/ready_file.h"
#include "common/rpc/server.h"
#include "common/rpc/stop.h"
#include "common/telemetry/log.h"
#include "common/text/vocabulary.h"
#include "kernels/dispatch.h"
#include "services/executor/bench_command.h"
#include "services/executor/executor.h"
#include "services/executor/service.h"

namespace tercet::executor {
namespace {

struct Flags {
  std::string listen = "127.0.0.1:7003";
  std::string metrics_listen = "127.0.0.1:8003";
  std::string model;
  int threads = 0;
  uint32_t context = 0;
  uint64_t kv_tokens = 0;
  uint32_t max_rows = 512;
  uint32_t max_sequences = 64;
  int flush_ms = 8;
  uint64_t memory_limit = 0;
  uint32_t drain_ms = 30000;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string ready_file;
};

std::optional<int> Parse(int argc, char** argv, Flags* flags) {
  config::Program program("tercet-executor",
                          "Holds a model's weights and KV memory and computes: the forward pass, the choice of tokens, the "
                          "prefix cache. One scheduler at a time drives it over gRPC (tercet.v1.Executor).");
  program.Flag(flags->listen, "--listen", "Where to serve gRPC: host:port (port 0 takes a free one) or unix:/path");
  program.Flag(flags->metrics_listen, "--metrics-listen", "Where to serve /metrics: host:port, empty for nowhere");
  program.Flag(flags->model, "--model", "Model file (GGUF)");
  program.Flag(flags->threads, "--threads", "Threads that compute; 0: the CPUs that this process may use")
      ->check(CLI::Range(0, 1024));
  program.Flag(flags->context, "--context", "Longest sequence in tokens; 0: what the model was made for");
  program.Flag(flags->kv_tokens, "--kv-tokens",
               "Tokens whose keys and values fit into memory, of all sequences and the prefix cache together; 0: at least one "
               "longest sequence or 65536, within half of the memory that the weights leave");
  program.Flag(flags->max_rows, "--max-rows", "Most tokens in one step")->check(CLI::Range(1, 8192));
  program.Flag(flags->max_sequences, "--max-sequences", "Most sequences open at a time")->check(CLI::Range(1, 8192));
  program.Flag(flags->flush_ms, "--flush-ms",
               "How long tokens are gathered before they are sent; a first token, an end and an error go at once")
      ->check(CLI::Range(0, 1000));
  program.Flag(flags->memory_limit, "--memory-limit",
               "Bytes to use at most, as 8GiB or 500MB; 0: the container's limit or the machine's memory")
      ->transform(CLI::AsSizeValue(false));
  program.Flag(flags->drain_ms, "--drain-ms", "After SIGTERM, how long open sequences may go on")
      ->check(CLI::Range(0, 86400000));
  program.Flag(flags->log_level, "--log-level", "debug, info, warn, error or off");
  program.Flag(flags->log_format, "--log-format", "text or json");
  program.Flag(flags->ready_file, "--ready-file", "File to write the addresses to, as JSON, once they are open");
  return program.Parse(argc, argv);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "tercet-executor: %s\n", std::string(status.message()).c_str());
  return 1;
}

// Everything that the model file alone can be blamed for, before anything listens.
absl::StatusOr<VocabularyFacts> CheckModel(const gguf::File& file) {
  if (absl::StatusOr<Hyperparameters> hyper = ReadHyperparameters(file); !hyper.ok()) return hyper.status();
  absl::StatusOr<std::shared_ptr<const text::Vocabulary>> vocabulary = text::Vocabulary::Load(file);
  if (!vocabulary.ok()) return vocabulary.status();
  VocabularyFacts facts;
  facts.fingerprint = (*vocabulary)->fingerprint();
  facts.end_of_generation_ids = (*vocabulary)->end_of_generation();
  return facts;
}

int Serve(const Flags& flags) {
  if (absl::Status status = telemetry::ConfigureLog("tercet-executor", flags.log_level, flags.log_format); !status.ok()) {
    return Fail(status);
  }
  if (flags.model.empty()) return Fail(absl::InvalidArgumentError("no model file was given (--model FILE)"));
  absl::StatusOr<std::unique_ptr<gguf::File>> file = gguf::File::Open(flags.model);
  if (!file.ok()) return Fail(file.status());
  absl::StatusOr<VocabularyFacts> vocabulary = CheckModel(**file);
  if (!vocabulary.ok()) {
    return Fail(absl::Status(vocabulary.status().code(), absl::StrCat(flags.model, ": ", vocabulary.status().message())));
  }

  telemetry::Metrics metrics;
  absl::StatusOr<std::string> metrics_address = metrics.Serve(flags.metrics_listen);
  if (!metrics_address.ok()) return Fail(metrics_address.status());
  prometheus::Gauge& loaded = metrics.Gauge("tercet_executor_model_loaded_ratio", "Share of the model that is loaded.");
  MemoryLedger ledger(flags.memory_limit > 0 ? flags.memory_limit : config::MemoryLimitBytes(), &metrics);

  std::unique_ptr<Executor> executor;
  rpc::Server* health = nullptr;
  ExecutorService service({.drain_ms = flags.drain_ms, .on_drain = [&health] { health->SetServing(false); }});
  absl::StatusOr<std::unique_ptr<rpc::Server>> server = rpc::Server::Start({.address = flags.listen, .services = {&service}});
  if (!server.ok()) return Fail(server.status());
  health = server->get();
  if (absl::Status status = rpc::WriteReadyFile(flags.ready_file, (*server)->address(), *metrics_address); !status.ok()) {
    return Fail(status);
  }
  log::Info("listening; the model is loading", {{"address", (*server)->address()},
                                                {"metrics", *metrics_address},
                                                {"model", flags.model}});

  // Loading has a thread of its own, so that a signal ends the process in the middle of it.
  std::atomic<bool> done{false};
  absl::Status load_status;
  std::thread loader([&] {
    const auto start = std::chrono::steady_clock::now();
    int reported = 0;
    const auto progress = [&](double share) {
      loaded.Set(share);
      const int percent = static_cast<int>(share * 100);
      service.SetLoadProgress(percent);
      if (percent >= reported + 20) log::Info("loading", {{"percent", reported = percent}});
    };
    const ExecutorOptions options{.threads = flags.threads > 0 ? flags.threads : config::UsableCpus(),
                                  .context = flags.context,
                                  .kv_tokens = flags.kv_tokens,
                                  .max_rows = flags.max_rows,
                                  .max_sequences = flags.max_sequences,
                                  .flush = std::chrono::milliseconds(flags.flush_ms)};
    absl::StatusOr<std::unique_ptr<Executor>> result =
        Executor::Load(*std::move(file), *vocabulary, options, ledger, metrics, progress);
    if (result.ok()) {
      executor = *std::move(result);
      const v1::ExecutorDescription& description = executor->description();
      loaded.Set(1);
      service.SetReady(&executor->engine(), description, executor->limits());
      health->SetServing(true);
      const auto took = std::chrono::steady_clock::now() - start;
      log::Info("serving", {{"model", description.model_name()},
                            {"architecture", description.architecture()},
                            {"isa", description.instruction_set()},
                            {"threads", description.worker_threads()},
                            {"context", description.context_length()},
                            {"kv_tokens", description.total_pages() * description.page_tokens()},
                            {"load_ms", std::chrono::duration_cast<std::chrono::milliseconds>(took).count()}});
    } else {
      load_status = result.status();
    }
    done.store(true);
    if (!load_status.ok()) rpc::RequestStop();
  });

  rpc::WaitForStop();
  if (!done.load()) {
    // Nothing is open and nothing to save.
    log::Info("stopped while the model was loading");
    std::_Exit(0);
  }
  loader.join();
  if (!load_status.ok()) {
    (*server)->Shutdown(absl::ZeroDuration());
    return Fail(absl::Status(load_status.code(), absl::StrCat(flags.model, ": ", load_status.message())));
  }

  log::Info("draining", {{"sequences", executor->engine().open_sequences()}, {"drain_ms", flags.drain_ms}});
  std::mutex mutex;
  std::condition_variable changed;
  bool empty = false;
  service.BeginDrain([&] {
    std::lock_guard lock(mutex);
    empty = true;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, std::chrono::milliseconds(flags.drain_ms), [&] { return empty; })) {
      log::Warn("the drain time is over; open sequences are cut", {{"sequences", executor->engine().open_sequences()}});
    }
  }
  service.EndOwner(absl::UnavailableError("this executor has shut down"));
  (*server)->Shutdown(absl::Seconds(1));
  executor.reset();
  log::Info("stopped");
  return 0;
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "bench") return BenchCommand(argc - 1, argv + 1);
  Flags flags;
  if (std::optional<int> code = Parse(argc, argv, &flags)) return *code;
  std::string error;
  if (!kernels::SelectIsaFromEnvironment(&error)) return Fail(absl::InvalidArgumentError(error));
  rpc::PrepareForStop();
  return Serve(flags);
}

}  // namespace
}  // namespace tercet::executor

int main(int argc, char** argv) { return tercet::executor::Main(argc, argv); }
