// tercet: the command line. One row a subcommand; each is a file of its own.
#include <cstdlib>

#include "common/config/program.h"
#include "services/cli/command.h"
#include "services/cli/interrupt.h"

namespace {

struct Row {
  const char* name;
  const char* about;
  tercet::cli::DefineCommand define;
};

constexpr Row kCommands[] = {
    {"run", "Answer one prompt and end", tercet::cli::DefineRun},
    {"chat", "Talk with a model", tercet::cli::DefineChat},
    {"serve", "Serve a model over HTTP (OpenAI's interface), with four supervised processes", tercet::cli::DefineServe},
    {"pull", "Fetch a model file", tercet::cli::DefinePull},
    {"inspect", "Show what is in a model file, and the memory it needs", tercet::cli::DefineInspect},
    {"bench", "Measure the speed of a model on this machine", tercet::cli::DefineBench},
};

}  // namespace

int main(int argc, char** argv) {
  tercet::cli::BlockSignals();
  tercet::config::Program program("tercet", "Large language models on CPUs: same request, same answer, at any load.");
  program.app().require_subcommand(1);
  tercet::cli::Action action;
  for (const Row& row : kCommands) {
    CLI::App* command = program.app().add_subcommand(row.name, row.about);
    tercet::cli::Action run = row.define(*command);
    command->callback([&action, run = std::move(run)] { action = run; });
  }
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  // It named a file for this program; the services that are started inherit the environment and would refuse its keys.
  unsetenv("TERCET_CONFIG");
  return action();
}
