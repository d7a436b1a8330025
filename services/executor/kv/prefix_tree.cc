#include "services/executor/kv/prefix_tree.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tercet::executor {
namespace {

PrefixHash FromXxh(const XXH128_hash_t& hash) { return {.low = hash.low64, .high = hash.high64}; }

}  // namespace

PrefixHash PrefixTree::HashPage(const PrefixHash& parent, PageTokens tokens) {
  std::array<std::byte, sizeof(PrefixHash) + kPageTokens * sizeof(uint32_t)> bytes;
  std::memcpy(bytes.data(), &parent, sizeof(PrefixHash));
  std::memcpy(bytes.data() + sizeof(PrefixHash), tokens.data(), tokens.size_bytes());
  return FromXxh(XXH3_128bits(bytes.data(), bytes.size()));
}

PrefixTree::PrefixTree(PagePool& pool, HashFunction hash) : pool_(pool), hash_(hash) {
  const int32_t capacity = pool.total_pages();
  nodes_.resize(capacity);
  free_nodes_.reserve(capacity);
  for (int32_t node = capacity - 1; node >= 0; --node) free_nodes_.push_back(node);
  buckets_.assign(std::bit_ceil(static_cast<size_t>(std::max(capacity, 8)) * 2), -1);
}

PrefixTree::~PrefixTree() {
  while (EvictOne()) {
  }
}

PrefixTree::Path PrefixTree::Open(std::string_view salt) {
  auto known = root_of_salt_.find(salt);
  if (known == root_of_salt_.end()) {
    int32_t root = static_cast<int32_t>(roots_.size());
    if (free_roots_.empty()) {
      roots_.emplace_back();
    } else {
      root = free_roots_.back();
      free_roots_.pop_back();
    }
    roots_[root] = {.salt = std::string(salt), .hash = FromXxh(XXH3_128bits(salt.data(), salt.size()))};
    known = root_of_salt_.emplace(salt, root).first;
  }
  ++roots_[known->second].references;
  Path path;
  path.root_ = known->second;
  return path;
}

PrefixHash PrefixTree::HashOf(const Path& path) const {
  return path.node_ >= 0 ? nodes_[path.node_].hash : roots_[path.root_].hash;
}

int32_t PrefixTree::Find(const Path& path, const PrefixHash& hash, PageTokens tokens, bool* full) const {
  const int32_t parent = ParentCode(path);
  int probes = 0;
  for (int32_t id = buckets_[Bucket(hash)]; id >= 0; id = nodes_[id].next_in_bucket) {
    const Node& node = nodes_[id];
    if (node.hash == hash && node.parent == parent && std::equal(tokens.begin(), tokens.end(), node.tokens.begin())) {
      return id;
    }
    ++probes;
  }
  *full = probes >= kMostProbes;
  return -1;
}

void PrefixTree::Enter(Path& path, int32_t id) {
  Node& node = nodes_[id];
  if (node.paths++ == 0) {
    --cached_pages_;
    if (node.children == 0) evictable_.erase({node.last_used, id});
  }
  path.node_ = id;
  ++path.pages_;
}

std::optional<PageId> PrefixTree::Follow(Path& path, PageTokens tokens) {
  bool full = false;
  const int32_t id = path.ended_ ? -1 : Find(path, hash_(HashOf(path), tokens), tokens, &full);
  if (id < 0) return std::nullopt;
  Enter(path, id);
  return nodes_[id].page;
}

PageId PrefixTree::Extend(Path& path, PageTokens tokens, PageId page) {
  if (path.ended_) return page;
  const PrefixHash hash = hash_(HashOf(path), tokens);
  bool full = false;
  if (const int32_t known = Find(path, hash, tokens, &full); known >= 0) {
    Enter(path, known);
    return nodes_[known].page;
  }
  if (full || free_nodes_.empty()) {
    path.ended_ = true;
    return page;
  }
  const int32_t id = free_nodes_.back();
  free_nodes_.pop_back();
  Node& node = nodes_[id];
  std::copy(tokens.begin(), tokens.end(), node.tokens.begin());
  node.hash = hash;
  node.page = page;
  node.parent = ParentCode(path);
  node.children = 0;
  node.paths = 1;
  node.last_used = clock_;
  int32_t& bucket = buckets_[Bucket(hash)];
  node.next_in_bucket = bucket;
  bucket = id;
  if (path.node_ >= 0) {
    // The parent is in this path, hence not among the evictable.
    ++nodes_[path.node_].children;
  } else {
    ++roots_[path.root_].references;
  }
  pool_.Retain(page);
  ++pages_;
  path.node_ = id;
  ++path.pages_;
  return page;
}

void PrefixTree::Close(Path& path) {
  if (path.root_ < 0) return;
  ++clock_;
  for (int32_t id = path.node_; id >= 0; id = nodes_[id].parent) {
    Node& node = nodes_[id];
    node.last_used = clock_;
    if (--node.paths == 0) {
      ++cached_pages_;
      if (node.children == 0) evictable_.insert({node.last_used, id});
    }
  }
  ReleaseRoot(path.root_);
  path = Path();
}

bool PrefixTree::EvictOne() {
  if (evictable_.empty()) return false;
  const int32_t id = evictable_.begin()->second;
  evictable_.erase(evictable_.begin());
  Remove(id);
  return true;
}

void PrefixTree::Remove(int32_t id) {
  Node& node = nodes_[id];
  int32_t* link = &buckets_[Bucket(node.hash)];
  while (*link != id) link = &nodes_[*link].next_in_bucket;
  *link = node.next_in_bucket;
  if (node.parent >= 0) {
    Node& parent = nodes_[node.parent];
    if (--parent.children == 0 && parent.paths == 0) evictable_.insert({parent.last_used, node.parent});
  } else {
    ReleaseRoot(-node.parent - 1);
  }
  pool_.Release(node.page);
  free_nodes_.push_back(id);
  --pages_;
  --cached_pages_;
}

void PrefixTree::ReleaseRoot(int32_t root) {
  if (--roots_[root].references > 0) return;
  root_of_salt_.erase(roots_[root].salt);
  roots_[root].salt.clear();
  free_roots_.push_back(root);
}

}  // namespace tercet::executor
