// One request in the executor: its ids, its pages, and how far it has been computed.
//
// Invariants:
//   1. ids() are the prompt and everything generated; the last generated id is not computed yet.
//   2. Keys and values of ids [0, computed()) lie in the block table; pages beyond them exist only during a step.
//   3. Full pages of computed ids are in the prefix tree as soon as they are computed (unless the tree is full).
//
// Thread safety: none; the engine's thread owns it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "services/executor/kv/block_table.h"
#include "services/executor/kv/page_pool.h"
#include "services/executor/kv/prefix_tree.h"
#include "services/executor/plan.h"
#include "services/executor/results.h"

namespace tercet::executor {

class Sequence {
 public:
  Sequence(OpenSequence request, PagePool& pool, PrefixTree& tree);
  // Returns every page.
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  uint64_t handle() const { return request_.handle; }
  const std::vector<uint32_t>& ids() const { return request_.token_ids; }
  int32_t length() const { return static_cast<int32_t>(request_.token_ids.size()); }
  int32_t prompt_length() const { return static_cast<int32_t>(request_.prompt_length); }
  int32_t generated() const { return length() - prompt_length(); }
  const SamplingParameters& sampling() const { return request_.sampling; }
  const LogprobOptions& logprobs() const { return request_.logprobs; }
  const StopConditions& stop() const { return request_.stop; }

  int32_t computed() const { return computed_; }
  // All ids that it was opened with are computed: from now on it decodes.
  bool prefilled() const { return prefilled_; }
  void set_prefilled() { prefilled_ = true; }

  BlockTable& table() { return table_; }
  int32_t pages() const { return table_.pages(); }

  // Why the sequence ends with the ids that it has, if it does.
  std::optional<FinishReason> EndReason(std::span<const uint32_t> end_of_generation_ids, uint32_t context_length) const;

  void Append(uint32_t id) { request_.token_ids.push_back(id); }

  // Takes over pages that the prefix cache has, once, before anything is computed; at most `page_limit` (0: any number).
  // The last id is always left to compute; a sequence whose prompt is to be scored takes none. Returns the tokens found.
  int32_t TakeCachedPrefix(int32_t page_limit);
  bool looked_up() const { return looked_up_; }
  int32_t cached_tokens() const { return cached_tokens_; }

  // Makes room for tokens up to `target` (exclusive), as far as `page_limit` (0: none) and the pool allow, shedding the
  // prefix cache when the pool is empty. Returns up to which token there is room.
  int32_t Reserve(int32_t target, int32_t page_limit);

  // Ids [0, computed) have been computed and stand; pages behind them (rejected drafts) are returned, new full ones shared.
  void Advance(int32_t computed);

  // For the engine: the sequence's row in the results being gathered.
  size_t result_row = 0;
  uint64_t result_gathering = 0;
  // Whether anything, and whether a token, was reported before.
  bool reported = false;
  bool emitted = false;

 private:
  PrefixTree::PageTokens PageIds(int32_t page) const;

  OpenSequence request_;
  PrefixTree& tree_;
  BlockTable table_;
  PrefixTree::Path path_;
  int32_t computed_ = 0;
  int32_t cached_tokens_ = 0;
  // Full pages offered to the tree.
  int32_t shared_pages_ = 0;
  bool looked_up_ = false;
  bool prefilled_ = false;
};

}  // namespace tercet::executor
