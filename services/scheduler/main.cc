// tercet-scheduler: admission, batching, and the choice of an executor.
#include <absl/strings/str_split.h>

#include <iostream>

#include "common/config/program.h"
#include "common/rpc/ready_file.h"
#include "common/rpc/server.h"
#include "common/rpc/stop.h"
#include "common/telemetry/log.h"
#include "common/telemetry/metrics.h"
#include "services/scheduler/service.h"

namespace {

int Fail(const absl::Status& status) {
  std::cerr << "tercet-scheduler: " << status.message() << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tercet;
  rpc::PrepareForStop();

  std::string listen = "127.0.0.1:7002", metrics_listen = "127.0.0.1:8002", executors = "127.0.0.1:7003";
  std::string log_level = "info", log_format = "text", ready_file;
  scheduler::ServiceOptions options;
  scheduler::SchedulerOptions& limits = options.scheduler;
  config::Program program("tercet-scheduler",
                          "Takes requests as token ids, queues them, batches them onto executors, and streams the tokens "
                          "back. Keeps only soft state: executors are leased, and a request can go on elsewhere.");
  program.Flag(listen, "--listen", "Address of the gRPC server: host:port (port 0 takes a free one) or unix:/path");
  program.Flag(metrics_listen, "--metrics-listen", "Address of /metrics: host:port, or empty for none");
  program.Flag(executors, "--executors", "Addresses of executors, separated by commas");
  program.Flag(limits.max_queued_requests, "--max-queued-requests", "Requests that may wait")
      ->check(CLI::Range(1, 1 << 20));
  program.Flag(limits.max_queued_tokens, "--max-queued-tokens", "Prompt tokens that may wait, of all requests together")
      ->check(CLI::Range(1, 1 << 30));
  program.Flag(limits.max_deadline_ms, "--max-deadline-ms", "Longest time for a request, in milliseconds")
      ->check(CLI::Range(1, 7 * 86400000));
  program.Flag(limits.no_executor_ms, "--no-executor-ms", "How long new requests wait while no executor is there")
      ->check(CLI::Range(0, 86400000));
  program.Flag(limits.batch.prefill_chunk_idle, "--prefill-chunk", "Most prompt tokens in a step")
      ->check(CLI::Range(1, 1 << 20));
  program.Flag(limits.batch.prefill_chunk_busy, "--prefill-chunk-busy", "The same while sequences decode")
      ->check(CLI::Range(1, 1 << 20));
  program.Flag(limits.batch.free_steps, "--free-steps", "Steps an executor may take without a new plan")
      ->check(CLI::Range(0, 4096));
  program.Flag(options.drain_ms, "--drain-ms", "Time for running requests to finish after SIGTERM, in milliseconds")
      ->check(CLI::Range(0, 86400000));
  program.Flag(log_level, "--log-level", "debug, info, warn, error or off");
  program.Flag(log_format, "--log-format", "text or json");
  program.Flag(ready_file, "--ready-file", "Write the addresses in use to this file once listening");
  if (std::optional<int> code = program.Parse(argc, argv)) return *code;
  if (absl::Status status = telemetry::ConfigureLog("tercet-scheduler", log_level, log_format); !status.ok()) {
    return Fail(status);
  }
  std::vector<std::string> addresses = absl::StrSplit(executors, absl::ByAnyChar(", "), absl::SkipEmpty());
  if (addresses.empty()) return Fail(absl::InvalidArgumentError("--executors names no executor"));

  telemetry::Metrics metrics;
  scheduler::SchedulerMetrics scheduler_metrics(metrics);
  absl::StatusOr<std::string> metrics_address = metrics.Serve(metrics_listen);
  if (!metrics_address.ok()) return Fail(metrics_address.status());
  rpc::Server* health = nullptr;
  scheduler::SchedulerService service(options, scheduler_metrics, [&health](bool ready) { health->SetServing(ready); });
  absl::StatusOr<std::unique_ptr<rpc::Server>> server = rpc::Server::Start({.address = listen, .services = {&service}});
  if (!server.ok()) return Fail(server.status());
  if (absl::Status status = rpc::WriteReadyFile(ready_file, (*server)->address(), *metrics_address); !status.ok()) {
    return Fail(status);
  }
  health = server->get();
  service.Connect(addresses);
  log::Info("listening", {{"address", health->address()}, {"metrics", *metrics_address}});

  rpc::WaitForStop();
  log::Info("draining", {{"ms", options.drain_ms}});
  service.StartDraining();
  bool idle = service.WaitUntilIdle(options.drain_ms);
  health->Shutdown(absl::ZeroDuration());
  log::Info("stopped", {{"all_finished", idle}});
  return 0;
}
