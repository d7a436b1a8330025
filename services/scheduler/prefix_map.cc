#include "services/scheduler/prefix_map.h"

#include <xxhash.h>

namespace tercet::scheduler {

std::vector<uint64_t> PrefixMap::Chain(const std::string& salt, const uint32_t* ids, size_t count,
                                       uint32_t page_tokens) {
  std::vector<uint64_t> chain;
  uint64_t parent = XXH3_64bits(salt.data(), salt.size());
  for (size_t end = page_tokens; end <= count; end += page_tokens) {
    parent = XXH3_64bits_withSeed(ids + end - page_tokens, page_tokens * sizeof(uint32_t), parent);
    chain.push_back(parent);
  }
  return chain;
}

size_t PrefixMap::Match(const std::vector<uint64_t>& chain, uint32_t executor) const {
  size_t pages = 0;
  for (uint64_t hash : chain) {
    auto entry = entries_.find(hash);
    if (entry == entries_.end() || entry->second.executor != executor) break;
    ++pages;
  }
  return pages;
}

void PrefixMap::Insert(const std::vector<uint64_t>& chain, uint32_t executor) {
  for (uint64_t hash : chain) {
    auto found = entries_.find(hash);
    if (found != entries_.end()) {
      ages_.splice(ages_.end(), ages_, found->second.age);
      found->second.executor = executor;
      continue;
    }
    if (entries_.size() >= capacity_) {
      entries_.erase(ages_.front());
      ages_.pop_front();
    }
    ages_.push_back(hash);
    entries_.emplace(hash, Entry{executor, std::prev(ages_.end())});
  }
}

void PrefixMap::Purge(uint32_t executor) {
  for (auto age = ages_.begin(); age != ages_.end();) {
    auto entry = entries_.find(*age);
    if (entry->second.executor == executor) {
      entries_.erase(entry);
      age = ages_.erase(age);
    } else {
      ++age;
    }
  }
}

}  // namespace tercet::scheduler
