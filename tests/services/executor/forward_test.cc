#include "services/executor/forward/forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "kernels/dispatch.h"
#include "tests/services/executor/reference_forward.h"
#include "tests/services/executor/tiny_parts.h"

namespace tercet::executor {
namespace {

using kernels::Format;
using Bits = std::vector<uint32_t>;

std::vector<uint32_t> RandomIds(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> ids(count);
  for (uint32_t& id : ids) id = random() % 300;
  return ids;
}

Bits BitsOf(std::span<const float> logits) {
  Bits bits;
  for (float logit : logits) bits.push_back(std::bit_cast<uint32_t>(logit));
  return bits;
}

// A sequence being computed: its ids, its pages, and the logits of each of its positions so far.
struct Sequence {
  Sequence(PagePool& pool, std::vector<uint32_t> all) : ids(std::move(all)), table(pool) {}

  ForwardSpan Next(int count) {
    count = std::min(count, static_cast<int>(ids.size()) - done);
    while (table.pages() * kPageTokens < done + count) EXPECT_TRUE(table.AppendNew().ok());
    ForwardSpan span{&table, std::span(ids).subspan(done, count), done, 0};
    done += count;
    return span;
  }

  std::vector<uint32_t> ids;
  BlockTable table;
  int done = 0;
  std::vector<Bits> logits;
};

// Runs one span for each sequence and notes the logits.
void RunSpans(TinyParts& parts, std::span<Sequence* const> sequences, std::span<const int> counts) {
  std::vector<ForwardSpan> spans;
  for (size_t i = 0; i < sequences.size(); ++i) spans.push_back(sequences[i]->Next(counts[i]));
  absl::Status status = parts.forward().Run(spans);
  ASSERT_TRUE(status.ok()) << status;
  int row = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    for (size_t token = 0; token < spans[i].tokens.size(); ++token) {
      sequences[i]->logits.push_back(BitsOf(parts.forward().Logits(row++)));
    }
  }
}

std::vector<Bits> LogitsInChunks(TinyParts& parts, const std::vector<uint32_t>& ids, int chunk) {
  Sequence sequence(parts.pool(), ids);
  Sequence* one[] = {&sequence};
  int counts[] = {chunk};
  while (sequence.done < static_cast<int>(ids.size())) RunSpans(parts, one, counts);
  return sequence.logits;
}

TinyOptions Options(TinyModelOptions model, int workers = 2) {
  return {.model = std::move(model), .workers = workers, .pages = 128, .max_rows = 64, .max_logit_rows = 64};
}

// The models whose bits are compared: between them every architecture, and formats mixed within a layer.
std::vector<TinyModelOptions> Models() {
  auto mixed = [](const std::string& name) {
    if (name.find("attn_v") != std::string::npos || name == "token_embd.weight") return Format::kQ8_0;
    if (name.find("ffn_down") != std::string::npos) return Format::kQ4_1;
    return Format::kQ5_0;
  };
  return {
      {.architecture = "llama", .format = Format::kQ4_1},
      {.architecture = "llama", .format = Format::kF16, .heads = 3, .kv_heads = 1, .head_dim = 32, .own_head = true},
      {.architecture = "qwen2", .format_of = mixed, .heads = 6, .kv_heads = 2, .head_dim = 32},
      {.architecture = "gemma3", .format = Format::kQ5_1, .layers = 7, .heads = 4, .kv_heads = 1, .head_dim = 32, .window = 40},
  };
}

TEST(Forward, ChunksDoNotChangeTheLogits) {
  for (const TinyModelOptions& model : Models()) {
    SCOPED_TRACE(model.architecture);
    TinyParts parts(Options(model));
    std::vector<uint32_t> ids = RandomIds(300, 7);
    std::vector<Bits> whole = LogitsInChunks(parts, ids, 64);
    for (int chunk : {1, 7, 16, 33}) EXPECT_EQ(LogitsInChunks(parts, ids, chunk), whole) << "chunks of " << chunk;
  }
}

TEST(Forward, NeighboursDoNotChangeTheLogits) {
  for (const TinyModelOptions& model : Models()) {
    SCOPED_TRACE(model.architecture);
    TinyParts parts(Options(model));
    std::vector<std::unique_ptr<Sequence>> owned;
    std::vector<Sequence*> batch;
    for (int i = 0; i < 9; ++i) {
      owned.push_back(std::make_unique<Sequence>(parts.pool(), RandomIds(40 + 11 * i, i)));
      batch.push_back(owned.back().get());
    }
    // Some prefill, some decode, each leaves when it is done.
    for (int step = 0; !batch.empty(); ++step) {
      std::vector<int> counts;
      for (size_t i = 0; i < batch.size(); ++i) counts.push_back((i + step) % 3 == 0 ? 15 : 1 + static_cast<int>(i) % 2);
      RunSpans(parts, batch, counts);
      std::erase_if(batch, [](const Sequence* s) { return s->done == static_cast<int>(s->ids.size()); });
    }
    for (int i = 0; i < 9; ++i) {
      EXPECT_EQ(owned[i]->logits, LogitsInChunks(parts, owned[i]->ids, 64)) << "sequence " << i;
    }
  }
}

TEST(Forward, WorkersDoNotChangeTheLogits) {
  for (const TinyModelOptions& model : Models()) {
    SCOPED_TRACE(model.architecture);
    std::vector<uint32_t> ids = RandomIds(280, 3);
    TinyParts alone(Options(model, 1));
    std::vector<Bits> expected = LogitsInChunks(alone, ids, 64);
    std::vector<uint32_t> start(ids.begin(), ids.begin() + 20);
    std::vector<Bits> expected_start(expected.begin(), expected.begin() + 20);
    for (int workers : {2, 3, 5}) {
      TinyParts parts(Options(model, workers));
      EXPECT_EQ(LogitsInChunks(parts, ids, 50), expected) << workers << " workers";
      EXPECT_EQ(LogitsInChunks(parts, start, 1), expected_start) << workers << " workers, one by one";
    }
  }
}

TEST(Forward, InstructionSetsDoNotChangeTheLogits) {
  std::string error;
  for (const TinyModelOptions& model : Models()) {
    SCOPED_TRACE(model.architecture);
    std::vector<uint32_t> ids = RandomIds(270, 5);
    ASSERT_TRUE(kernels::SelectIsa("scalar", &error)) << error;
    TinyParts parts(Options(model));
    std::vector<Bits> expected = LogitsInChunks(parts, ids, 64);
    for (kernels::Isa isa : kernels::kAllIsas) {
      if (kernels::TableFor(isa) == nullptr) continue;
      ASSERT_TRUE(kernels::SelectIsa(kernels::IsaName(isa), &error)) << error;
      EXPECT_EQ(LogitsInChunks(parts, ids, 64), expected) << kernels::IsaName(isa);
      EXPECT_EQ(LogitsInChunks(parts, ids, 3), expected) << kernels::IsaName(isa);
    }
    ASSERT_TRUE(kernels::SelectIsa("", &error)) << error;
  }
}

TEST(Forward, ARewindLeavesNoTrace) {
  TinyParts parts(Options({}));
  std::vector<uint32_t> ids = RandomIds(120, 1);
  std::vector<Bits> expected = LogitsInChunks(parts, ids, 64);
  Sequence sequence(parts.pool(), ids);
  Sequence* one[] = {&sequence};
  int chunk[] = {50};
  RunSpans(parts, one, chunk);
  // Nine drafts, all wrong.
  std::vector<uint32_t> drafts = RandomIds(9, 99);
  while (sequence.table.pages() * kPageTokens < 59) ASSERT_TRUE(sequence.table.AppendNew().ok());
  ForwardSpan span{&sequence.table, drafts, 50, 0};
  ASSERT_TRUE(parts.forward().Run({&span, 1}).ok());
  sequence.table.Truncate(50);
  while (sequence.done < 120) RunSpans(parts, one, chunk);
  EXPECT_EQ(sequence.logits, expected);
}

TEST(Forward, AForkGoesItsOwnWay) {
  TinyParts parts(Options({}));
  std::vector<uint32_t> ids = RandomIds(60, 1), other = ids;
  for (int i = 40; i < 60; ++i) other[i] = 299 - other[i];
  Sequence first(parts.pool(), ids), second(parts.pool(), other);
  Sequence *one[] = {&first}, *two[] = {&second};
  int chunk[] = {40}, rest[] = {20};
  RunSpans(parts, one, chunk);
  second.table.ShareAll(first.table);
  second.done = 40;
  second.logits = first.logits;
  ASSERT_TRUE(second.table.MakeWritable(40).ok());
  RunSpans(parts, two, rest);
  RunSpans(parts, one, rest);
  EXPECT_EQ(first.logits, LogitsInChunks(parts, ids, 64));
  EXPECT_EQ(second.logits, LogitsInChunks(parts, other, 64));
}

TEST(Forward, OnlyTheWantedRowsHaveLogits) {
  TinyParts parts(Options({}));
  std::vector<uint32_t> ids = RandomIds(20, 1);
  std::vector<Bits> expected = LogitsInChunks(parts, ids, 20);
  BlockTable table(parts.pool()), other(parts.pool());
  for (BlockTable* t : {&table, &other}) {
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(t->AppendNew().ok());
  }
  ForwardSpan spans[] = {{&table, std::span(ids).first(20), 0, 17}, {&other, std::span(ids).first(5), 0, 5}};
  ASSERT_TRUE(parts.forward().Run(spans).ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(BitsOf(parts.forward().Logits(i)), expected[17 + i]);
}

TEST(Forward, ImpossiblePassesAreRefused) {
  TinyParts parts(Options({}));
  BlockTable table(parts.pool());
  ASSERT_TRUE(table.AppendNew().ok());
  std::vector<uint32_t> ids = RandomIds(65, 1), unknown = {300};
  auto message = [&](ForwardSpan span) { return std::string(parts.forward().Run({&span, 1}).message()); };
  EXPECT_THAT(message({&table, std::span(ids).first(17), 0, 0}), testing::HasSubstr("pages"));
  EXPECT_THAT(message({&table, std::span(ids).first(1), 5000, 0}), testing::HasSubstr("context"));
  EXPECT_THAT(message({&table, std::span(ids).first(1), -1, 0}), testing::HasSubstr("context"));
  EXPECT_THAT(message({&table, unknown, 0, 0}), testing::HasSubstr("vocabulary"));
  while (table.pages() < 8) ASSERT_TRUE(table.AppendNew().ok());
  EXPECT_THAT(message({&table, ids, 0, 64}), testing::HasSubstr("exceeds"));
  BlockTable fork(parts.pool());
  fork.ShareAll(table);
  EXPECT_THAT(message({&fork, std::span(ids).first(1), 3, 0}), testing::HasSubstr("shared"));
}

// Distance of the pass from double precision, relative to the size of the logits.
double Distance(const TinyModelOptions& model, int length) {
  std::vector<std::byte> bytes = MakeTinyModel(model);
  auto file = gguf::File::Parse(bytes);
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<uint32_t> ids = RandomIds(length, 11);
  std::vector<ReferenceForward::Vector> expected = ReferenceForward(**file, model).Logits(ids);
  TinyParts parts(Options(model));
  std::vector<Bits> actual = LogitsInChunks(parts, ids, 30);
  double difference = 0, size = 0;
  for (int position = 0; position < length; ++position) {
    for (size_t i = 0; i < expected[position].size(); ++i) {
      double delta = std::bit_cast<float>(actual[position][i]) - expected[position][i];
      difference += delta * delta;
      size += expected[position][i] * expected[position][i];
    }
  }
  return std::sqrt(difference / size);
}

TEST(Forward, FloatWeightsGiveTheReferencesLogits) {
  std::vector<TinyModelOptions> models = {
      {.architecture = "llama"},
      {.architecture = "llama", .width = 48, .heads = 3, .kv_heads = 3, .mlp_width = 80, .own_head = true},
      {.architecture = "llama", .kv_heads = 1, .rope_factors = true},
      {.architecture = "qwen2", .heads = 4, .kv_heads = 2},
      {.architecture = "qwen2", .heads = 3, .kv_heads = 1, .head_dim = 32, .own_head = true},
      {.architecture = "gemma3", .layers = 7, .window = 24},
      {.architecture = "gemma3", .layers = 6, .heads = 4, .kv_heads = 1, .head_dim = 32, .window = 300},
      {.architecture = "gemma3"},
  };
  for (TinyModelOptions& model : models) {
    model.format = Format::kF32;
    EXPECT_LT(Distance(model, 290), 2e-4) << model.architecture << " with " << model.heads << " heads";
  }
}

TEST(Forward, EveryFormatGivesTheReferencesLogitsUpToTheRoundingOfActivations) {
  for (Format format : kernels::kAllFormats) {
    TinyModelOptions model{.format = format};
    if (kernels::BlockSize(format) == 256) {
      model.width = 256;
      model.head_dim = 64;
      model.mlp_width = 512;
    }
    EXPECT_LT(Distance(model, 40), 4e-2) << kernels::FormatName(format);
  }
}

}  // namespace
}  // namespace tercet::executor
