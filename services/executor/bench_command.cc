#include "services/executor/bench_command.h"

#include <cstdio>
#include <iostream>

#include "common/config/machine.h"
#include "common/config/program.h"
#include "kernels/dispatch.h"
#include "services/executor/bench.h"

namespace tercet::executor {

int BenchCommand(int argc, char** argv) {
  BenchOptions options;
  options.threads = 0;
  config::Program program("tercet-executor bench",
                          "Measures a model on this machine: prefill, decode, and what steps of several rows cost.");
  program.app().add_option("model", options.model, "Model file (GGUF)")->required();
  program.Flag(options.threads, "--threads", "Threads that compute; 0: the CPUs that this process may use")
      ->check(CLI::Range(0, 1024));
  program.Flag(options.prompt, "--prompt", "Tokens of the prompt")->check(CLI::Range(1, 1 << 24));
  program.Flag(options.gen, "--gen", "Tokens to generate")->check(CLI::Range(1, 1 << 24));
  program.Flag(options.depth, "--depth", "Tokens before the prompt")->check(CLI::Range(0, 1 << 24));
  program.Flag(options.rounds, "--rounds", "Repetitions, of which the median counts")->check(CLI::Range(1, 1000));
  program.Switch(options.json, "--json", "One JSON object instead of a table");
  if (std::optional<int> code = program.Parse(argc, argv)) return *code;
  std::string error;
  if (!kernels::SelectIsaFromEnvironment(&error)) {
    std::fprintf(stderr, "tercet-executor bench: %s\n", error.c_str());
    return 1;
  }
  if (options.threads == 0) options.threads = config::UsableCpus();
  absl::Status status = RunBench(options, std::cout);
  if (status.ok()) return 0;
  std::fprintf(stderr, "tercet-executor bench: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace tercet::executor
