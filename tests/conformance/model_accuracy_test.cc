// The forward pass on real models against float32 references: per position the log-probability of the next token and the
// twenty most probable ones. Bounds are 3 % over what llama.cpp reaches on the same ids with f16 keys and values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/config/machine.h"
#include "kernels/reduce.h"
#include "services/executor/forward/forward.h"
#include "tests/test_paths.h"

namespace tercet::executor {
namespace {

struct Case {
  const char* model;
  const char* reference;
  double logprob_error;
  double divergence;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.model; }

class ModelAccuracy : public ::testing::TestWithParam<Case> {};

TEST_P(ModelAccuracy, IsNotWorseThanThePeer) {
  std::string model_path = tests::ModelPath(GetParam().model);
  std::string reference_path = tests::ConformancePath(std::string("models/") + GetParam().reference);
  if (model_path.empty()) GTEST_SKIP() << GetParam().model << " is not in TERCET_MODEL_DIR";
  if (reference_path.empty()) GTEST_SKIP() << "TERCET_CONFORMANCE_DIR has no models/" << GetParam().reference;
  nlohmann::json reference = nlohmann::json::parse(std::ifstream(reference_path));
  std::vector<uint32_t> ids = reference["ids"];

  auto file = gguf::File::Open(model_path);
  ASSERT_TRUE(file.ok()) << file.status();
  WorkerTeam team(config::UsableCpus());
  auto model = Model::Load(**file, team, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const Hyperparameters& h = (*model)->hyper();
  int32_t length = static_cast<int32_t>(ids.size());
  auto pool = PagePool::Create({h.layers, h.kv_heads, h.head_dim}, length / kPageTokens + 1);
  ASSERT_TRUE(pool.ok()) << pool.status();
  constexpr int32_t kRows = 64;
  auto forward = Forward::Create(**model, **pool, team, kRows, kRows, length);
  ASSERT_TRUE(forward.ok()) << forward.status();
  BlockTable table(**pool);
  for (int32_t i = 0; i < length; i += kPageTokens) ASSERT_TRUE(table.AppendNew().ok());

  double error = 0, divergence = 0, log_likelihood = 0;
  for (int32_t first = 0; first < length; first += kRows) {
    int32_t rows = std::min(kRows, length - first);
    ForwardSpan span{&table, std::span(ids).subspan(first, rows), first, 0};
    ASSERT_TRUE((*forward)->Run({&span, 1}).ok());
    for (int32_t row = 0; row < rows; ++row) {
      std::span<const float> logits = (*forward)->Logits(row);
      double normaliser = kernels::LogSumExp(logits.data(), static_cast<int64_t>(logits.size()));
      int32_t position = first + row;
      if (position + 1 < length) {
        double logprob = logits[ids[position + 1]] - normaliser;
        error += std::abs(logprob - reference["next_logprob"][position].get<double>());
        log_likelihood += logprob;
      }
      double rest_p = 1, rest_q = 1;
      for (const auto& entry : reference["top20"][position]) {
        double log_p = entry[1], log_q = logits[entry[0].get<uint32_t>()] - normaliser;
        rest_p -= std::exp(log_p);
        rest_q -= std::exp(log_q);
        divergence += std::exp(log_p) * (log_p - log_q);
      }
      rest_p = std::max(rest_p, 1e-9);
      rest_q = std::max(rest_q, 1e-9);
      divergence += rest_p * std::log(rest_p / rest_q);
    }
  }
  error /= length - 1;
  divergence /= length;
  double perplexity = std::exp(-log_likelihood / (length - 1));
  std::cout << GetParam().model << ": mean |log p - reference| " << error << " (bound " << 1.03 * GetParam().logprob_error
            << "), KL " << divergence << " (bound " << 1.03 * GetParam().divergence << "), perplexity " << perplexity
            << " (reference " << reference["perplexity"] << ")\n";
  EXPECT_LE(error, 1.03 * GetParam().logprob_error);
  EXPECT_LE(divergence, 1.03 * GetParam().divergence);
  EXPECT_NEAR(perplexity / reference["perplexity"].get<double>(), 1, 0.004);
}

INSTANTIATE_TEST_SUITE_P(
    RealModels, ModelAccuracy,
    ::testing::Values(Case{"smollm2.gguf", "smollm2-135m-instruct-q4_1.reference.json", 0.0596, 0.0027},
                      Case{"gemma3.gguf", "gemma-3-270m-q4_k_m.reference.json", 0.0710, 0.0041},
                      Case{"qwen2.5-coder.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.reference.json", 0.0480, 0.0020}));

}  // namespace
}  // namespace tercet::executor
