// The prefix cache: full pages of computed tokens, kept after their sequence has ended and shared with every sequence that
// begins with the same tokens (and the same cache salt).
//
// A node is one page behind one parent, so a path from the root is a prefix in steps of kPageTokens tokens. It is found by a
// hash chained over the parent's hash and its tokens, and believed only after parent and tokens have been compared: a
// collision costs time, never another prompt's keys and values.
//
// Invariants:
//   1. The tree owns one reference (PagePool) of each of its pages; a sequence that shares a page owns another one.
//   2. A node is in use while a Path goes through it. Whoever uses a node uses its ancestors, so nodes not in use hang
//      below nodes in use, and giving up the leaf that was used longest ago never tears a path.
//   3. There are never more nodes than the pool has pages; all memory but that of salts is allocated at construction.
//   4. pages() == used + cached_pages(); cached pages have exactly one reference, the tree's.
//
// Thread safety: none; the engine's thread owns it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/executor/kv/page_pool.h"

namespace tercet::executor {

struct PrefixHash {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const PrefixHash&, const PrefixHash&) = default;
};

class PrefixTree {
 public:
  using PageTokens = std::span<const uint32_t, kPageTokens>;
  // Hash of a page: of its parent's hash and its tokens. Replaceable for tests only.
  using HashFunction = PrefixHash (*)(const PrefixHash& parent, PageTokens tokens);

  // A sequence's place in the tree: the pages that it shares with it so far. Open one, walk it, and close it exactly once.
  class Path {
   public:
    // Pages from the root to here.
    int32_t pages() const { return pages_; }

   private:
    friend class PrefixTree;
    int32_t root_ = -1;
    int32_t node_ = -1;
    int32_t pages_ = 0;
    // The tree has no room for the page after this one; the path ends here for good.
    bool ended_ = false;
  };

  explicit PrefixTree(PagePool& pool, HashFunction hash = &HashPage);
  // Gives up every page. REQUIRES that all paths are closed.
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  // A path at the root of `salt`. Sequences with different salts share nothing.
  Path Open(std::string_view salt);

  // Goes on to the page that holds `tokens` behind the path and returns it; the caller takes a reference of its own.
  // Nothing, and an unchanged path, when there is none.
  std::optional<PageId> Follow(Path& path, PageTokens tokens);

  // Goes on to `page`, which holds the computed `tokens` behind the path, and keeps it. Returns the page to use from now on:
  // another one when the tree has the same page already (equal contents; the caller changes its reference).
  PageId Extend(Path& path, PageTokens tokens, PageId page);

  // Leaves the path; what is in no other path stays as cache.
  void Close(Path& path);

  // Gives up the cached leaf that was used longest ago, which makes its page free. False: there is none.
  bool EvictOne();

  // Pages that the tree holds.
  int32_t pages() const { return pages_; }
  // Of those, pages in no path.
  int32_t cached_pages() const { return cached_pages_; }

  static PrefixHash HashPage(const PrefixHash& parent, PageTokens tokens);

 private:
  struct Node {
    std::array<uint32_t, kPageTokens> tokens;
    PrefixHash hash;
    PageId page = 0;
    // ≥ 0: a node; < 0: root -(parent + 1).
    int32_t parent = 0;
    int32_t children = 0;
    // Paths through this node.
    int32_t paths = 0;
    int32_t next_in_bucket = -1;
    // When a path last left it; orders eviction.
    uint64_t last_used = 0;
  };
  struct Root {
    std::string salt;
    PrefixHash hash;
    // Paths and nodes right below; the root goes when none is left.
    int32_t references = 0;
  };

  // How many nodes of one bucket are looked at. Honest hashes need 1 or 2; more means a constant hash or an attack.
  static constexpr int kMostProbes = 16;

  // The child of the path's end with these tokens, or -1. `full` reports that the bucket takes no more nodes.
  int32_t Find(const Path& path, const PrefixHash& hash, PageTokens tokens, bool* full) const;
  PrefixHash HashOf(const Path& path) const;
  int32_t ParentCode(const Path& path) const { return path.node_ >= 0 ? path.node_ : -path.root_ - 1; }
  void Enter(Path& path, int32_t node);
  void Remove(int32_t node);
  void ReleaseRoot(int32_t root);
  size_t Bucket(const PrefixHash& hash) const { return hash.low & (buckets_.size() - 1); }

  PagePool& pool_;
  const HashFunction hash_;
  std::vector<Node> nodes_;
  std::vector<int32_t> free_nodes_;
  std::vector<int32_t> buckets_;
  std::vector<Root> roots_;
  std::vector<int32_t> free_roots_;
  std::map<std::string, int32_t, std::less<>> root_of_salt_;
  // Nodes in no path and without children, by last use.
  std::set<std::pair<uint64_t, int32_t>> evictable_;
  uint64_t clock_ = 0;
  int32_t pages_ = 0;
  int32_t cached_pages_ = 0;
};

}  // namespace tercet::executor
