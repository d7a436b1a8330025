#include "kernels/quantize.h"

#include <cmath>
#include <limits>

#include "tests/kernels/testing.h"

namespace tercet::kernels {
namespace {

std::vector<QuantizedBlock> Quantize(const Table& table, const std::vector<float>& x) {
  std::vector<QuantizedBlock> blocks(QuantizedRowBlocks(static_cast<int64_t>(x.size())));
  table.quantize_row(x.data(), static_cast<int64_t>(x.size()), blocks.data());
  return blocks;
}

void ExpectSameBlocks(const std::vector<float>& x) {
  const std::vector<QuantizedBlock> expected = Quantize(Reference(), x);
  for (const auto& [name, table] : IsasUnderTest()) {
    const std::vector<QuantizedBlock> actual = Quantize(*table, x);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(std::memcmp(expected[i].q, actual[i].q, 32), 0) << name << " block " << i;
      ASSERT_TRUE(SameBits(expected[i].scale, actual[i].scale)) << name << " block " << i;
      ASSERT_TRUE(SameBits(expected[i].scaled_sum, actual[i].scaled_sum)) << name << " block " << i;
      for (int pair = 0; pair < 2; ++pair) {
        ASSERT_EQ(expected[i].pair_sums[pair], actual[i].pair_sums[pair]) << name << " block " << i;
        ASSERT_EQ(expected[i].low_pair_sums[pair], actual[i].low_pair_sums[pair]) << name << " block " << i;
      }
    }
  }
}

TEST(Quantize, FollowsItsDefinition) {
  std::vector<float> x(32, 0.0f);
  x[0] = -2.54f;
  x[1] = 0.05f;   // 2.5 steps: to even
  x[2] = 0.5f;
  x[20] = 1.27f;
  x[31] = -0.3f;
  const QuantizedBlock block = Quantize(Reference(), x)[0];
  EXPECT_EQ(block.scale, 2.54f / 127.0f);
  EXPECT_EQ(block.q[0], -127);
  EXPECT_EQ(block.q[20], std::nearbyint(1.27f * (127.0f / 2.54f)));
  EXPECT_EQ(block.low_pair_sums[0], block.q[0] + block.q[1]);
  EXPECT_EQ(block.low_pair_sums[1], block.q[2]);
  EXPECT_EQ(block.pair_sums[0], block.q[0] + block.q[1] + block.q[20]);
  EXPECT_EQ(block.pair_sums[1], block.q[2] + block.q[31]);
  EXPECT_EQ(block.scaled_sum, block.scale * static_cast<float>(block.pair_sums[0] + block.pair_sums[1]));
}

TEST(Quantize, IsWithinHalfAStep) {
  std::mt19937 random(1);
  const std::vector<float> x = RandomFloats(32 * 200, random, 3.0f);
  const std::vector<QuantizedBlock> blocks = Quantize(Reference(), x);
  for (size_t i = 0; i < x.size(); ++i) {
    const QuantizedBlock& block = blocks[i / 32];
    ASSERT_NEAR(static_cast<float>(block.q[i % 32]) * block.scale, x[i], 0.50001f * block.scale);
  }
}

TEST(Quantize, HasTheSameBitsOnEveryInstructionSet) {
  std::mt19937 random(2);
  for (const float deviation : {1e-38f, 1e-20f, 1.0f, 1e20f, 1e37f}) {
    ExpectSameBlocks(RandomFloats(32 * 500, random, deviation));
  }
  // Any bits at all, blocks with NaN and infinity among them.
  std::vector<float> x(32 * 500);
  for (float& v : x) v = std::bit_cast<float>(static_cast<uint32_t>(random()));
  ExpectSameBlocks(x);
  for (float& v : x) v = std::bit_cast<float>(static_cast<uint32_t>(random()) & 0xbfffffff);  // All finite.
  ExpectSameBlocks(x);
}

TEST(Quantize, GivesNoInfinityForTheSmallestNumbers) {
  for (const float tiny : {0.0f, -0.0f, 1e-45f, -1e-39f, 1e-37f, 0x1p-111f, 0x1p-110f, 1e-30f}) {
    std::vector<float> x(32, 0.0f);
    x[9] = tiny;
    ExpectSameBlocks(x);
    const QuantizedBlock block = Quantize(Reference(), x)[0];
    EXPECT_TRUE(std::isfinite(block.scale));
    EXPECT_EQ(block.q[9], std::abs(tiny) < 0x1p-110f ? 0 : 127);
  }
}

TEST(Quantize, MarksABlockThatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x(64, 1.0f);
    x[40] = bad;
    ExpectSameBlocks(x);
    const std::vector<QuantizedBlock> blocks = Quantize(Reference(), x);
    EXPECT_EQ(blocks[0].q[0], 127);
    EXPECT_TRUE(std::isnan(blocks[1].scale));
    EXPECT_EQ(blocks[1].pair_sums[0], 0);
    EXPECT_EQ(blocks[1].q[0], 0);
  }
}

TEST(Quantize, HoldsTheLargestNumbers) {
  std::vector<float> x(32, std::numeric_limits<float>::max());
  x[3] = -x[3];
  ExpectSameBlocks(x);
  const QuantizedBlock block = Quantize(Reference(), x)[0];
  EXPECT_EQ(block.q[0], 127);
  EXPECT_EQ(block.q[3], -127);
}

}  // namespace
}  // namespace tercet::kernels
