#include "services/executor/forward/attention.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/attention.h"
#include "services/executor/forward/forward.h"

namespace tercet::executor {
namespace {

constexpr int32_t kChunk = kernels::kChunkTokens;
constexpr int32_t kChunkPages = kChunk / kPageTokens;
// The most queries of a tile, over all models: 8 rows × up to 64 heads that share keys.
constexpr int32_t kMaxTileQueries = 512;
static_assert(kernels::kPageTokens == kPageTokens);

}  // namespace

Attention::Attention(const Hyperparameters& hyper, const PagePool& pool, int workers, int32_t max_rows, int32_t context)
    : hyper_(hyper),
      pool_(pool),
      workers_(workers),
      max_chunks_((context + kChunk - 1) / kChunk),
      tile_queries_(std::min(kTileRows * hyper.group(), kMaxTileQueries)),
      split_below_(4 * workers),
      partials_(std::max(workers, split_below_)),
      scratch_floats_(size_t{1} * max_chunks_ * tile_queries_ * (hyper.head_dim + 2)) {
  tiles_.reserve(max_rows);
}

absl::Status Attention::AllocateScratch() {
  // A Partial for each worker's tile, or for each of the few tiles whose chunks are shared out; and a worker's queries.
  absl::StatusOr<HugeBuffer> scratch =
      HugeBuffer::Allocate(sizeof(float) * (scratch_floats_ * partials_ + QueryFloats() * workers_));
  if (!scratch.ok()) return scratch.status();
  scratch_ = *std::move(scratch);
  return absl::OkStatus();
}

Attention::Partial Attention::Scratch(int index) const {
  float* base = reinterpret_cast<float*>(scratch_.data()) + scratch_floats_ * index;
  size_t results = size_t{1} * max_chunks_ * tile_queries_;
  return {base, base + results, base + 2 * results};
}

float* Attention::QueryScratch(int worker) const {
  return reinterpret_cast<float*>(scratch_.data()) + scratch_floats_ * partials_ + QueryFloats() * worker;
}

void Attention::Prepare(std::span<const ForwardSpan> spans) {
  tiles_.clear();
  int32_t row = 0;
  int32_t tile_rows = std::max(1, tile_queries_ / hyper_.group());
  for (const ForwardSpan& span : spans) {
    int32_t count = static_cast<int32_t>(span.tokens.size());
    for (int32_t done = 0; done < count; done += tile_rows) {
      tiles_.push_back({span.table, row + done, std::min(tile_rows, count - done), span.first_position + done});
    }
    row += count;
  }
}

Attention::Window Attention::ChunksOf(const Tile& tile, bool sliding) const {
  int32_t end = tile.first_position + tile.rows;
  int32_t begin = sliding ? std::max(0, tile.first_position - hyper_.window + 1) : 0;
  int32_t first = begin / kChunk;
  return {first, (end + kChunk - 1) / kChunk - first};
}

void Attention::AttendOne(const Tile& tile, int32_t kv_head, int32_t layer, int32_t chunk, const Partial& partial,
                          int32_t slot, const float* q, int64_t q_stride, int worker) const {
  std::array<int32_t, kMaxTileQueries> begins, ends;
  std::array<const uint16_t*, kChunkPages> k_pages, v_pages;
  int32_t group = hyper_.group();
  bool sliding = hyper_.sliding(layer);
  for (int32_t row = 0; row < tile.rows; ++row) {
    int32_t position = tile.first_position + row;
    for (int32_t i = 0; i < group; ++i) {
      begins[row * group + i] = sliding ? std::max(0, position - hyper_.window + 1) : 0;
      ends[row * group + i] = position + 1;
    }
  }
  int32_t first_position = chunk * kChunk;
  int32_t tokens = std::min(kChunk, tile.first_position + tile.rows - first_position);
  for (int32_t page = 0; page * kPageTokens < tokens; ++page) {
    PageId id = tile.table->page(first_position / kPageTokens + page);
    k_pages[page] = pool_.k(id, layer, kv_head);
    v_pages[page] = pool_.v(id, layer, kv_head);
  }
  // Queries of one row lie side by side already; those of several rows are brought together, so that one call shares the
  // loads of keys and values among all of them.
  int32_t head_dim = hyper_.head_dim;
  const float* source = q + tile.first_row * q_stride + int64_t{1} * kv_head * group * head_dim;
  if (tile.rows > 1) {
    float* gathered = QueryScratch(worker);
    for (int32_t row = 0; row < tile.rows; ++row) {
      std::memcpy(gathered + int64_t{1} * row * group * head_dim, source + row * q_stride,
                  sizeof(float) * group * head_dim);
    }
    source = gathered;
  }
  size_t result = size_t{1} * slot * tile_queries_;
  kernels::AttendChunk({
      .q = source,
      .queries = tile.rows * group,
      .q_stride = head_dim,
      .query_begin = begins.data(),
      .query_end = ends.data(),
      .k_pages = k_pages.data(),
      .v_pages = v_pages.data(),
      .first_position = first_position,
      .tokens = tokens,
      .head_dim = head_dim,
      .max = partial.max + result,
      .sum = partial.sum + result,
      .out = partial.out + result * head_dim,
      .out_stride = head_dim,
  });
}

void Attention::Merge(const Tile& tile, int32_t kv_head, int32_t chunks, const Partial& partial, int32_t query,
                      float* out, int64_t out_stride) const {
  std::array<float, kMaxChunks> max, sum;
  std::array<const float*, kMaxChunks> parts;
  int32_t group = hyper_.group(), head_dim = hyper_.head_dim;
  for (int32_t chunk = 0; chunk < chunks; ++chunk) {
    size_t result = size_t{1} * chunk * tile_queries_ + query;
    max[chunk] = partial.max[result];
    sum[chunk] = partial.sum[result];
    parts[chunk] = partial.out + result * head_dim;
  }
  int32_t row = tile.first_row + query / group, head = kv_head * group + query % group;
  kernels::MergeChunks(chunks, max.data(), sum.data(), parts.data(), head_dim, out + row * out_stride + head * head_dim);
}

void Attention::Run(int32_t layer, const float* q, int64_t q_stride, float* out, int64_t out_stride, WorkerTeam& team,
                    int worker, int workers) {
  bool sliding = hyper_.sliding(layer);
  int32_t items = static_cast<int32_t>(tiles_.size()) * hyper_.kv_heads;
  if (items >= split_below_) {
    Partial partial = Scratch(worker);
    // Dealt out in turn: later tiles of a prompt see more, so contiguous shares would be uneven.
    for (int32_t item = worker; item < items; item += workers) {
      const Tile& tile = tiles_[item / hyper_.kv_heads];
      int32_t kv_head = item % hyper_.kv_heads;
      Window window = ChunksOf(tile, sliding);
      for (int32_t i = 0; i < window.chunks; ++i) {
        AttendOne(tile, kv_head, layer, window.first_chunk + i, partial, i, q, q_stride, worker);
      }
      for (int32_t query = 0; query < tile.rows * hyper_.group(); ++query) {
        Merge(tile, kv_head, window.chunks, partial, query, out, out_stride);
      }
    }
    team.Barrier(worker);
    return;
  }
  int32_t turn = 0;
  for (int32_t item = 0; item < items; ++item) {
    const Tile& tile = tiles_[item / hyper_.kv_heads];
    Window window = ChunksOf(tile, sliding);
    for (int32_t i = 0; i < window.chunks; ++i) {
      if (turn++ % workers != worker) continue;
      AttendOne(tile, item % hyper_.kv_heads, layer, window.first_chunk + i, Scratch(item), i, q, q_stride, worker);
    }
  }
  team.Barrier(worker);
  turn = 0;
  for (int32_t item = 0; item < items; ++item) {
    const Tile& tile = tiles_[item / hyper_.kv_heads];
    Window window = ChunksOf(tile, sliding);
    for (int32_t query = 0; query < tile.rows * hyper_.group(); ++query) {
      if (turn++ % workers != worker) continue;
      Merge(tile, item % hyper_.kv_heads, window.chunks, Scratch(item), query, out, out_stride);
    }
  }
  team.Barrier(worker);
}

}  // namespace tercet::executor
