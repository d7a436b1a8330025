// tercet run: one answer, on stdout.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <iterator>
#include <memory>
#include <utility>

#include "services/cli/command.h"
#include "services/cli/session.h"
#include "services/cli/terminal.h"

namespace tercet::cli {
namespace {

struct RunFlags {
  std::string model;
  std::string prompt;
  std::string system;
  bool raw = false;
  bool statistics = false;
  SamplingFlags sampling;
  SessionFlags session;
};

// The prompt: the argument, or all of standard input for "-" and for no argument when something is piped in.
absl::StatusOr<std::string> ReadPrompt(const std::string& argument) {
  if (!argument.empty() && argument != "-") return argument;
  if (argument.empty() && isatty(STDIN_FILENO) == 1) {
    return absl::InvalidArgumentError("a prompt is needed: as an argument, or on standard input");
  }
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

int Run(RunFlags flags) {
  if (!flags.session.url.empty() && flags.prompt.empty()) {
    // With --url there is no model file: the one argument is the prompt.
    flags.prompt = std::exchange(flags.model, {});
  } else if (flags.session.url.empty() && flags.model.empty()) {
    return Fail(absl::InvalidArgumentError("a model file is needed (or --url of a running server)"));
  }
  absl::StatusOr<std::string> prompt = ReadPrompt(flags.prompt);
  if (!prompt.ok()) return Fail(prompt.status());

  Interrupt interrupt;
  auto session = Session::Open(flags.session, flags.model, &interrupt);
  if (!session.ok()) return Fail(session.status());
  nlohmann::json request = {{"model", (*session)->model()}};
  flags.sampling.AddTo(&request);
  if (flags.raw) {
    request["prompt"] = *prompt;
  } else {
    request["messages"] = nlohmann::json::array();
    if (!flags.system.empty()) request["messages"].push_back({{"role", "system"}, {"content", flags.system}});
    request["messages"].push_back({{"role", "user"}, {"content", *prompt}});
  }
  bool newline_needed = false;
  auto statistics = StreamAnswer(
      &(*session)->client(), (*session)->endpoint(), flags.raw ? "/v1/completions" : "/v1/chat/completions",
      std::move(request),
      [&](std::string_view text) {
        newline_needed = text.back() != '\n';
        WriteText(text);
      },
      &interrupt);
  // A pipe gets exactly the text; a terminal gets a fresh line for its prompt.
  if (newline_needed && StdoutIsTerminal()) WriteText("\n");
  if (!statistics.ok()) return Fail(statistics.status());
  if (flags.statistics || (StdoutIsTerminal() && StderrIsTerminal())) Note("{}\n", statistics->ToString());
  if (absl::Status closed = (*session)->Close(); !closed.ok()) return Fail(closed);
  return kSuccess;
}

}  // namespace

Action DefineRun(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  app.add_option("model", flags->model, "GGUF model file (left out with --url)");
  app.add_option("prompt", flags->prompt, "What to ask; '-' or nothing reads standard input");
  app.add_option("--system", flags->system, "System message");
  app.add_flag("--raw", flags->raw, "Continue the prompt as it is, without the model's chat template");
  app.add_flag("--stats", flags->statistics, "Show times and token counts on stderr (a terminal always gets them)");
  AddSamplingFlags(&app, &flags->sampling);
  flags->session.AddTo(&app);
  return [flags] { return Run(*flags); };
}

}  // namespace tercet::cli
