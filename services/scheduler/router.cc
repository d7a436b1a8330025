#include "services/scheduler/router.h"

#include <algorithm>
#include <limits>

namespace tercet::scheduler {
namespace {

// Decode steps that count in the comparison: enough to feel a full batch, too few to drown a prompt of some hundred tokens.
constexpr uint32_t kDecodeSteps = 32;

}  // namespace

bool Router::CouldHold(const Executor& executor, const Request& request) {
  return executor.membership == Membership::kAdmitted && request.known_tokens() <= executor.pool_tokens();
}

bool Router::HasRoom(const Executor& executor, const Request& request) {
  if (!CouldHold(executor, request)) return false;
  size_t open = executor.sequences.size();
  // Each open sequence needs a row of every step.
  if (open >= std::min(executor.description.max_sequences(), executor.description.max_rows())) return false;
  // A page for each open sequence stays free: else the newcomer would be preempted at the next page's end of an older one.
  return open == 0 || executor.budget.left() >= executor.budget.PagesFor(request.known_tokens()) + open;
}

Executor* Router::Choose(const Executors& executors, const Request& request) {
  Executor* best = nullptr;
  double best_ms = std::numeric_limits<double>::infinity();
  std::vector<uint64_t> chain;
  uint64_t tokens = request.known_tokens();
  for (const auto& executor : executors) {
    if (!HasRoom(*executor, request)) continue;
    uint32_t page_tokens = executor->description.page_tokens();
    if (executors.size() > 1 && chain.empty()) {
      chain = PrefixMap::Chain(request.spec.cache_salt(), request.spec.prompt_token_ids().data(), request.prompt_length(),
                               page_tokens);
    }
    uint64_t cached = std::min<uint64_t>(prefixes_.Match(chain, executor->index) * page_tokens, tokens - 1);
    uint32_t open = static_cast<uint32_t>(executor->sequences.size());
    uint32_t steps = std::min(request.spec.stop().max_new_tokens(), kDecodeSteps);
    double ms = executor->cost.PrefillMs(executor->PendingPrefill() + tokens - cached, prefill_chunk_) +
                executor->cost.StepMs(open + 1) * steps;
    // Before any step was measured, fewer open sequences and more cached tokens decide.
    ms += 1e-3 * open + 1e-6 * static_cast<double>(tokens - cached);
    if (ms < best_ms) {
      best_ms = ms;
      best = executor.get();
    }
  }
  if (best != nullptr && !chain.empty()) prefixes_.Insert(chain, best->index);
  return best;
}

}  // namespace tercet::scheduler
