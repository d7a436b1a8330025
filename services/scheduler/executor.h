// One executor as the scheduler knows it.
//
// Link, budget and sequences mean something between ExecutorUp and ExecutorDown only; the description stays, so that
// requests which only this executor can hold wait for its return instead of being refused.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "services/scheduler/cost_model.h"
#include "services/scheduler/executor_link.h"
#include "services/scheduler/page_budget.h"
#include "services/scheduler/request.h"

namespace tercet::scheduler {

enum class Membership {
  kAway,      // not connected, or owned by somebody else
  kAdmitted,  // ours
  kLeaving,   // ours; finishes what it has and takes nothing new
};

struct Executor {
  uint32_t index = 0;
  std::string address;
  Membership membership = Membership::kAway;
  // Why it takes no work, in a sentence; empty when it does.
  std::string problem = "not connected yet";

  ExecutorLink* link = nullptr;
  uint64_t lease_epoch = 0;
  v1::ExecutorDescription description;
  PageBudget budget;
  CostModel cost;
  // Open sequences by handle.
  absl::flat_hash_map<uint64_t, Request*> sequences;
  uint32_t free_pages = 0;
  uint32_t cached_pages = 0;

  uint64_t next_handle = 1;
  uint64_t plan_id = 0;
  // Steps of the present plan that are granted and not yet reported.
  uint32_t steps_left = 0;
  // Something changed that the executor must hear of: a plan is due.
  bool plan_due = false;
  // For the next plan.
  v1::Plan draft;

  // Tokens that all its KV memory holds; 0 while it was never described.
  uint64_t pool_tokens() const { return uint64_t{description.total_pages()} * description.page_tokens(); }

  // Prompt tokens of its open sequences that are not computed yet.
  uint64_t PendingPrefill() const {
    uint64_t tokens = 0;
    for (const auto& [handle, request] : sequences) {
      if (request->prefilling()) tokens += request->known_tokens() - request->computed_tokens;
    }
    return tokens;
  }
};

using Executors = std::vector<std::unique_ptr<Executor>>;

}  // namespace tercet::scheduler
