#include "services/executor/sequence.h"

#include <algorithm>
#include <utility>

namespace tercet::executor {

Sequence::Sequence(OpenSequence request, PagePool& pool, PrefixTree& tree)
    : request_(std::move(request)), tree_(tree), table_(pool), path_(tree.Open(request_.cache_salt)) {}

Sequence::~Sequence() {
  table_.Clear();
  tree_.Close(path_);
}

std::optional<FinishReason> Sequence::EndReason(std::span<const uint32_t> end_of_generation_ids,
                                                uint32_t context_length) const {
  const auto contains = [](std::span<const uint32_t> ids, uint32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  if (generated() > 0) {
    const uint32_t last = request_.token_ids.back();
    if (contains(request_.stop.stop_token_ids, last)) return FinishReason::kStop;
    if (!request_.stop.ignore_eos && contains(end_of_generation_ids, last)) return FinishReason::kStop;
  }
  if (generated() >= static_cast<int32_t>(request_.stop.max_new_tokens)) return FinishReason::kLength;
  if (length() >= static_cast<int32_t>(context_length)) return FinishReason::kContext;
  return std::nullopt;
}

int32_t Sequence::TakeCachedPrefix(int32_t page_limit) {
  looked_up_ = true;
  if (request_.logprobs.prompt) return 0;
  int32_t pages = (length() - 1) / kPageTokens;
  if (page_limit > 0) pages = std::min(pages, page_limit);
  for (int32_t page = 0; page < pages; ++page) {
    const std::optional<PageId> shared = tree_.Follow(path_, PageIds(page));
    if (!shared) break;
    table_.AppendShared(*shared);
    computed_ += kPageTokens;
    ++shared_pages_;
  }
  cached_tokens_ = computed_;
  return computed_;
}

int32_t Sequence::Reserve(int32_t target, int32_t page_limit) {
  int32_t pages = (target + kPageTokens - 1) / kPageTokens;
  if (page_limit > 0) pages = std::min(pages, page_limit);
  while (table_.pages() < pages) {
    if (table_.AppendNew().ok()) continue;
    if (!tree_.EvictOne()) break;
  }
  return std::min(target, table_.pages() * kPageTokens);
}

void Sequence::Advance(int32_t computed) {
  computed_ = computed;
  table_.Truncate(computed);
  for (; shared_pages_ < computed / kPageTokens; ++shared_pages_) {
    const PageId own = table_.page(shared_pages_);
    const PageId kept = tree_.Extend(path_, PageIds(shared_pages_), own);
    if (kept != own) table_.Replace(shared_pages_, kept);
  }
}

PrefixTree::PageTokens Sequence::PageIds(int32_t page) const {
  return PrefixTree::PageTokens(request_.token_ids.data() + static_cast<ptrdiff_t>(page) * kPageTokens, kPageTokens);
}

}  // namespace tercet::executor
