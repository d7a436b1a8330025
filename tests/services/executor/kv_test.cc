#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "services/executor/kv/block_table.h"
#include "services/executor/kv/page_pool.h"

namespace tercet::executor {
namespace {

constexpr KvLayout kLayout{.layers = 3, .kv_heads = 2, .head_dim = 32};

std::unique_ptr<PagePool> MakePool(int32_t pages) {
  auto pool = PagePool::Create(kLayout, pages);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *std::move(pool);
}

// Writes a value of its own into every number of a page.
void Mark(PagePool& pool, PageId page, uint16_t mark) {
  for (int layer = 0; layer < kLayout.layers; ++layer) {
    for (int head = 0; head < kLayout.kv_heads; ++head) {
      std::fill_n(pool.k(page, layer, head), kPageTokens * kLayout.head_dim, mark);
      std::fill_n(pool.v(page, layer, head), kPageTokens * kLayout.head_dim, static_cast<uint16_t>(mark + 1));
    }
  }
}
bool IsMarked(const PagePool& pool, PageId page, uint16_t mark) {
  for (int layer = 0; layer < kLayout.layers; ++layer) {
    for (int head = 0; head < kLayout.kv_heads; ++head) {
      for (int i = 0; i < kPageTokens * kLayout.head_dim; ++i) {
        if (pool.k(page, layer, head)[i] != mark || pool.v(page, layer, head)[i] != mark + 1) return false;
      }
    }
  }
  return true;
}

TEST(PagePool, PagesDoNotOverlap) {
  auto pool = MakePool(7);
  EXPECT_EQ(pool->bytes(), 7u * 3 * 2 * 2 * 16 * 32 * sizeof(uint16_t));
  std::set<PageId> pages;
  for (int i = 0; i < 7; ++i) pages.insert(*pool->Allocate());
  EXPECT_EQ(pages.size(), 7u);
  for (PageId page : pages) Mark(*pool, page, static_cast<uint16_t>(10 * page));
  for (PageId page : pages) EXPECT_TRUE(IsMarked(*pool, page, static_cast<uint16_t>(10 * page)));
}

TEST(PagePool, SaysSoWhenNoPageIsFree) {
  auto pool = MakePool(2);
  PageId first = *pool->Allocate();
  ASSERT_TRUE(pool->Allocate().ok());
  EXPECT_EQ(pool->free_pages(), 0);
  EXPECT_EQ(pool->Allocate().status().code(), absl::StatusCode::kResourceExhausted);
  pool->Release(first);
  EXPECT_EQ(*pool->Allocate(), first);
}

TEST(PagePool, APageIsFreeWhenItsLastHolderReleasesIt) {
  auto pool = MakePool(1);
  PageId page = *pool->Allocate();
  pool->Retain(page);
  pool->Release(page);
  EXPECT_EQ(pool->free_pages(), 0);
  EXPECT_EQ(pool->references(page), 1);
  pool->Release(page);
  EXPECT_EQ(pool->free_pages(), 1);
}

TEST(PagePool, RefusesMoreMemoryThanThereIsAddressSpace) {
  auto pool = PagePool::Create({.layers = 1024, .kv_heads = 1024, .head_dim = 512}, 2000000000);
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(BlockTable, GivesItsPagesBack) {
  auto pool = MakePool(4);
  {
    BlockTable table(*pool);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(table.AppendNew().ok());
    EXPECT_EQ(table.AppendNew().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(table.pages(), 4);
  }
  EXPECT_EQ(pool->free_pages(), 4);
}

TEST(BlockTable, TruncateKeepsThePagesOfTheTokensThatStay) {
  auto pool = MakePool(8);
  BlockTable table(*pool);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(table.AppendNew().ok());
  struct {
    int32_t tokens, pages;
  } cases[] = {{128, 8}, {113, 8}, {112, 7}, {33, 3}, {17, 2}, {16, 1}, {1, 1}, {0, 0}};
  for (auto [tokens, pages] : cases) {
    table.Truncate(tokens);
    EXPECT_EQ(table.pages(), pages) << tokens << " tokens";
    EXPECT_EQ(pool->free_pages(), 8 - pages);
  }
}

TEST(BlockTable, AForkSharesPagesUntilWrite) {
  auto pool = MakePool(8);
  BlockTable original(*pool), fork(*pool);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(original.AppendNew().ok());
    Mark(*pool, original.page(i), static_cast<uint16_t>(10 * i));
  }
  fork.ShareAll(original);
  EXPECT_EQ(pool->free_pages(), 5);
  EXPECT_FALSE(fork.IsWritable(40, 41));
  EXPECT_FALSE(original.IsWritable(40, 41));

  ASSERT_TRUE(fork.MakeWritable(40).ok());
  EXPECT_EQ(pool->free_pages(), 4);
  EXPECT_EQ(fork.page(0), original.page(0));
  EXPECT_EQ(fork.page(1), original.page(1));
  EXPECT_NE(fork.page(2), original.page(2));
  EXPECT_TRUE(IsMarked(*pool, fork.page(2), 20));
  EXPECT_TRUE(fork.IsWritable(40, 48));
  EXPECT_TRUE(original.IsWritable(40, 48));
  EXPECT_FALSE(fork.IsWritable(31, 48));

  Mark(*pool, fork.page(2), 500);
  EXPECT_TRUE(IsMarked(*pool, original.page(2), 20));
  fork.Clear();
  EXPECT_EQ(pool->free_pages(), 5);
}

TEST(BlockTable, MakeWritableCopiesNothingThatIsOwned) {
  auto pool = MakePool(2);
  BlockTable table(*pool);
  ASSERT_TRUE(table.AppendNew().ok());
  PageId page = table.page(0);
  ASSERT_TRUE(table.MakeWritable(0).ok());
  EXPECT_EQ(table.page(0), page);
}

TEST(BlockTable, WithoutAFreePageAForkKeepsWhatItHas) {
  auto pool = MakePool(1);
  BlockTable original(*pool), fork(*pool);
  ASSERT_TRUE(original.AppendNew().ok());
  fork.ShareAll(original);
  EXPECT_EQ(fork.MakeWritable(0).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fork.page(0), original.page(0));
  EXPECT_EQ(pool->references(original.page(0)), 2);
}

TEST(BlockTable, ReplaceMovesItsReference) {
  auto pool = MakePool(2);
  BlockTable table(*pool);
  ASSERT_TRUE(table.AppendNew().ok());
  PageId own = table.page(0), other = *pool->Allocate();
  table.Replace(0, other);
  EXPECT_EQ(pool->references(own), 0);
  EXPECT_EQ(pool->references(other), 2);
  pool->Release(other);
}

}  // namespace
}  // namespace tercet::executor
