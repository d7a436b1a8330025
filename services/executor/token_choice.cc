#include "services/executor/token_choice.h"

namespace tercet::executor {
namespace {

void ChooseOne(Sampler& sampler, TokenChoice& choice) {
  if (choice.sampling != nullptr) {
    absl::StatusOr<uint32_t> token = sampler.Sample(choice.logits, *choice.sampling, choice.position);
    choice.status = token.status();
    if (!token.ok()) return;
    choice.token = *token;
  } else {
    choice.status = CheckLogits(choice.logits, choice.position);
    if (!choice.status.ok()) return;
  }
  if (choice.score) choice.logprobs = ComputeLogprobs(choice.logits, choice.token, choice.top);
}

}  // namespace

TokenChooser::TokenChooser(int64_t vocabulary, WorkerTeam& team) : team_(team) {
  samplers_.reserve(team.workers());
  for (int worker = 0; worker < team.workers(); ++worker) samplers_.emplace_back(vocabulary);
}

void TokenChooser::Choose(std::span<TokenChoice> choices) {
  if (choices.size() == 1) return ChooseOne(samplers_[0], choices[0]);
  if (choices.empty()) return;
  team_.Run([&](int worker, int workers) {
    for (size_t i = worker; i < choices.size(); i += workers) ChooseOne(samplers_[worker], choices[i]);
  });
}

}  // namespace tercet::executor
