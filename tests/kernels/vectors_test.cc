// Norm, rotary embedding, activations, exp and the residual: bits across instruction sets, closeness to mathematics.
#include <cmath>
#include <limits>

#include "kernels/activation.h"
#include "kernels/exp.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"
#include "kernels/rope.h"
#include "tests/kernels/testing.h"

namespace tercet::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kLengths[] = {1, 5, 15, 16, 17, 31, 32, 100, 576, 1537};

TEST(Exp, IsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  for (float x = ExpConstants::kLowest; x < ExpConstants::kHighest; x += 0.00071f) {
    const double exact = std::exp(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(Exp(x) - exact) / unit);
  }
  EXPECT_LT(worst, 1.5);
}

TEST(Exp, HasDefinedEnds) {
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
  EXPECT_EQ(Exp(-kInfinity), 0.0f);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(std::nextafter(ExpConstants::kHighest, kInfinity)), kInfinity);
  EXPECT_TRUE(std::isfinite(Exp(ExpConstants::kHighest)));
  EXPECT_EQ(Exp(std::nextafter(ExpConstants::kLowest, -kInfinity)), 0.0f);
  EXPECT_TRUE(std::isnormal(Exp(ExpConstants::kLowest)));
  EXPECT_TRUE(std::isnan(Exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Exp, HasTheSameBitsOnEveryInstructionSet) {
  std::mt19937 random(1);
  std::vector<float> x = {0.0f, -0.0f, kInfinity, -kInfinity, NAN, 1e-45f, ExpConstants::kHighest, ExpConstants::kLowest,
                          std::nextafter(ExpConstants::kHighest, kInfinity), std::nextafter(ExpConstants::kLowest, -kInfinity)};
  for (int i = 0; i < 200000; ++i) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  std::uniform_real_distribution<float> uniform(-90.0f, 90.0f);
  for (int i = 0; i < 200000; ++i) x.push_back(uniform(random));
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<float> expected(n), actual(n);
  Reference().exp(x.data(), n, expected.data());
  for (const auto& [name, table] : IsasUnderTest()) {
    table->exp(x.data(), n, actual.data());
    EXPECT_TRUE(SameBits(expected, actual)) << name;
  }
}

TEST(Log, IsRoundedAlmostCorrectly) {
  std::mt19937 random(2);
  for (int i = 0; i < 100000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()) % 0x7f800000);
    if (x == 0.0f) continue;
    const double exact = std::log(static_cast<double>(x));
    ASSERT_NEAR(Log(x), exact, 0.51 * std::ldexp(1.0, std::ilogb(exact) - 23)) << x;
  }
  EXPECT_EQ(Log(1.0f), 0.0f);
}

TEST(RmsNorm, HasTheSameBitsOnEveryInstructionSet) {
  std::mt19937 random(3);
  for (const int64_t n : kLengths) {
    const std::vector<float> x = RandomFloats(n, random), weight = RandomFloats(n, random);
    std::vector<float> expected(n), actual(n);
    Reference().rms_norm(x.data(), weight.data(), n, 1e-5f, expected.data());
    for (const auto& [name, table] : IsasUnderTest()) {
      table->rms_norm(x.data(), weight.data(), n, 1e-5f, actual.data());
      EXPECT_TRUE(SameBits(expected, actual)) << name << " n = " << n;
      actual = x;
      table->rms_norm(actual.data(), weight.data(), n, 1e-5f, actual.data());
      EXPECT_TRUE(SameBits(expected, actual)) << name << " in place, n = " << n;
    }
  }
}

TEST(RmsNorm, IsCloseToExactMathematics) {
  std::mt19937 random(4);
  const int64_t n = 1000;
  const std::vector<float> x = RandomFloats(n, random, 5.0f), weight = RandomFloats(n, random);
  std::vector<float> out(n);
  Reference().rms_norm(x.data(), weight.data(), n, 1e-5f, out.data());
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * v;
  const double r = 1 / std::sqrt(squares / n + 1e-5);
  for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(out[i], x[i] * r * weight[i], 1e-6 * std::abs(x[i] * r * weight[i]));
}

TEST(Rope, HasTheSameBitsOnEveryInstructionSetAndLeavesTheRest) {
  std::mt19937 random(5);
  for (const int64_t rotary_dim : {2, 16, 32, 40, 64, 80, 96, 128}) {
    for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalves}) {
      const std::vector<float> head = RandomFloats(160, random);
      const std::vector<float> cos = RandomFloats(rotary_dim / 2, random), sin = RandomFloats(rotary_dim / 2, random);
      std::vector<float> expected = head;
      Reference().rope(expected.data(), rotary_dim, cos.data(), sin.data(), style);
      EXPECT_TRUE(SameBits(head.data() + rotary_dim, expected.data() + rotary_dim, 160 - rotary_dim));
      for (const auto& [name, table] : IsasUnderTest()) {
        std::vector<float> actual = head;
        table->rope(actual.data(), rotary_dim, cos.data(), sin.data(), style);
        EXPECT_TRUE(SameBits(expected, actual)) << name << " rotary_dim = " << rotary_dim;
      }
    }
  }
}

TEST(Rope, TurnsPairs) {
  const float cos[2] = {0.0f, 1.0f}, sin[2] = {1.0f, 0.0f};
  std::vector<float> head = {1, 2, 3, 4};
  Reference().rope(head.data(), 4, cos, sin, RopeStyle::kInterleaved);
  EXPECT_EQ(head, (std::vector<float>{-2, 1, 3, 4}));
  head = {1, 2, 3, 4};
  Reference().rope(head.data(), 4, cos, sin, RopeStyle::kHalves);
  EXPECT_EQ(head, (std::vector<float>{-3, 2, 1, 4}));
}

TEST(Activation, HasTheSameBitsOnEveryInstructionSet) {
  std::mt19937 random(6);
  for (const int64_t n : kLengths) {
    const std::vector<float> up = RandomFloats(n, random);
    std::vector<float> gate = RandomFloats(n, random, 20.0f);
    if (n > 8) {
      gate[0] = 200.0f, gate[1] = -200.0f, gate[2] = 0.0f, gate[3] = -0.0f, gate[4] = kInfinity, gate[5] = -kInfinity;
      gate[6] = NAN;
    }
    std::vector<float> expected(n), actual(n);
    for (const auto& [name, table] : IsasUnderTest()) {
      Reference().silu_mul(gate.data(), up.data(), n, expected.data());
      table->silu_mul(gate.data(), up.data(), n, actual.data());
      EXPECT_TRUE(SameBits(expected, actual)) << name << " silu, n = " << n;
      Reference().gelu_tanh_mul(gate.data(), up.data(), n, expected.data());
      table->gelu_tanh_mul(gate.data(), up.data(), n, actual.data());
      EXPECT_TRUE(SameBits(expected, actual)) << name << " gelu, n = " << n;
      actual = gate;
      table->gelu_tanh_mul(actual.data(), up.data(), n, actual.data());
      EXPECT_TRUE(SameBits(expected, actual)) << name << " gelu in place, n = " << n;
    }
  }
}

TEST(Activation, IsCloseToExactMathematics) {
  for (double x = -30; x < 30; x += 0.0137) {
    const float gate = static_cast<float>(x), up = 1.0f;
    float silu, gelu;
    Reference().silu_mul(&gate, &up, 1, &silu);
    Reference().gelu_tanh_mul(&gate, &up, 1, &gelu);
    const double g = gate;
    EXPECT_NEAR(silu, g / (1 + std::exp(-g)), 4e-7 * std::abs(g));
    EXPECT_NEAR(gelu, 0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))), 4e-7 * std::abs(g));
  }
}

TEST(Elementwise, HasTheSameBitsOnEveryInstructionSet) {
  std::mt19937 random(7);
  for (const int64_t n : kLengths) {
    const std::vector<float> a = RandomFloats(n, random), b = RandomFloats(n, random);
    std::vector<float> sum = a, scaled = a;
    for (int64_t i = 0; i < n; ++i) sum[i] += b[i], scaled[i] *= 0.37f;
    std::vector<IsaUnderTest> isas = IsasUnderTest();
    isas.push_back({"scalar", &Reference()});
    for (const auto& [name, table] : isas) {
      std::vector<float> actual = a;
      table->add_into(actual.data(), b.data(), n);
      EXPECT_TRUE(SameBits(sum, actual)) << name << " n = " << n;
      actual = a;
      table->scale(actual.data(), 0.37f, n);
      EXPECT_TRUE(SameBits(scaled, actual)) << name << " n = " << n;
    }
  }
}

}  // namespace
}  // namespace tercet::kernels
