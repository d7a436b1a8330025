#include "services/executor/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "kernels/gather.h"
#include "tests/services/executor/tiny_model.h"

namespace tercet::executor {
namespace {

using kernels::Format;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Model>> LoadTiny(const TinyFile& tiny, int workers = 2) {
  std::vector<std::byte> bytes = tiny.Build();
  auto file = gguf::File::Parse(bytes);
  if (!file.ok()) return file.status();
  WorkerTeam team(workers);
  return Model::Load(**file, team, {});
}

// The status of a model after a change.
absl::Status StatusAfter(const std::function<void(TinyFile&)>& change, const TinyModelOptions& options = {}) {
  TinyFile tiny = MakeTinyFile(options);
  change(tiny);
  return LoadTiny(tiny).status();
}

MATCHER_P2(IsRefused, code, message, "") {
  *result_listener << arg;
  return arg.code() == code && testing::Value(std::string(arg.message()), HasSubstr(message));
}
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

TEST(Model, PacksWhatTheFileHolds) {
  for (Format format : kernels::kAllFormats) {
    SCOPED_TRACE(kernels::FormatName(format));
    TinyFile tiny = MakeTinyFile({.format = format, .width = 256, .head_dim = 64, .mlp_width = 256});
    auto model = LoadTiny(tiny, 3);
    ASSERT_TRUE(model.ok()) << model.status();
    const TinyTensor& tensor = tiny.Tensor("blk.1.ffn_up.weight");
    const kernels::PackedMatrix& packed = (*model)->layers()[1].up;
    for (int64_t row = 0; row < packed.rows; ++row) {
      std::vector<float> expected(packed.cols), actual(packed.cols);
      kernels::DequantizeRow(format, tensor.data.data() + row * kernels::RowBytes(format, packed.cols), packed.cols,
                             expected.data());
      kernels::GatherRow(packed, row, actual.data());
      ASSERT_EQ(actual, expected) << "row " << row;
    }
  }
}

TEST(Model, ItsHashIsThatOfWhatItComputes) {
  auto hash = [](const std::function<void(TinyFile&)>& change, int workers = 2) {
    TinyFile tiny = MakeTinyFile({});
    change(tiny);
    auto model = LoadTiny(tiny, workers);
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->hash();
  };
  std::string plain = hash([](TinyFile&) {});
  EXPECT_EQ(plain.size(), 16u);
  EXPECT_EQ(hash([](TinyFile&) {}, 1), plain);
  EXPECT_EQ(hash([](TinyFile& f) { f.SetString("general.name", "another name"); }), plain);
  EXPECT_NE(hash([](TinyFile& f) { f.Tensor("blk.1.attn_v.weight").data[100] ^= std::byte{1}; }), plain);
  EXPECT_NE(hash([](TinyFile& f) { f.SetFloat("llama.rope.freq_base", 10001); }), plain);
}

TEST(Model, ReportsItsProgressUpToOne) {
  std::vector<std::byte> bytes = MakeTinyModel({});
  auto file = gguf::File::Parse(bytes);
  WorkerTeam team(2);
  std::vector<double> shares;
  ASSERT_TRUE(Model::Load(**file, team, {.progress = [&](double share) { shares.push_back(share); }}).ok());
  ASSERT_GT(shares.size(), 2u);
  EXPECT_EQ(shares.back(), 1);
  for (double share : shares) EXPECT_TRUE(share >= 0 && share <= 1) << share;
}

TEST(Model, UnknownArchitecturesAreRefusedByName) {
  EXPECT_THAT(StatusAfter([](TinyFile& f) { f.SetString("general.architecture", "mamba"); }),
              IsRefused(kUnimplemented, "\"mamba\""));
  EXPECT_THAT(StatusAfter([](TinyFile& f) { f.RemoveKey("general.architecture"); }),
              IsRefused(absl::StatusCode::kNotFound, "general.architecture"));
}

TEST(Model, FeaturesThatAreNotComputedAreRefusedByName) {
  EXPECT_THAT(StatusAfter([](TinyFile& f) { f.SetUint("llama.expert_count", 8); }), IsRefused(kUnimplemented, "expert_count"));
  EXPECT_TRUE(StatusAfter([](TinyFile& f) { f.SetUint("llama.expert_count", 0); }).ok());
  EXPECT_THAT(StatusAfter([](TinyFile& f) { f.SetFloat("llama.final_logit_softcapping", 30); }),
              IsRefused(kUnimplemented, "final_logit_softcapping"));
  EXPECT_TRUE(StatusAfter([](TinyFile& f) { f.SetFloat("llama.final_logit_softcapping", 0); }).ok());
  EXPECT_THAT(StatusAfter([](TinyFile& f) { f.SetString("llama.rope.scaling.type", "yarn"); }),
              IsRefused(kUnimplemented, "\"yarn\""));
  EXPECT_THAT(StatusAfter([](TinyFile& f) { f.SetUint("llama.rope.scaling.type", 1); }), IsRefused(kInvalid, "rope.scaling.type"));
  EXPECT_THAT(StatusAfter([](TinyFile& f) { f.SetUint("llama.attention.sliding_window", 100); }),
              IsRefused(kUnimplemented, "sliding_window"));
  // Biases of an architecture that has none would be left out in silence.
  EXPECT_THAT(StatusAfter([](TinyFile& f) { f.tensors.push_back({"blk.0.attn_q.bias", 0, {64}, std::vector<std::byte>(256)}); }),
              IsRefused(kUnimplemented, "blk.0.attn_q.bias"));
}

TEST(Model, MissingTensorsAreNamed) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    TinyModelOptions options{.architecture = architecture, .layers = 1};
    for (const TinyTensor& tensor : MakeTinyFile(options).tensors) {
      EXPECT_THAT(StatusAfter([&](TinyFile& f) { f.RemoveTensor(tensor.name); }, options),
                  IsRefused(kInvalid, "tensor " + tensor.name + " is missing"));
    }
  }
}

TEST(Model, WrongShapesAreNamed) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    TinyModelOptions options{.architecture = architecture, .layers = 1};
    for (const TinyTensor& tensor : MakeTinyFile(options).tensors) {
      // One row more than there should be; of the embedding, a vocabulary that the head does not share is no fault.
      if (tensor.name == "token_embd.weight") continue;
      auto grow = [&](TinyFile& f) {
        TinyTensor& t = f.Tensor(tensor.name);
        size_t row = t.data.size() / t.dimensions.back();
        t.data.insert(t.data.end(), row, std::byte{0});
        ++t.dimensions.back();
      };
      EXPECT_THAT(StatusAfter(grow, options), IsRefused(kInvalid, "tensor " + tensor.name + " has shape"));
    }
  }
  EXPECT_THAT(StatusAfter([](TinyFile& f) { f.Tensor("token_embd.weight").dimensions = {64 * 300}; }),
              IsRefused(kInvalid, "token_embd.weight"));
}

TEST(Model, UnsupportedTensorTypesAreNamed) {
  auto ternary = [](TinyFile& f) {
    TinyTensor& t = f.Tensor("blk.0.ffn_down.weight");  // [256, 64] as TQ1_0: 54 bytes for 256
    t.type = 34;
    t.data.assign(64 * 54, std::byte{0});
  };
  EXPECT_THAT(StatusAfter(ternary, {.mlp_width = 256}), IsRefused(kUnimplemented, "blk.0.ffn_down.weight"));
  auto half_norm = [](TinyFile& f) {
    TinyTensor& t = f.Tensor("output_norm.weight");
    t.type = 1;
    t.data.resize(128);
  };
  EXPECT_THAT(StatusAfter(half_norm), IsRefused(kUnimplemented, "output_norm.weight"));
}

TEST(Model, NormsThatAreNotFiniteAreNamed) {
  auto change = [](float value) {
    return [=](TinyFile& f) { std::memcpy(f.Tensor("blk.1.ffn_norm.weight").data.data() + 8, &value, sizeof(value)); };
  };
  EXPECT_THAT(StatusAfter(change(NAN)), IsRefused(kInvalid, "blk.1.ffn_norm.weight"));
  EXPECT_THAT(StatusAfter(change(INFINITY)), IsRefused(kInvalid, "blk.1.ffn_norm.weight"));
}

TEST(Model, ImpossibleNumbersAreRefusedByKey) {
  struct {
    const char* key;
    std::vector<uint32_t> values;
  } uints[] = {
      {"llama.block_count", {0, 1025, 0xffffffff}},
      {"llama.embedding_length", {0, 31, 1 << 20, 0xffffffff}},
      {"llama.attention.head_count", {0, 3, 1025, 0xffffffff}},
      {"llama.attention.head_count_kv", {0, 3, 8, 0xffffffff}},
      {"llama.feed_forward_length", {0, 0xffffffff}},
      {"llama.context_length", {0, 0xffffffff}},
      {"llama.rope.dimension_count", {0, 1, 17, 15, 0xffffffff}},
      {"llama.attention.key_length", {0, 8, 24, 528, 0xffffffff}},
      {"llama.attention.value_length", {0, 32, 0xffffffff}},
  };
  for (const auto& [key, values] : uints) {
    for (uint32_t value : values) {
      EXPECT_THAT(StatusAfter([&](TinyFile& f) { f.SetUint(key, value); }).code(), testing::AnyOf(kInvalid, kUnimplemented))
          << key << " = " << value;
    }
  }
  float nan = std::numeric_limits<float>::quiet_NaN();
  struct {
    const char* key;
    std::vector<float> values;
  } floats[] = {
      {"llama.attention.layer_norm_rms_epsilon", {nan, -1, INFINITY}},
      {"llama.rope.freq_base", {nan, 0, -10000, INFINITY}},
  };
  for (const auto& [key, values] : floats) {
    for (float value : values) {
      EXPECT_THAT(StatusAfter([&](TinyFile& f) { f.SetFloat(key, value); }), IsRefused(kInvalid, key)) << value;
    }
  }
  for (const char* key : {"llama.block_count", "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
    EXPECT_THAT(StatusAfter([&](TinyFile& f) { f.RemoveKey(key); }), IsRefused(absl::StatusCode::kNotFound, key));
    EXPECT_THAT(StatusAfter([&](TinyFile& f) { f.SetString(key, "many"); }), IsRefused(kInvalid, key));
  }
  auto linear = [](float factor) {
    return [=](TinyFile& f) {
      f.SetString("llama.rope.scaling.type", "linear");
      f.SetFloat("llama.rope.scaling.factor", factor);
    };
  };
  EXPECT_TRUE(StatusAfter(linear(4)).ok());
  for (float factor : {0.0f, -2.0f, nan}) EXPECT_THAT(StatusAfter(linear(factor)), IsRefused(kInvalid, "rope.scaling.factor"));
}

TEST(Model, RopeFactorsMustBePositive) {
  float zero = 0;
  EXPECT_THAT(StatusAfter([&](TinyFile& f) { std::memcpy(f.Tensor("rope_freqs.weight").data.data(), &zero, 4); },
                          {.rope_factors = true}),
              IsRefused(kInvalid, "rope_freqs.weight"));
}

TEST(Model, SlidingLayersFollowThePatternOfTheFile) {
  auto layers = [](const std::function<void(TinyFile&)>& change) {
    TinyFile tiny = MakeTinyFile({.architecture = "gemma3", .layers = 8, .window = 64});
    change(tiny);
    auto model = LoadTiny(tiny);
    EXPECT_TRUE(model.ok()) << model.status();
    std::vector<bool> sliding;
    for (int i = 0; i < 8; ++i) sliding.push_back((*model)->hyper().sliding(i));
    return sliding;
  };
  EXPECT_EQ(layers([](TinyFile&) {}), std::vector<bool>({true, true, true, true, true, false, true, true}));
  EXPECT_EQ(layers([](TinyFile& f) { f.SetUint("gemma3.attention.sliding_window_pattern", 2); }),
            std::vector<bool>({true, false, true, false, true, false, true, false}));
  EXPECT_EQ(layers([](TinyFile& f) { f.SetUint("gemma3.attention.sliding_window_pattern", 1); }), std::vector<bool>(8, false));
}

}  // namespace
}  // namespace tercet::executor
