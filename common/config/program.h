// The command line of a Tercet process.
//
// Every flag `--some-flag` can also be set as TERCET_SOME_FLAG in the environment or as `some-flag = value` in the file
// named by --config (INI or TOML); the command line wins over the environment, which wins over the file. An unknown key in
// the file is an error, like an unknown flag.
//
// Not thread-safe; used by main() before any thread starts.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace tercet::config {

class Program {
 public:
  // `name` is the program's name, `about` a paragraph for --help.
  Program(const std::string& name, const std::string& about);

  // Declares `--flag`, whose default is the present value of `target`. `flag` is written with its dashes.
  template <typename T>
  CLI::Option* Flag(T& target, const std::string& flag, const std::string& help) {
    return Decorate(app_.add_option(flag, target, help)->capture_default_str(), flag);
  }

  // Declares a switch: `--flag` turns it on.
  CLI::Option* Switch(bool& target, const std::string& flag, const std::string& help);

  // Parses. Returns the exit code when the program is to end at once: 0 after --help or --version, 2 after an error, of
  // which one sentence has been printed to stderr.
  std::optional<int> Parse(int argc, char** argv);

  // For subcommands and positional arguments.
  CLI::App& app() { return app_; }

 private:
  void DeclareConfig(const std::string& path);
  CLI::Option* Decorate(CLI::Option* option, const std::string& flag);

  CLI::App app_;
};

// "--max-rows" → "TERCET_MAX_ROWS".
std::string EnvironmentName(const std::string& flag);

}  // namespace tercet::config
