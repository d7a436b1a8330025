// KV memory of an executor: pages of 16 tokens, counted by reference.
//
// A page holds the keys and values of 16 consecutive tokens for all layers and key-value heads, as f16. Layer by layer the
// pages lie side by side, so that one layer's attention reads neighbouring memory. Within (layer, page, head): K as
// [head_dim][16 tokens], then V as [16 tokens][head_dim] (see kernels/attention.h).
//
// Invariants: free_pages() + pages with references = total_pages(). A page's contents may only be written by a holder of its
// sole reference. Not thread-safe, except that the contents of different tokens may be written by different threads.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "services/executor/memory/huge_buffer.h"

namespace tercet::executor {

inline constexpr int32_t kPageTokens = 16;
using PageId = int32_t;

struct KvLayout {
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;

  // f16 numbers of one (layer, page, head): K and V.
  size_t HeadElements() const { return size_t{2} * kPageTokens * head_dim; }
  size_t PageBytes() const { return size_t{2} * layers * kv_heads * HeadElements(); }
};

class PagePool {
 public:
  // `pages` ≥ 1. RESOURCE_EXHAUSTED when the memory cannot be had.
  static absl::StatusOr<std::unique_ptr<PagePool>> Create(const KvLayout& layout, int32_t pages);

  // A page with one reference. RESOURCE_EXHAUSTED when none is free.
  absl::StatusOr<PageId> Allocate();
  void Retain(PageId page) { ++references_[page]; }
  void Release(PageId page);
  // Keys and values of all layers.
  void CopyPage(PageId from, PageId to);
  int32_t references(PageId page) const { return references_[page]; }

  int32_t total_pages() const { return static_cast<int32_t>(references_.size()); }
  int32_t free_pages() const { return static_cast<int32_t>(free_.size()); }
  const KvLayout& layout() const { return layout_; }
  size_t bytes() const { return layout_.PageBytes() * references_.size(); }

  uint16_t* k(PageId page, int32_t layer, int32_t kv_head) const { return At(page, layer, kv_head); }
  uint16_t* v(PageId page, int32_t layer, int32_t kv_head) const {
    return At(page, layer, kv_head) + size_t{kPageTokens} * layout_.head_dim;
  }

 private:
  PagePool(const KvLayout& layout, int32_t pages, HugeBuffer memory);

  uint16_t* At(PageId page, int32_t layer, int32_t kv_head) const {
    size_t index = (size_t{0} + layer * references_.size() + page) * layout_.kv_heads + kv_head;
    return reinterpret_cast<uint16_t*>(memory_.data()) + index * layout_.HeadElements();
  }

  KvLayout layout_;
  HugeBuffer memory_;
  std::vector<int32_t> references_;
  std::vector<PageId> free_;  // the last one is given out next: recently used memory is warm
};

}  // namespace tercet::executor
