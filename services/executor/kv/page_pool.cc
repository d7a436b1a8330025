#include "services/executor/kv/page_pool.h"

#include <absl/strings/str_cat.h>

#include <cstring>

namespace tercet::executor {

absl::StatusOr<std::unique_ptr<PagePool>> PagePool::Create(const KvLayout& layout, int32_t pages) {
  size_t bytes;
  if (pages < 1 || __builtin_mul_overflow(layout.PageBytes(), static_cast<size_t>(pages), &bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("a KV pool of ", pages, " pages of ", layout.PageBytes(),
                                                     " bytes cannot be had"));
  }
  absl::StatusOr<HugeBuffer> memory = HugeBuffer::Allocate(bytes);
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<PagePool>(new PagePool(layout, pages, *std::move(memory)));
}

PagePool::PagePool(const KvLayout& layout, int32_t pages, HugeBuffer memory)
    : layout_(layout), memory_(std::move(memory)), references_(pages, 0) {
  free_.reserve(pages);
  for (PageId page = pages - 1; page >= 0; --page) free_.push_back(page);
}

absl::StatusOr<PageId> PagePool::Allocate() {
  if (free_.empty()) {
    return absl::ResourceExhaustedError(absl::StrCat("all ", total_pages(), " KV pages are in use"));
  }
  PageId page = free_.back();
  free_.pop_back();
  references_[page] = 1;
  return page;
}

void PagePool::Release(PageId page) {
  if (--references_[page] == 0) free_.push_back(page);
}

void PagePool::CopyPage(PageId from, PageId to) {
  size_t bytes = sizeof(uint16_t) * layout_.HeadElements() * layout_.kv_heads;
  for (int32_t layer = 0; layer < layout_.layers; ++layer) std::memcpy(k(to, layer, 0), k(from, layer, 0), bytes);
}

}  // namespace tercet::executor
