// Time to choose one token from a row of logits, by sampler settings and vocabulary. The settings without top-k must stay
// near top-k 40: none of them may sort the vocabulary.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "services/executor/sampling/logprobs.h"
#include "services/executor/sampling/sampler.h"

namespace tercet::executor {
namespace {

// As a model gives them: a wide bell, and a few tokens far above it.
std::vector<float> Logits(int64_t vocabulary) {
  std::mt19937 random(1);
  std::vector<float> logits(vocabulary);
  for (float& logit : logits) logit = std::normal_distribution<float>(0, 3)(random);
  for (int i = 0; i < 20; ++i) logits[random() % vocabulary] = 14 + static_cast<float>(i) / 4;
  return logits;
}

void Run(benchmark::State& state, const SamplingParameters& parameters) {
  const std::vector<float> logits = Logits(state.range(0));
  Sampler sampler(state.range(0));
  uint64_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(*sampler.Sample(logits, parameters, ++position));
}

void Greedy(benchmark::State& state) { Run(state, {}); }
void Temperature(benchmark::State& state) { Run(state, {.temperature = .8f}); }
void TopK40(benchmark::State& state) { Run(state, {.temperature = .8f, .top_k = 40}); }
void TopP95(benchmark::State& state) { Run(state, {.temperature = .8f, .top_p = .95f}); }
void MinP05(benchmark::State& state) { Run(state, {.temperature = .8f, .min_p = .05f}); }
void TopK40TopP95(benchmark::State& state) { Run(state, {.temperature = .8f, .top_k = 40, .top_p = .95f}); }
void Scores(benchmark::State& state) {
  const std::vector<float> logits = Logits(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(ComputeLogprobs(logits, 7, 20));
}

#define TERCET_SAMPLING_BENCH(name) BENCHMARK(name)->Arg(49152)->Arg(262144)->Unit(benchmark::kMicrosecond)
TERCET_SAMPLING_BENCH(Greedy);
TERCET_SAMPLING_BENCH(Temperature);
TERCET_SAMPLING_BENCH(TopK40);
TERCET_SAMPLING_BENCH(TopP95);
TERCET_SAMPLING_BENCH(MinP05);
TERCET_SAMPLING_BENCH(TopK40TopP95);
TERCET_SAMPLING_BENCH(Scores);

}  // namespace
}  // namespace tercet::executor
