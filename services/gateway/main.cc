// tercet-gateway: flags, wiring, and the way down.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/time/clock.h>
#include <sys/resource.h>

#include <csignal>
#include <iostream>

#include "common/config/program.h"
#include "common/rpc/channel.h"
#include "common/rpc/ready_file.h"
#include "common/rpc/stop.h"
#include "common/telemetry/log.h"
#include "services/gateway/backends.h"
#include "services/gateway/http/server.h"
#include "services/gateway/service.h"

namespace tercet::gateway {
namespace {

struct Flags {
  std::string listen = "127.0.0.1:8080";
  std::string metrics_listen = "127.0.0.1:9080";
  bool metrics_on_http = false;
  std::string tokenizer = "127.0.0.1:7001";
  std::string scheduler = "127.0.0.1:7002";
  std::vector<std::string> model_names;
  int http_threads = 2;
  int64_t max_body_bytes = Limits().body_bytes;
  int64_t max_connections = Limits().connections;
  int64_t max_unsent_bytes = Limits().unsent_event_bytes;
  int64_t head_timeout_ms = 10000;
  int64_t body_timeout_ms = 10000;
  int64_t idle_timeout_ms = 60000;
  int64_t write_timeout_ms = 60000;
  int64_t request_timeout_ms = 3600000;
  int64_t resume_ms = 30000;
  int64_t drain_ms = 30000;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string ready_file;
};

std::optional<int> Parse(int argc, char** argv, Flags* flags) {
  config::Program program("tercet-gateway",
                          "The HTTP door of Tercet: an OpenAI-compatible API in front of a tokenizer and a scheduler. Turns "
                          "requests into token ids, follows their sequences, and streams text back; when a service behind it "
                          "dies, running answers go on as soon as it is back.");
  program.Flag(flags->listen, "--listen", "Where to serve HTTP: host:port (port 0 takes a free one) or unix:/path");
  program.Flag(flags->metrics_listen, "--metrics-listen", "Where to serve /metrics: host:port, empty for nowhere");
  program.Switch(flags->metrics_on_http, "--metrics-on-http",
                 "Serve /metrics on --listen as well; always on when --listen is a loopback address or a Unix socket");
  program.Flag(flags->tokenizer, "--tokenizer", "Address of the tokenizer service");
  program.Flag(flags->scheduler, "--scheduler", "Address of the scheduler service");
  program.Flag(flags->model_names, "--model-name",
               "Name by which the model is served, the first one being its id; may be given several times (default: from the "
               "model file)")
      ->delimiter(',');
  program.Flag(flags->http_threads, "--http-threads", "Threads that serve HTTP")->check(CLI::Range(1, 64));
  auto amount = [&](int64_t& target, const char* flag, const char* help, int64_t low, int64_t high) {
    program.Flag(target, flag, help)->check(CLI::Range(low, high));
  };
  amount(flags->max_body_bytes, "--max-body-bytes", "Longest request body; longer ones are answered 413", 1024, 1 << 30);
  amount(flags->max_connections, "--max-connections", "Most connections at a time; more are answered 503", 1, 1000000);
  amount(flags->max_unsent_bytes, "--max-unsent-bytes",
         "Events kept for a client that does not read before its request is cancelled", 4096, 1 << 30);
  amount(flags->head_timeout_ms, "--head-timeout-ms", "Time for the headers of a request", 1, 3600000);
  amount(flags->body_timeout_ms, "--body-timeout-ms", "Time for each 16 KiB of a body", 1, 3600000);
  amount(flags->idle_timeout_ms, "--idle-timeout-ms", "Time a connection may be idle between requests", 1, 86400000);
  amount(flags->write_timeout_ms, "--write-timeout-ms", "Time in which a client must take some byte of its answer", 1, 86400000);
  amount(flags->request_timeout_ms, "--request-timeout-ms",
         "Longest life of a request; it then ends with what it has (clients may ask for less: x-request-timeout-ms)", 1,
         86400000);
  amount(flags->resume_ms, "--resume-ms", "How long a broken stream is tried to be resumed before its request fails", 0, 3600000);
  amount(flags->drain_ms, "--drain-ms", "After SIGTERM, how long running answers may go on", 0, 86400000);
  program.Flag(flags->log_level, "--log-level", "debug, info, warn, error or off");
  program.Flag(flags->log_format, "--log-format", "text or json");
  program.Flag(flags->ready_file, "--ready-file", "File to write the addresses to, as JSON, once they are open");
  return program.Parse(argc, argv);
}

// A loopback listener is read by whoever runs on this machine anyway.
bool IsLocal(const std::string& listen) {
  return absl::StartsWith(listen, "unix:") || absl::StartsWith(listen, "127.") || absl::StartsWith(listen, "localhost:") ||
         absl::StartsWith(listen, "[::1]:");
}

// Two sockets a connection at most, and some for everything else.
void RaiseFileLimit(int64_t connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  rlim_t wanted = static_cast<rlim_t>(connections) + 256;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Waits up to `longest` for SIGTERM or SIGINT.
bool WaitForSignal(absl::Duration longest) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  timespec time = absl::ToTimespec(longest);
  return sigtimedwait(&set, nullptr, &time) > 0;
}

// The first signal has come: refuse new requests, let running ones finish within the time, end the rest with an error.
void Drain(Service& service, HttpServer& server, absl::Duration longest) {
  service.BeginDrain();
  log::Info("draining", {{"running", service.running()}, {"longest_ms", absl::ToInt64Milliseconds(longest)}});
  absl::Time deadline = absl::Now() + longest;
  bool again = false;
  while (server.active_requests() > 0 && absl::Now() < deadline && !again) again = WaitForSignal(absl::Milliseconds(20));
  if (server.active_requests() > 0) {
    log::Warn(again ? "second signal: ending running requests" : "drain time is over: ending running requests",
              {{"running", service.running()}});
    service.AbortAll();
  }
  server.Stop(absl::Seconds(1));
}

int Main(int argc, char** argv) {
  rpc::PrepareForStop();
  Flags flags;
  if (std::optional<int> code = Parse(argc, argv, &flags)) return *code;
  auto fail = [](const absl::Status& status) {
    std::cerr << "tercet-gateway: " << status.message() << "\n";
    return 1;
  };
  if (absl::Status status = telemetry::ConfigureLog("gateway", flags.log_level, flags.log_format); !status.ok()) {
    return fail(status);
  }
  RaiseFileLimit(flags.max_connections);

  // A text's ids, as numbers on the wire, can be three times as long as the text.
  constexpr size_t kMaxTokenizerReply = 100 << 20;
  auto backends = std::make_shared<Backends>(
      TokenizerClient::Create(rpc::MakeChannel(flags.tokenizer, kMaxTokenizerReply)),
      SchedulerClient::Create(rpc::MakeChannel(flags.scheduler)), ModelCatalog(flags.model_names));
  backends->request_timeout = absl::Milliseconds(flags.request_timeout_ms);
  backends->resume_window = absl::Milliseconds(flags.resume_ms);
  Service service(backends, {.metrics_on_http = flags.metrics_on_http || IsLocal(flags.listen)});

  ServerOptions options;
  options.listen = flags.listen;
  options.threads = flags.http_threads;
  options.limits.body_bytes = flags.max_body_bytes;
  options.limits.connections = flags.max_connections;
  options.limits.unsent_event_bytes = flags.max_unsent_bytes;
  options.limits.head_timeout = absl::Milliseconds(flags.head_timeout_ms);
  options.limits.body_timeout = absl::Milliseconds(flags.body_timeout_ms);
  options.limits.idle_timeout = absl::Milliseconds(flags.idle_timeout_ms);
  options.limits.write_timeout = absl::Milliseconds(flags.write_timeout_ms);
  options.handler = [&service](std::shared_ptr<Exchange> exchange) { service.Handle(std::move(exchange)); };
  options.on_access = [&service](const AccessRecord& record) { service.OnAccess(record); };
  absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(std::move(options));
  if (!server.ok()) return fail(server.status());

  absl::StatusOr<std::string> metrics = backends->metrics.registry().Serve(flags.metrics_listen);
  if (!metrics.ok()) return fail(metrics.status());
  backends->scheduler->StartWatching();
  backends->tokenizer->KeepVocabulary((*server)->NewStrand());
  if (absl::Status status = rpc::WriteReadyFile(flags.ready_file, (*server)->address(), *metrics); !status.ok()) {
    return fail(status);
  }
  log::Info("serving", {{"listen", (*server)->address()},
                        {"metrics", *metrics},
                        {"tokenizer", flags.tokenizer},
                        {"scheduler", flags.scheduler}});

  while (!WaitForSignal(absl::Hours(1))) {
  }
  Drain(service, **server, absl::Milliseconds(flags.drain_ms));
  log::Info("stopped");
  return 0;
}

}  // namespace
}  // namespace tercet::gateway

int main(int argc, char** argv) { return tercet::gateway::Main(argc, argv); }
