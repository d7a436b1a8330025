// Which part of a draft stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tercet::executor {

// `draft` are k proposed ids; `own` are the k + 1 ids the target itself draws at those positions, each given that all
// drafts before it stand. A draft stands while it equals the target's own token, so what the sequence continues with is
// own[0 … result], whatever was proposed: with and without drafts the text is the same.
// Returns the number of accepted drafts, 0 … k. REQUIRES own.size() == draft.size() + 1.
inline size_t AcceptedDrafts(std::span<const uint32_t> draft, std::span<const uint32_t> own) {
  size_t accepted = 0;
  while (accepted < draft.size() && draft[accepted] == own[accepted]) ++accepted;
  return accepted;
}

}  // namespace tercet::executor
