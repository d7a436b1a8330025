// tercet bench: speed in-process (the executor's own bench), or over the wire through all four services.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "services/cli/command.h"
#include "services/cli/session.h"
#include "services/cli/terminal.h"

namespace tercet::cli {
namespace {

using nlohmann::json;

struct BenchFlags {
  std::string model;
  int threads = 0;
  int prompt = 512;
  int gen = 128;
  int depth = 0;
  int rounds = 0;  // 0: the executor's default; 5 over the wire
  bool json = false;
  bool through_services = false;
};

std::vector<std::string> ExecutorArguments(const BenchFlags& flags, const std::string& program, bool json) {
  std::vector<std::string> argv = {program,
                                   "bench",
                                   flags.model,
                                   fmt::format("--prompt={}", flags.prompt),
                                   fmt::format("--gen={}", flags.gen),
                                   fmt::format("--depth={}", flags.depth)};
  if (flags.threads > 0) argv.push_back(fmt::format("--threads={}", flags.threads));
  if (flags.rounds > 0) argv.push_back(fmt::format("--rounds={}", flags.rounds));
  if (json) argv.push_back("--json");
  return argv;
}

std::vector<char*> Pointers(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Becomes the executor's bench.
absl::Status BenchInProcess(const BenchFlags& flags) {
  auto program = SiblingProgram("tercet-executor");
  if (!program.ok()) return program.status();
  const std::vector<std::string> argv = ExecutorArguments(flags, *program, flags.json);
  UnblockSignalsInChild();
  execv(argv[0].c_str(), Pointers(argv).data());
  return absl::UnavailableError(fmt::format("{} cannot be executed: {}", argv[0], std::strerror(errno)));
}

// Runs the executor's bench and reads its JSON.
absl::StatusOr<json> InProcessFigures(const BenchFlags& flags) {
  auto program = SiblingProgram("tercet-executor");
  if (!program.ok()) return program.status();
  const std::vector<std::string> argv = ExecutorArguments(flags, *program, /*json=*/true);
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ResourceExhaustedError(std::strerror(errno));
  const std::vector<char*> pointers = Pointers(argv);
  const pid_t pid = fork();
  if (pid == 0) {
    UnblockSignalsInChild();
    dup2(fds[1], STDOUT_FILENO);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  close(fds[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(fds[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(size));
  close(fds[0]);
  int status = 0;
  if (pid > 0) waitpid(pid, &status, 0);
  json figures = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (pid < 0 || status != 0 || !figures.is_object()) {
    return absl::UnavailableError("the executor's bench failed; its message is above");
  }
  return figures;
}

struct WireFigures {
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  double first_token_ms = 0;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Prompts of ids that differ from the first on, so that no prefix cache helps.
json RandomPrompt(std::mt19937* random, int tokens) {
  json ids = json::array();
  for (int i = 0; i < tokens; ++i) ids.push_back(1000 + (*random)() % 20000);
  return ids;
}

absl::StatusOr<WireFigures> MeasureWire(const BenchFlags& flags, Session* session, Interrupt* interrupt) {
  std::mt19937 random(1);
  std::vector<double> prefill;
  std::vector<double> decode;
  std::vector<double> first;
  const auto ask = [&](int prompt, int gen) {
    json request = {{"model", session->model()},
                    {"prompt", RandomPrompt(&random, prompt)},
                    {"max_tokens", gen},
                    {"temperature", 0},
                    {"ignore_eos", true}};
    return StreamAnswer(
        &session->client(), session->endpoint(), "/v1/completions", request, [](std::string_view) {}, interrupt);
  };
  for (int round = 0; round < (flags.rounds > 0 ? flags.rounds : 5); ++round) {
    auto prompt = ask(flags.prompt, 1);
    if (!prompt.ok()) return prompt.status();
    prefill.push_back(flags.prompt / (prompt->first_token_ms / 1000));
    auto answer = ask(std::max(flags.depth, 1), flags.gen);
    if (!answer.ok()) return answer.status();
    decode.push_back(answer->tokens_per_s());
    first.push_back(answer->first_token_ms);
  }
  return WireFigures{Median(prefill), Median(decode), Median(first)};
}

absl::Status BenchThroughServices(const BenchFlags& flags) {
  auto inside = InProcessFigures(flags);
  if (!inside.ok()) return inside.status();
  Interrupt interrupt;
  SessionFlags session_flags;
  session_flags.threads = flags.threads;
  auto session = Session::Open(session_flags, flags.model, &interrupt);
  if (!session.ok()) return session.status();
  auto wire = MeasureWire(flags, session->get(), &interrupt);
  if (!wire.ok()) return wire.status();
  if (absl::Status closed = (*session)->Close(); !closed.ok()) return closed;

  const double decode = inside->value("decode_tokens_per_s", 0.0);
  const double prefill = inside->value("prefill_tokens_per_s", 0.0);
  const double decode_ratio = decode > 0 ? wire->decode_tokens_per_s / decode : 0;
  const double prefill_ratio = prefill > 0 ? wire->prefill_tokens_per_s / prefill : 0;
  if (flags.json) {
    json out = *inside;
    out["through_services"] = {{"prefill_tokens_per_s", wire->prefill_tokens_per_s},
                               {"decode_tokens_per_s", wire->decode_tokens_per_s},
                               {"first_token_ms", wire->first_token_ms},
                               {"prefill_ratio", prefill_ratio},
                               {"decode_ratio", decode_ratio}};
    Result("{}\n", out.dump());
    return absl::OkStatus();
  }
  Result("{:<28} {:>12} {:>18} {:>8}\n", "", "in process", "through services", "ratio");
  Result("{:<28} {:>12.1f} {:>18.1f} {:>8.3f}\n", fmt::format("prefill {} (tokens/s)", flags.prompt), prefill,
         wire->prefill_tokens_per_s, prefill_ratio);
  Result("{:<28} {:>12.1f} {:>18.1f} {:>8.3f}\n", fmt::format("decode {} (tokens/s)", flags.gen), decode,
         wire->decode_tokens_per_s, decode_ratio);
  Result("{:<28} {:>12} {:>18.1f}\n", "time to first token (ms)", "", wire->first_token_ms);
  return absl::OkStatus();
}

}  // namespace

Action DefineBench(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  app.add_option("model", flags->model, "GGUF model file")->required();
  app.add_option("--threads", flags->threads, "Worker threads; 0: as many as the machine grants")
      ->check(CLI::Range(0, 1024))
      ->envname("TERCET_THREADS");
  app.add_option("--prompt", flags->prompt, "Tokens of the prompt to measure prefill with")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--gen", flags->gen, "Tokens to generate")->capture_default_str()->check(CLI::Range(2, 1 << 20));
  app.add_option("--depth", flags->depth, "Tokens in the context before measuring decode")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--rounds", flags->rounds, "Repetitions, of which the median counts")->check(CLI::Range(1, 1000));
  app.add_flag("--json", flags->json, "One JSON object instead of a table");
  app.add_flag("--through-services", flags->through_services,
               "Start the four services and measure over HTTP, beside the same in process");
  return [flags] {
    const absl::Status status = flags->through_services ? BenchThroughServices(*flags) : BenchInProcess(*flags);
    return status.ok() ? kSuccess : Fail(status);
  };
}

}  // namespace tercet::cli
