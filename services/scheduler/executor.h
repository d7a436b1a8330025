// One executor as the scheduler knows it.
//
// `admitted` is true between ExecutorUp and ExecutorDown; only then link, description, budget and sequences mean anything.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>

#include "services/scheduler/cost_model.h"
#include "services/scheduler/executor_link.h"
#include "services/scheduler/page_budget.h"
#include "services/scheduler/request.h"

namespace tercet::scheduler {

struct Executor {
  uint32_t index = 0;
  std::string address;
  bool admitted = false;
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

  // Prompt tokens of its open sequences that are not computed yet.
  uint64_t PendingPrefill() const {
    uint64_t tokens = 0;
    for (const auto& [handle, request] : sequences) {
      if (request->prefilling()) tokens += request->known_tokens() - request->computed_tokens;
    }
    return tokens;
  }
};

}  // namespace tercet::scheduler
