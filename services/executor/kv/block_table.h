// The pages of one sequence, in the order of its tokens: token t lies in page t / 16, slot t mod 16.
//
// Owns one reference to each of its pages. Pages may be shared with other tables and with the prefix cache (AppendShared,
// Replace, ShareAll); a shared page is never written: MakeWritable gives the sequence a copy of its own before its next token
// goes into one. Not thread-safe.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "services/executor/kv/page_pool.h"

namespace tercet::executor {

class BlockTable {
 public:
  explicit BlockTable(PagePool& pool) : pool_(pool) {}
  ~BlockTable() { Clear(); }
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  int32_t pages() const { return static_cast<int32_t>(pages_.size()); }
  PageId page(int32_t index) const { return pages_[index]; }

  // A fresh page behind the others. RESOURCE_EXHAUSTED when none is free.
  absl::Status AppendNew() {
    absl::StatusOr<PageId> page = pool_.Allocate();
    if (!page.ok()) return page.status();
    pages_.push_back(*page);
    return absl::OkStatus();
  }

  // A page that others hold as well; takes a reference.
  void AppendShared(PageId page) {
    pool_.Retain(page);
    pages_.push_back(page);
  }

  // Exchanges a page for another one with the same contents.
  void Replace(int32_t index, PageId page) {
    pool_.Retain(page);
    pool_.Release(pages_[index]);
    pages_[index] = page;
  }

  // All pages of `other`, behind none of its own: a fork, which costs no memory until one of the two goes on.
  void ShareAll(const BlockTable& other) {
    Clear();
    for (PageId page : other.pages_) AppendShared(page);
  }

  // Positions from `first` on may be written afterwards: pages that others hold as well are exchanged for copies.
  // RESOURCE_EXHAUSTED when no page is free; the table then still holds what it held.
  absl::Status MakeWritable(int32_t first) {
    for (size_t i = static_cast<size_t>(first) / kPageTokens; i < pages_.size(); ++i) {
      if (pool_.references(pages_[i]) == 1) continue;
      absl::StatusOr<PageId> page = pool_.Allocate();
      if (!page.ok()) return page.status();
      pool_.CopyPage(pages_[i], *page);
      pool_.Release(pages_[i]);
      pages_[i] = *page;
    }
    return absl::OkStatus();
  }

  // Whether the sequence is the only holder of the pages of positions [first, end).
  bool IsWritable(int32_t first, int32_t end) const {
    for (int32_t i = first / kPageTokens; i * kPageTokens < end; ++i) {
      if (pool_.references(pages_[i]) != 1) return false;
    }
    return true;
  }

  // Keeps the pages that `tokens` tokens need and gives the rest back: a rewind.
  void Truncate(int32_t tokens) {
    size_t keep = (static_cast<size_t>(tokens) + kPageTokens - 1) / kPageTokens;
    while (pages_.size() > keep) {
      pool_.Release(pages_.back());
      pages_.pop_back();
    }
  }

  void Clear() { Truncate(0); }

 private:
  PagePool& pool_;
  std::vector<PageId> pages_;
};

}  // namespace tercet::executor
