// Where prompts went: chain hashes of their full pages, each with the executor that last computed it.
//
// A guess, for routing only: the executor's own prefix tree decides what is really cached. Capped; the oldest entries leave
// first. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <list>
#include <string>
#include <vector>

namespace tercet::scheduler {

class PrefixMap {
 public:
  explicit PrefixMap(size_t capacity) : capacity_(capacity) {}

  // Chain hash of each full page of `ids`, under `salt`.
  static std::vector<uint64_t> Chain(const std::string& salt, const uint32_t* ids, size_t count, uint32_t page_tokens);

  // How many leading pages of `chain` were last sent to `executor`.
  size_t Match(const std::vector<uint64_t>& chain, uint32_t executor) const;

  void Insert(const std::vector<uint64_t>& chain, uint32_t executor);

  // Forgets an executor that went away.
  void Purge(uint32_t executor);

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint32_t executor;
    std::list<uint64_t>::iterator age;
  };
  size_t capacity_;
  std::list<uint64_t> ages_;  // oldest first
  absl::flat_hash_map<uint64_t, Entry> entries_;
};

}  // namespace tercet::scheduler
