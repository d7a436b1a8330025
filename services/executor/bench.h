// Measures a model on this machine, in-process: the forward pass without engine, services or sampling beyond the best token.
//
// What it reports (medians of `rounds`):
//   prefill_tokens_per_s   `prompt` tokens behind `depth` others, in passes of up to 512 rows, logits of the last one only
//   decode_tokens_per_s    `gen` tokens one by one, each the best of the one before
//   step_ms                a pass of 1, 2, 4, 8, 16 rows of one sequence at `depth`, logits for all: what verifying drafts costs
//   b_star                 C(K + 1) / C(1) for K = 4 and 8 drafts, C being the time of a pass
//   read_gb_per_s          reading as many bytes as a decode step reads weights, with the same threads and nothing else to do
//   phase_us               a decode step by part, waiting included
#pragma once

#include <absl/status/status.h>

#include <ostream>
#include <string>

namespace tercet::executor {

struct BenchOptions {
  std::string model;
  int threads = 1;  // ≥ 1
  int prompt = 512;  // ≥ 1 tokens
  int gen = 128;     // ≥ 1 tokens
  int depth = 0;     // ≥ 0 tokens
  int rounds = 5;    // ≥ 1
  bool json = false;
};

// Writes one JSON object, or a table. Progress goes nowhere. Errors: those of loading the model; INVALID_ARGUMENT when the
// tokens do not fit into the model's context.
absl::Status RunBench(const BenchOptions& options, std::ostream& out);

}  // namespace tercet::executor
