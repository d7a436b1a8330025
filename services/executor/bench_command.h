// `tercet-executor bench MODEL`: the command line of bench.h.
#pragma once

namespace tercet::executor {

// argv[0] is "bench". Returns the exit code.
int BenchCommand(int argc, char** argv);

}  // namespace tercet::executor
