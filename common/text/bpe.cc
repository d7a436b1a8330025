#include "common/text/bpe.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <queue>

#include "common/text/byte_alphabet.h"

namespace tercet::text {
namespace {

constexpr uint32_t kNone = 0xffffffff;

// A token of the piece being merged, linked to its neighbours; a dead one has id kNone.
struct Symbol {
  uint32_t id;
  uint32_t previous;
  uint32_t next;
};

struct Candidate {
  uint32_t rank;
  uint32_t left;  // index of the left symbol, which orders equals
  uint32_t left_id, right_id;
  uint32_t merged_id;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

}  // namespace

absl::StatusOr<BytePairEncoder> BytePairEncoder::Create(const Vocabulary& vocabulary, bool whole_piece_first) {
  BytePairEncoder encoder;
  encoder.whole_piece_first_ = whole_piece_first;
  // By spelling, of all tokens: merges name tokens so. The first of equal spellings counts.
  absl::flat_hash_map<std::string_view, uint32_t> id_of_token;
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    id_of_token.try_emplace(vocabulary.token(id), id);
    if (vocabulary.type(id) == TokenType::kNormal) encoder.id_of_bytes_.try_emplace(vocabulary.piece(id), id);
  }
  for (int byte = 0; byte < 256; ++byte) {
    auto found = id_of_token.find(TokenOfByte(static_cast<unsigned char>(byte)));
    // Some vocabularies leave out bytes that no valid UTF-8 holds; no text that is encoded holds them either.
    bool in_utf8 = byte != 0xc0 && byte != 0xc1 && byte < 0xf5;
    if (found == id_of_token.end() && in_utf8 && !vocabulary.unknown().has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.tokens has no token for the byte ", byte, " and no unknown token"));
    }
    encoder.id_of_byte_[byte] = found != id_of_token.end() ? found->second : vocabulary.unknown().value_or(0);
  }
  for (size_t rank = 0; rank < vocabulary.merges().size(); ++rank) {
    const std::string& merge = vocabulary.merges()[rank];
    size_t space = merge.find(' ', 1);
    if (space == std::string::npos || space + 1 == merge.size()) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.merges[", rank, "] is not two tokens and a space"));
    }
    std::string_view left = std::string_view(merge).substr(0, space), right = std::string_view(merge).substr(space + 1);
    auto left_id = id_of_token.find(left), right_id = id_of_token.find(right);
    auto merged_id = id_of_token.find(absl::StrCat(std::string(left), std::string(right)));
    // A merge between or into texts that are no tokens can never happen.
    if (left_id == id_of_token.end() || right_id == id_of_token.end() || merged_id == id_of_token.end()) continue;
    encoder.merges_.try_emplace(Pair(left_id->second, right_id->second),
                                Merge{static_cast<uint32_t>(rank), merged_id->second});
  }
  return encoder;
}

void BytePairEncoder::Encode(std::string_view piece, std::vector<uint32_t>* ids) const {
  if (whole_piece_first_ || piece.size() == 1) {
    auto whole = id_of_bytes_.find(piece);
    if (whole != id_of_bytes_.end()) {
      ids->push_back(whole->second);
      return;
    }
  }
  std::vector<Symbol> symbols(piece.size());
  std::vector<Candidate> heap;
  auto offer = [&](uint32_t left, uint32_t right) {
    auto merge = merges_.find(Pair(symbols[left].id, symbols[right].id));
    if (merge == merges_.end()) return;
    heap.push_back({merge->second.rank, left, symbols[left].id, symbols[right].id, merge->second.id});
  };
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    symbols[i] = {id_of_byte_[static_cast<unsigned char>(piece[i])], i == 0 ? kNone : i - 1,
                  i + 1 == symbols.size() ? kNone : i + 1};
    if (i > 0) offer(i - 1, i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[best.left];
    // Outdated if one of the two has been merged since.
    if (left.id != best.left_id || left.next == kNone || symbols[left.next].id != best.right_id) continue;
    Symbol& right = symbols[left.next];
    left.id = best.merged_id;
    left.next = right.next;
    right.id = kNone;
    for (uint32_t at : {left.previous, best.left}) {
      if (at == kNone || symbols[at].next == kNone) continue;
      size_t before = heap.size();
      if (at == best.left) symbols[left.next].previous = best.left;
      offer(at, symbols[at].next);
      if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) ids->push_back(symbols[i].id);
}

}  // namespace tercet::text
