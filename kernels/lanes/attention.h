// Attention over a chunk of pages. Internal to kernels/; include after a vocabulary. Bits and layouts: attention.h.
#pragma once

#include "kernels/attention.h"
#include "kernels/lanes/exp.h"
#include "kernels/lanes/float_tile.h"
#include "kernels/lanes/inline.h"

namespace tercet::kernels {
namespace {

struct Range {
  int64_t begin, end;
};

// kTokens neighbouring queries of a chunk, which share the loads of keys and values.
template <int kTokens>
class QueryTile {
 public:
  TERCET_INLINE QueryTile(const AttentionChunk& chunk, int64_t first) : chunk_(chunk), first_(first) {
    for (int i = 0; i < kTokens; ++i) {
      const int64_t begin = Larger(chunk.query_begin[first + i] - chunk.first_position, 0);
      const int64_t end = Smaller(chunk.query_end[first + i] - chunk.first_position, chunk.tokens);
      visible_[i] = begin < end ? Range{begin, end} : Range{0, 0};
    }
  }

  TERCET_INLINE void Attend() {
    Scores();
    for (int i = 0; i < kTokens; ++i) Softmax(i);
    // The positions that all see go by tiles; those that some see, before and after, query by query.
    Range common = {0, chunk_.tokens};
    for (int i = 0; i < kTokens; ++i) common = Intersection(common, visible_[i]);
    for (int i = 0; i < kTokens; ++i) {
      float* out = Out(i);
      for (int64_t d = 0; d < chunk_.head_dim; d += kLanes) Store(out + d, Zero());
      WeightedSum<1>(i, {visible_[i].begin, common.begin < common.end ? common.begin : visible_[i].end});
    }
    if (common.begin >= common.end) return;
    WeightedSum<kTokens>(0, common);
    for (int i = 0; i < kTokens; ++i) WeightedSum<1>(i, {common.end, visible_[i].end});
  }

 private:
  static TERCET_INLINE Range Intersection(Range a, Range b) {
    return {Larger(a.begin, b.begin), Smaller(a.end, b.end)};
  }
  TERCET_INLINE float* Out(int i) { return chunk_.out + (first_ + i) * chunk_.out_stride; }
  static TERCET_INLINE const std::byte* Page(const uint16_t* page) { return reinterpret_cast<const std::byte*>(page); }

  // The scores of all pages of which some query sees something.
  TERCET_INLINE void Scores() {
    Range seen = {chunk_.tokens, 0};
    for (const Range& range : visible_) {
      if (range.begin < range.end) seen = {Smaller(seen.begin, range.begin), Larger(seen.end, range.end)};
    }
    constexpr int kPanels = kFloatTilePanels[kTokens];
    int64_t page = seen.begin / kPageTokens;
    const int64_t end = (seen.end + kPageTokens - 1) / kPageTokens;
    for (; page + kPanels <= end; page += kPanels) ScorePages<kPanels>(page);
    for (; kPanels > 1 && page < end; ++page) ScorePages<1>(page);
  }

  template <int kPages>
  TERCET_INLINE void ScorePages(int64_t page) {
    const std::byte* keys[kPages];
    F32 acc[kPages][kTokens];
    Unroll<kPages>([&](auto p) TERCET_INLINE_LAMBDA {
      keys[p.value] = Page(chunk_.k_pages[page + p.value]);
      Unroll<kTokens>([&](auto t) TERCET_INLINE_LAMBDA { acc[p.value][t.value] = Zero(); });
    });
    FloatTile<Format::kF16, kPages, kTokens>(keys, 2 * kPageTokens, chunk_.head_dim, chunk_.q + first_ * chunk_.q_stride,
                                             chunk_.q_stride, acc);
    Unroll<kPages>([&](auto p) TERCET_INLINE_LAMBDA {
      Unroll<kTokens>([&](auto t) TERCET_INLINE_LAMBDA {
        Store(&score_[t.value][(page + p.value) * kPageTokens], acc[p.value][t.value]);
      });
    });
  }

  // Turns the scores of query i into p, 0 where it does not see.
  TERCET_INLINE void Softmax(int i) {
    const Range visible = visible_[i];
    float* score = score_[i];
    const auto seen = [&](int64_t t) TERCET_INLINE_LAMBDA {
      return LanesBetween(static_cast<int>(visible.begin - t), static_cast<int>(Smaller(visible.end - t, kLanes)));
    };
    const int64_t start = visible.begin / kPageTokens * kPageTokens;
    const F32 minus_infinity = Set(-__builtin_inff());
    F32 maxima = minus_infinity;
    for (int64_t t = start; t < visible.end; t += kLanes) {
      maxima = Max(Select(seen(t), Load(score + t), minus_infinity), maxima);
    }
    const float max = FoldMax(maxima) + 0.0f;
    F32 partial = Zero();
    for (int64_t t = start; t < visible.end; t += kLanes) {
      const F32 p = Select(seen(t), ExpLanes(Sub(Load(score + t), Set(max))), Zero());
      partial = Add(partial, p);
      Store(score + t, p);
    }
    chunk_.max[first_ + i] = max;
    chunk_.sum[first_ + i] = FoldSum(partial);
  }

  // Adds p · V of the positions in `range` to the results of queries i … i + kQueries − 1.
  template <int kQueries>
  TERCET_INLINE void WeightedSum(int i, Range range) {
    for (int64_t t = range.begin; t < range.end;) {
      const int64_t next = Smaller((t / kPageTokens + 1) * kPageTokens, range.end);
      const std::byte* values = Page(chunk_.v_pages[t / kPageTokens]) + t % kPageTokens * 2 * chunk_.head_dim;
      constexpr int kPanels = kFloatTilePanels[kQueries];
      int64_t d = 0;
      for (; d + kPanels * kLanes <= chunk_.head_dim; d += kPanels * kLanes) {
        WeightedSumOf<kPanels, kQueries>(values, d, i, t, next - t);
      }
      for (; kPanels > 1 && d < chunk_.head_dim; d += kLanes) WeightedSumOf<1, kQueries>(values, d, i, t, next - t);
      t = next;
    }
  }

  template <int kPanels, int kQueries>
  TERCET_INLINE void WeightedSumOf(const std::byte* values, int64_t d, int i, int64_t t, int64_t count) {
    const std::byte* lanes[kPanels];
    F32 acc[kPanels][kQueries];
    float* out = Out(i) + d;
    Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA {
      lanes[p.value] = values + 2 * (d + p.value * kLanes);
      Unroll<kQueries>([&](auto q) TERCET_INLINE_LAMBDA {
        acc[p.value][q.value] = Load(out + q.value * chunk_.out_stride + p.value * kLanes);
      });
    });
    FloatTile<Format::kF16, kPanels, kQueries>(lanes, 2 * chunk_.head_dim, count, &score_[i][t], kChunkTokens, acc);
    Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA {
      Unroll<kQueries>([&](auto q) TERCET_INLINE_LAMBDA {
        Store(out + q.value * chunk_.out_stride + p.value * kLanes, acc[p.value][q.value]);
      });
    });
  }

  const AttentionChunk& chunk_;
  const int64_t first_;
  Range visible_[kTokens];
  alignas(64) float score_[kTokens][kChunkTokens];
};

template <int kTokens>
__attribute__((noinline)) void AttendTile(const AttentionChunk& chunk, int64_t first) {
  QueryTile<kTokens>(chunk, first).Attend();
}

void AttendChunkLanes(const AttentionChunk& chunk) {
  ForTokenTiles<kFloatTileTokens>(0, chunk.queries, [&](auto tokens, int64_t first) TERCET_INLINE_LAMBDA {
    AttendTile<tokens.value>(chunk, first);
  });
}

void MergeChunksLanes(int64_t chunks, const float* max, const float* sum, const float* const* out, int64_t head_dim,
                      float* result) {
  float largest = -__builtin_inff();
  for (int64_t c = 0; c < chunks; ++c) {
    if (max[c] > largest) largest = max[c];
  }
  for (int64_t d = 0; d < head_dim; d += kLanes) Store(result + d, Zero());
  float total = 0.0f;
  bool any = false;
  for (int64_t c = 0; c < chunks; ++c) {
    if (sum[c] == 0.0f) continue;
    any = true;
    const F32 weight = ExpLanes(Set(max[c] - largest));
    total = __builtin_fmaf(sum[c], FirstLane(weight), total);
    for (int64_t d = 0; d < head_dim; d += kLanes) {
      Store(result + d, Fma(Load(out[c] + d), weight, Load(result + d)));
    }
  }
  if (!any) return;
  const F32 inverse = Set(1.0f / total);
  for (int64_t d = 0; d < head_dim; d += kLanes) Store(result + d, Mul(Load(result + d), inverse));
}

void StoreKvLanes(const float* k, const float* v, int64_t head_dim, int64_t slot, uint16_t* k_page, uint16_t* v_page) {
  for (int64_t d = 0; d < head_dim; d += kLanes) {
    StoreHalf(v_page + slot * head_dim + d, Load(v + d));
    uint16_t key[kLanes];
    StoreHalf(key, Load(k + d));
    for (int64_t i = 0; i < kLanes; ++i) k_page[(d + i) * kPageTokens + slot] = key[i];
  }
}

}  // namespace
}  // namespace tercet::kernels
