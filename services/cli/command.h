// A subcommand of `tercet`: one file, and one row in the table of main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace tercet::cli {

// What a subcommand does once its flags are parsed: returns the exit code of the process.
using Action = std::function<int()>;

// Declares its flags on `app` and returns what to do. The variables that flags write to belong to the Action.
using DefineCommand = Action (*)(CLI::App& app);

Action DefineServe(CLI::App& app);
Action DefineRun(CLI::App& app);
Action DefineChat(CLI::App& app);
Action DefineInspect(CLI::App& app);
Action DefinePull(CLI::App& app);
Action DefineBench(CLI::App& app);

// Exit codes of every subcommand.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;        // a sentence on stderr says why
inline constexpr int kUsage = 2;          // wrong flags
inline constexpr int kInterrupted = 130;  // Ctrl-C

}  // namespace tercet::cli
