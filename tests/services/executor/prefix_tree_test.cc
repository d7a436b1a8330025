#include "services/executor/kv/prefix_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tercet::executor {
namespace {

using Tokens = std::vector<uint32_t>;

// Pages of tokens that start with `first`, in order.
Tokens Page(uint32_t first) {
  Tokens tokens(kPageTokens);
  for (int i = 0; i < kPageTokens; ++i) tokens[i] = first + i;
  return tokens;
}
PrefixTree::PageTokens View(const Tokens& tokens) { return PrefixTree::PageTokens(tokens.data(), kPageTokens); }

class PrefixTreeTest : public testing::Test {
 protected:
  explicit PrefixTreeTest(PrefixTree::HashFunction hash = &PrefixTree::HashPage)
      : pool_(*PagePool::Create({.layers = 1, .kv_heads = 1, .head_dim = 4}, 8)), tree_(*pool_, hash) {}

  // Computes the pages and keeps them in the tree, as a sequence does that ends then.
  void Cache(const std::vector<uint32_t>& pages, std::string_view salt = "") {
    PrefixTree::Path path = tree_.Open(salt);
    std::vector<PageId> own;
    for (uint32_t page : pages) {
      while (pool_->free_pages() == 0) ASSERT_TRUE(tree_.EvictOne());
      own.push_back(*pool_->Allocate());
      const PageId kept = tree_.Extend(path, View(Page(page)), own.back());
      if (kept != own.back()) {
        pool_->Retain(kept);
        pool_->Release(own.back());
        own.back() = kept;
      }
    }
    for (PageId page : own) pool_->Release(page);
    tree_.Close(path);
  }

  // How many pages of this prefix are cached.
  int Found(const std::vector<uint32_t>& pages, std::string_view salt = "") {
    PrefixTree::Path path = tree_.Open(salt);
    for (uint32_t page : pages) {
      if (!tree_.Follow(path, View(Page(page)))) break;
    }
    const int found = path.pages();
    tree_.Close(path);
    return found;
  }

  void ExpectConsistent() {
    EXPECT_EQ(pool_->free_pages() + tree_.pages(), pool_->total_pages());
    EXPECT_LE(tree_.cached_pages(), tree_.pages());
  }

  std::unique_ptr<PagePool> pool_;
  PrefixTree tree_;
};

TEST_F(PrefixTreeTest, FindsTheLongestCachedPrefix) {
  Cache({100, 200, 300});
  EXPECT_EQ(Found({100, 200, 300}), 3);
  EXPECT_EQ(Found({100, 200, 999}), 2);
  EXPECT_EQ(Found({100}), 1);
  EXPECT_EQ(Found({200, 300}), 0);
  EXPECT_EQ(tree_.cached_pages(), 3);
  ExpectConsistent();
}

TEST_F(PrefixTreeTest, BranchesShareTheirStem) {
  Cache({100, 200, 300});
  Cache({100, 200, 400});
  EXPECT_EQ(tree_.pages(), 4);
  EXPECT_EQ(Found({100, 200, 300}), 3);
  EXPECT_EQ(Found({100, 200, 400}), 3);
  ExpectConsistent();
}

TEST_F(PrefixTreeTest, ExtendGivesTheKnownPageForEqualTokens) {
  Cache({100});
  PrefixTree::Path path = tree_.Open("");
  const PageId own = *pool_->Allocate();
  const PageId kept = tree_.Extend(path, View(Page(100)), own);
  EXPECT_NE(kept, own);
  EXPECT_EQ(tree_.pages(), 1);
  pool_->Release(own);
  tree_.Close(path);
  ExpectConsistent();
}

TEST_F(PrefixTreeTest, SaltsShareNothing) {
  Cache({100}, "a");
  EXPECT_EQ(Found({100}), 0);
  EXPECT_EQ(Found({100}, "b"), 0);
  EXPECT_EQ(Found({100}, "a"), 1);
}

TEST_F(PrefixTreeTest, EvictsLeavesThatWereUsedLongestAgo) {
  Cache({100, 200});
  Cache({300, 400});
  EXPECT_EQ(Found({100, 200}), 2);  // used again: {300, 400} is older now
  EXPECT_TRUE(tree_.EvictOne());
  EXPECT_EQ(Found({300, 400}), 1);
  // Asking for it made {300} the newest, so {100, 200} goes first, its end before its stem.
  EXPECT_TRUE(tree_.EvictOne());
  EXPECT_EQ(Found({100, 200}), 1);
  EXPECT_TRUE(tree_.EvictOne());
  EXPECT_TRUE(tree_.EvictOne());
  EXPECT_FALSE(tree_.EvictOne());
  EXPECT_EQ(pool_->free_pages(), pool_->total_pages());
}

TEST_F(PrefixTreeTest, WhatIsInUseIsNotEvicted) {
  Cache({100, 200});
  PrefixTree::Path path = tree_.Open("");
  ASSERT_TRUE(tree_.Follow(path, View(Page(100))));
  EXPECT_EQ(tree_.cached_pages(), 1);
  EXPECT_TRUE(tree_.EvictOne());
  EXPECT_FALSE(tree_.EvictOne());
  EXPECT_EQ(tree_.pages(), 1);
  tree_.Close(path);
  EXPECT_EQ(tree_.cached_pages(), 1);
  EXPECT_TRUE(tree_.EvictOne());
  EXPECT_EQ(tree_.pages(), 0);
}

TEST_F(PrefixTreeTest, RefillAfterEvictionFindsTheNewPages) {
  for (uint32_t round = 0; round < 20; ++round) {
    Cache({1000 * round, 1000 * round + 100, 1000 * round + 200});
    EXPECT_EQ(Found({1000 * round, 1000 * round + 100, 1000 * round + 200}), 3);
    ExpectConsistent();
  }
  EXPECT_EQ(tree_.pages(), 8);
}

class ConstantHashTest : public PrefixTreeTest {
 protected:
  ConstantHashTest()
      : PrefixTreeTest([](const PrefixHash&, PrefixTree::PageTokens) { return PrefixHash{.low = 3, .high = 4}; }) {}
};

TEST_F(ConstantHashTest, CollisionsNeverFindAnotherPrefix) {
  Cache({100, 200});
  Cache({300, 200});
  EXPECT_EQ(Found({100, 200}), 2);
  EXPECT_EQ(Found({300, 200}), 2);
  EXPECT_EQ(Found({200}), 0);
  EXPECT_EQ(Found({100, 300}), 1);
  EXPECT_EQ(Found({100}, "salt"), 0);
  ExpectConsistent();
}

TEST_F(PrefixTreeTest, CountsStayExactUnderRandomUse) {
  std::mt19937 random(5);
  const auto below = [&](uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random); };
  for (int step = 0; step < 3000; ++step) {
    std::vector<uint32_t> pages;
    for (uint32_t i = 0, n = 1 + below(5); i < n; ++i) pages.push_back(100 * below(3));
    switch (below(3)) {
      case 0:
        Cache(pages, below(2) ? "" : "salt");
        break;
      case 1:
        Found(pages);
        break;
      case 2:
        tree_.EvictOne();
        break;
    }
    ExpectConsistent();
    EXPECT_EQ(tree_.cached_pages(), tree_.pages());
  }
  while (tree_.EvictOne()) {
  }
  EXPECT_EQ(pool_->free_pages(), pool_->total_pages());
}

}  // namespace
}  // namespace tercet::executor
