// tercet serve: the four services of one model on this machine, supervised.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "services/cli/command.h"
#include "services/cli/interrupt.h"
#include "services/cli/local_server.h"
#include "services/cli/terminal.h"

namespace tercet::cli {
namespace {

struct ServeFlags {
  std::string model;
  std::string listen = "127.0.0.1:8080";
  std::vector<std::string> model_names;
  int threads = 0;
  int metrics_port = -1;
  int drain_ms = 10000;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string log_file;
  std::string ready_file;
  std::vector<std::string> gateway;
  std::vector<std::string> tokenizer;
  std::vector<std::string> scheduler;
  std::vector<std::string> executor;
};

// Says where everything is, in one JSON line; written again after a restart, always as a whole.
absl::Status WriteReadyFile(const std::string& path, const LocalServer& server) {
  if (path.empty()) return absl::OkStatus();
  nlohmann::json said = {{"listen", server.address()}, {"pid", getpid()}};
  for (const auto& process : server.processes()) {
    said["processes"][process.name] = {
        {"pid", process.pid}, {"restarts", process.restarts}, {"listen", process.listen}, {"metrics", process.metrics}};
  }
  const std::string fresh = path + ".new";
  std::ofstream(fresh) << said.dump() << "\n";
  if (std::rename(fresh.c_str(), path.c_str()) != 0) {
    return absl::UnavailableError(fmt::format("{} cannot be written (--ready-file)", path));
  }
  return absl::OkStatus();
}

void AddExtra(const std::string& process, const std::vector<std::string>& flags, LocalServerOptions* options) {
  for (const std::string& flag : flags) {
    options->extra_flags.emplace_back(process, flag.rfind("--", 0) == 0 ? flag : "--" + flag);
  }
}

int Serve(const ServeFlags& flags) {
  // Owned by the callback below; stderr unless a file is named.
  std::shared_ptr<std::ofstream> log;
  if (!flags.log_file.empty()) {
    log = std::make_shared<std::ofstream>(flags.log_file, std::ios::app);
    if (!*log) return Fail(absl::UnavailableError(fmt::format("{} cannot be written (--log-file)", flags.log_file)));
  }
  LocalServerOptions options;
  options.model = flags.model;
  options.listen = flags.listen;
  options.model_names = flags.model_names;
  options.threads = flags.threads;
  if (flags.metrics_port >= 0) options.metrics_port = flags.metrics_port;
  options.drain_ms = flags.drain_ms;
  options.log_level = flags.log_level;
  options.log_format = flags.log_format;
  AddExtra("gateway", flags.gateway, &options);
  AddExtra("tokenizer", flags.tokenizer, &options);
  AddExtra("scheduler", flags.scheduler, &options);
  AddExtra("executor", flags.executor, &options);
  options.on_line = [log](const std::string& name, const std::string& line) {
    // Log records name their process; anything else (a crash report, say) gets the name here.
    const bool record = SentenceOf(line) != line || (!line.empty() && line.front() == '{');
    const std::string shown = fmt::format("{}{}\n", record ? "" : name + ": ", line);
    if (log) {
      *log << shown << std::flush;
    } else {
      WriteNote(shown);
    }
  };
  options.on_event = [](const std::string& sentence) { Note("tercet: {}\n", sentence); };
  LocalServer* running = nullptr;
  std::atomic<bool> restarted{false};
  options.on_restart = [&restarted] { restarted = true; };

  Interrupt interrupt;
  auto server = LocalServer::Start(std::move(options));
  if (!server.ok()) return Fail(server.status());
  running = server->get();
  if (absl::Status ready = running->WaitReady(&interrupt); !ready.ok()) {
    if (absl::IsCancelled(ready)) return running->Stop().ok() ? kSuccess : kFailure;
    // The others end first, so that the reason is the last line.
    running->Kill();
    running->Stop().IgnoreError();
    return Fail(ready);
  }
  if (absl::Status written = WriteReadyFile(flags.ready_file, *running); !written.ok()) {
    return Fail(written);
  }
  Note("tercet: serving {} at {}/v1 (Ctrl-C stops)\n", flags.model, running->address());
  for (const auto& process : running->processes()) {
    if (!process.metrics.empty()) Note("tercet: {} metrics at http://{}/metrics\n", process.name, process.metrics);
  }

  while (interrupt.WaitFor(std::chrono::milliseconds(200)) == 0) {
    if (!restarted.exchange(false)) continue;
    if (absl::Status written = WriteReadyFile(flags.ready_file, *running); !written.ok()) Fail(written);
  }
  Note("tercet: finishing what runs, at most {} ms (Ctrl-C again stops at once)\n", flags.drain_ms);
  std::atomic<bool> ended{false};
  std::atomic<bool> killed{false};
  std::thread second([&] {
    while (!ended) {
      if (interrupt.WaitFor(std::chrono::milliseconds(50)) == 0) continue;
      killed = true;
      running->Kill();
    }
  });
  const absl::Status stopped = running->Stop();
  ended = true;
  second.join();
  if (killed) return kInterrupted;
  return stopped.ok() ? kSuccess : Fail(stopped);
}

}  // namespace

Action DefineServe(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  app.add_option("model", flags->model, "GGUF model file")->required();
  app.add_option("--listen", flags->listen, "Where to serve HTTP: host:port (port 0 takes a free one) or unix:/path")
      ->capture_default_str()
      ->envname("TERCET_LISTEN");
  app.add_option(
         "--model-name", flags->model_names,
         "Name by which the model is served (default: the file's name without .gguf); repeatable, the first is its id")
      ->allow_extra_args(false)
      ->envname("TERCET_MODEL_NAME");
  app.add_option("--threads", flags->threads, "Worker threads; 0: as many as the machine grants")
      ->check(CLI::Range(0, 1024))
      ->envname("TERCET_THREADS");
  app.add_option(
         "--metrics-port", flags->metrics_port,
         "Serve each process's /metrics on 127.0.0.1, at this port (gateway) and the next three (tokenizer, scheduler, "
         "executor); 0 takes free ports")
      ->check(CLI::Range(0, 65532))
      ->envname("TERCET_METRICS_PORT");
  app.add_option("--drain-ms", flags->drain_ms, "How long running requests may take to finish when stopped")
      ->capture_default_str()
      ->check(CLI::Range(0, 86400000))
      ->envname("TERCET_DRAIN_MS");
  app.add_option("--log-level", flags->log_level, "debug, info, warn, error or off")
      ->capture_default_str()
      ->envname("TERCET_LOG_LEVEL");
  app.add_option("--log-format", flags->log_format, "text or json")
      ->capture_default_str()
      ->envname("TERCET_LOG_FORMAT");
  app.add_option("--log-file", flags->log_file, "Append the services' logs to this file instead of stderr")
      ->envname("TERCET_LOG_FILE");
  app.add_option("--ready-file", flags->ready_file, "Write addresses and process ids to this file, as JSON, once ready")
      ->envname("TERCET_READY_FILE");
  app.add_option("--gateway", flags->gateway, "Pass a flag to the gateway: --gateway max-connections=100; repeatable")
      ->allow_extra_args(false);
  app.add_option("--tokenizer", flags->tokenizer, "Pass a flag to the tokenizer; repeatable")->allow_extra_args(false);
  app.add_option("--scheduler", flags->scheduler, "Pass a flag to the scheduler; repeatable")->allow_extra_args(false);
  app.add_option("--executor", flags->executor, "Pass a flag to the executor: --executor kv-tokens=8192; repeatable")
      ->allow_extra_args(false);
  return [flags] { return Serve(*flags); };
}

}  // namespace tercet::cli
