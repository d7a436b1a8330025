#include "kernels/dispatch.h"

#include <gtest/gtest.h>

#include "kernels/elementwise.h"

namespace tercet::kernels {
namespace {

TEST(Dispatch, ScalarIsEverywhere) {
  ASSERT_NE(TableFor(Isa::kScalar), nullptr);
  ASSERT_NE(TableFor(DetectIsa()), nullptr);
}

TEST(Dispatch, SelectsByName) {
  std::string error;
  for (const Isa isa : kAllIsas) {
    EXPECT_EQ(SelectIsa(IsaName(isa), &error), TableFor(isa) != nullptr);
    if (TableFor(isa) != nullptr) {
      EXPECT_EQ(ActiveIsa(), isa);
      float x = 1.0f;
      Scale(&x, 2.0f, 1);
      EXPECT_EQ(x, 2.0f);
    }
  }
  EXPECT_TRUE(SelectIsa("", &error));
  EXPECT_EQ(ActiveIsa(), DetectIsa());
}

TEST(Dispatch, RefusesAnUnknownNameAndKeepsTheSelection) {
  std::string error;
  ASSERT_TRUE(SelectIsa("scalar", &error));
  EXPECT_FALSE(SelectIsa("sse9", &error));
  EXPECT_EQ(error, "TERCET_ISA: \"sse9\" is not an instruction set; name scalar, avx2 or avx512");
  EXPECT_EQ(ActiveIsa(), Isa::kScalar);
  EXPECT_TRUE(SelectIsa("", &error));
}

TEST(Dispatch, EveryTableIsComplete) {
  for (const Isa isa : kAllIsas) {
    const Table* table = TableFor(isa);
    if (table == nullptr) continue;
    const void* const* entries = reinterpret_cast<const void* const*>(table);
    for (size_t i = 0; i < sizeof(Table) / sizeof(void*); ++i) EXPECT_NE(entries[i], nullptr) << IsaName(isa) << " entry " << i;
  }
}

}  // namespace
}  // namespace tercet::kernels
