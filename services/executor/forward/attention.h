// Attention of one layer over pages, shared out over the workers.
//
// Work is cut into tiles (up to kTileRows neighbouring rows of one span × one key-value head, whose queries share the keys
// they load) and chunks of 256 positions at absolute boundaries. With many tiles each worker does whole tiles; with few, the
// chunks of a tile go to different workers and are put together after a barrier. Both ways compute the same bits.
//
// Owns scratch memory only. Prepare is called by one thread, the other functions by all workers.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <vector>

#include "services/executor/forward/worker_team.h"
#include "services/executor/kv/block_table.h"
#include "services/executor/memory/huge_buffer.h"
#include "services/executor/model/hyperparameters.h"

namespace tercet::executor {

struct ForwardSpan;

class Attention {
 public:
  // Chunks of the longest sequence: 262,144 tokens.
  static constexpr int32_t kMaxChunks = 1024;

  Attention(const Hyperparameters& hyper, const PagePool& pool, int workers, int32_t max_rows, int32_t context);

  // RESOURCE_EXHAUSTED when scratch memory cannot be had.
  absl::Status AllocateScratch();
  size_t scratch_bytes() const { return scratch_.bytes(); }

  // Cuts the spans of a pass into tiles.
  void Prepare(std::span<const ForwardSpan> spans);

  // Computes all queries of `layer`: row r's head h at q + r·q_stride + h·head_dim, its result at out + r·out_stride +
  // h·head_dim. Ends with a barrier.
  void Run(int32_t layer, const float* q, int64_t q_stride, float* out, int64_t out_stride, WorkerTeam& team, int worker,
           int workers);

 private:
  static constexpr int32_t kTileRows = 8;

  struct Tile {
    const BlockTable* table;
    int32_t first_row;       // in the pass
    int32_t rows;            // 1 … kTileRows
    int32_t first_position;  // of first_row
  };
  // Results of the chunks of one tile and head: [chunk][query].
  struct Partial {
    float* max;
    float* sum;
    float* out;  // [chunk][query][head_dim]
  };

  struct Window {
    int32_t first_chunk, chunks;
  };
  Window ChunksOf(const Tile& tile, bool sliding) const;
  void AttendOne(const Tile& tile, int32_t kv_head, int32_t layer, int32_t chunk, const Partial& partial, int32_t slot,
                 const float* q, int64_t q_stride, int worker) const;
  void Merge(const Tile& tile, int32_t kv_head, int32_t chunks, const Partial& partial, int32_t query, float* out,
             int64_t out_stride) const;
  Partial Scratch(int index) const;
  float* QueryScratch(int worker) const;
  size_t QueryFloats() const { return size_t{1} * tile_queries_ * hyper_.head_dim; }

  const Hyperparameters& hyper_;
  const PagePool& pool_;
  const int workers_;
  const int32_t max_chunks_;
  const int32_t tile_queries_;  // most queries of a tile
  const int32_t split_below_;   // with fewer tiles × heads than this, chunks are shared out
  const int32_t partials_;
  size_t scratch_floats_;       // of one Partial
  HugeBuffer scratch_;
  std::vector<Tile> tiles_;
};

}  // namespace tercet::executor
