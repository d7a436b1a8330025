#include "services/scheduler/batcher.h"

#include <algorithm>
#include <vector>

namespace tercet::scheduler {
namespace {

// The oldest first: when rows or pages are short, the sequence that came first is served first.
std::vector<Request*> InOrderOfArrival(const Executor& executor) {
  std::vector<Request*> requests;
  requests.reserve(executor.sequences.size());
  for (const auto& [handle, request] : executor.sequences) requests.push_back(request);
  std::sort(requests.begin(), requests.end(), [](const Request* a, const Request* b) {
    if (a->spec.priority() != b->spec.priority()) return a->spec.priority() > b->spec.priority();
    return a->arrival < b->arrival;
  });
  return requests;
}

// Gives the sequence pages to compute its next token at least, and for the whole grant if they are there.
bool RaisePageLimit(Request& request, Executor& executor, const BatchLimits& limits) {
  // Tokens the sequence can ever hold.
  uint64_t end = std::min<uint64_t>(uint64_t{0} + request.prompt_length() + request.spec.stop().max_new_tokens(),
                                    executor.description.context_length());
  // Results on their way may have moved the sequence on by as much as the grants that are out.
  uint64_t ahead = std::min<uint64_t>(request.known_tokens() + uint64_t{2} * (limits.free_steps + 1), end);
  uint32_t needed = executor.budget.PagesFor(request.known_tokens());
  uint32_t wanted = executor.budget.PagesFor(ahead);
  if (request.page_limit < wanted) request.page_limit = executor.budget.Raise(request.page_limit, needed, wanted);
  return request.page_limit >= needed;
}

}  // namespace

Request* FillPlan(Executor& executor, const BatchLimits& limits) {
  executor.draft.clear_rows();
  std::vector<Request*> requests = InOrderOfArrival(executor);
  std::vector<Request*> prefilling;
  uint32_t rows = executor.description.max_rows();

  auto add_row = [&](Request* request, uint32_t prefill_tokens) {
    v1::PlanRow* row = executor.draft.add_rows();
    row->set_handle(request->handle);
    row->set_prefill_tokens(prefill_tokens);
    row->set_page_limit(request->page_limit);
  };

  uint32_t decoding = 0;
  for (Request* request : requests) {
    if (!RaisePageLimit(*request, executor, limits)) return request;
    if (request->prefilling()) {
      prefilling.push_back(request);
    } else if (rows > 0) {
      // A decoding sequence computes its last id again only where a result is still on its way; one row is enough.
      add_row(request, 1);
      --rows;
      ++decoding;
    }
  }

  uint32_t chunk = std::min(rows, decoding > 0 ? limits.prefill_chunk_busy : limits.prefill_chunk_idle);
  bool all_in = true;
  for (Request* request : prefilling) {
    uint32_t left = request->known_tokens() - request->computed_tokens;
    uint32_t share = std::min(left, chunk);
    if (share == 0) {
      all_in = false;
      continue;
    }
    add_row(request, share);
    chunk -= share;
  }
  all_in = all_in && decoding + prefilling.size() == requests.size();
  // With everyone in the plan it can be repeated as it is; else the next one must come as soon as a place is free.
  executor.draft.set_free_steps(all_in ? limits.free_steps : 0);
  return nullptr;
}

}  // namespace tercet::scheduler
