// Good files are read as written; each kind of broken file is refused with a sentence that names the fault.
#include "common/gguf/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/common/gguf/gguf_builder.h"

namespace tercet::gguf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Bytes = GgufBuilder::Bytes;

Bytes Zeros(size_t count) { return Bytes(count); }

// The sentence with which the file is refused; "accepted" if it is not.
std::string Refusal(const Bytes& bytes) {
  auto file = File::Parse(bytes);
  if (file.ok()) return "accepted";
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << file.status();
  return std::string(file.status().message());
}
std::string Refusal(const GgufBuilder& builder) { return Refusal(builder.Build()); }

TEST(GgufFile, ReadsMetadataOfEveryType) {
  const Bytes bytes = GgufBuilder()
                          .Number<uint8_t>("u8", 0, 200)
                          .Number<int8_t>("i8", 1, -5)
                          .Number<uint16_t>("u16", 2, 60000)
                          .Number<int16_t>("i16", 3, -300)
                          .Uint("u32", 4000000000u)
                          .Number<int32_t>("i32", 5, -70000)
                          .Float("f32", 0.5f)
                          .Bool("bool", true)
                          .String("string", "text")
                          .Number<uint64_t>("u64", 10, ~uint64_t{0})
                          .Number<int64_t>("i64", 11, 7)
                          .Number<double>("f64", 12, 1e300)
                          .Array<int32_t>("ints", 5, {1, -2, 3})
                          .Array<float>("floats", 6, {0.25f, -1})
                          .Array<uint8_t>("bools", 7, {1, 0, 1})
                          .Strings("strings", std::vector<std::string>{"a", "", "ccc"})
                          .Build();
  auto file = File::Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  const File& f = **file;
  EXPECT_EQ(*f.Uint("u8"), 200u);
  EXPECT_EQ(*f.Uint("u16"), 60000u);
  EXPECT_EQ(*f.Uint("u32"), 4000000000u);
  EXPECT_EQ(*f.Uint("u64"), ~uint64_t{0});
  EXPECT_EQ(*f.Uint("i64"), 7u);
  EXPECT_EQ(f.metadata().at("i8").AsSigned(), -5);
  EXPECT_EQ(f.metadata().at("i16").AsSigned(), -300);
  EXPECT_EQ(f.metadata().at("i32").AsSigned(), -70000);
  EXPECT_EQ(*f.Float("f32"), 0.5);
  EXPECT_EQ(*f.Float("f64"), 1e300);
  EXPECT_EQ(*f.Bool("bool"), true);
  EXPECT_EQ(*f.String("string"), "text");
  EXPECT_THAT(*f.Ints("ints"), ElementsAre(1, -2, 3));
  EXPECT_THAT(*f.Floats("floats"), ElementsAre(0.25f, -1.0f));
  EXPECT_THAT(*f.Bools("bools"), ElementsAre(true, false, true));
  EXPECT_THAT(*f.Strings("strings"), ElementsAre("a", "", "ccc"));
  EXPECT_TRUE(f.Has("u8"));
  EXPECT_FALSE(f.Has("u9"));
  EXPECT_EQ(f.version(), 3u);
}

TEST(GgufFile, ReadsTensorsOfVersions2And3) {
  for (uint32_t version : {2u, 3u}) {
    const Bytes bytes = GgufBuilder()
                            .Version(version)
                            .FloatTensor("a", {2, 3}, {1, 2, 3, 4, 5, 6})
                            .Tensor("b", 2, {64, 2}, Zeros(72))
                            .Build();
    auto file = File::Parse(bytes);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ((*file)->tensors().size(), 2u);
    const Tensor* a = (*file)->Find("a");
    ASSERT_NE(a, nullptr);
    EXPECT_THAT(a->dimensions, ElementsAre(2, 3));
    EXPECT_EQ(a->elements(), 6u);
    EXPECT_EQ(a->data.size(), 24u);
    float last = 0;
    std::memcpy(&last, a->data.data() + 20, 4);
    EXPECT_EQ(last, 6);
    EXPECT_EQ((*file)->Find("b")->data.size(), 72u);
    EXPECT_EQ((*file)->Find("c"), nullptr);
  }
}

TEST(GgufFile, HonoursADeclaredAlignment) {
  const Bytes bytes = GgufBuilder()
                          .Uint("general.alignment", 64)
                          .Alignment(64)
                          .FloatTensor("a", {1}, {1})
                          .FloatTensor("b", {1}, {2})
                          .Build();
  auto file = File::Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Find("b")->data.data() - (*file)->Find("a")->data.data(), 64);
}

TEST(GgufFile, NamesKeyAndTypesWhenATypeIsWrong) {
  const Bytes bytes = GgufBuilder()
                          .Array<uint8_t>("tokenizer.ggml.scores", 0, {1, 2, 3})
                          .Array<uint8_t>("tokenizer.ggml.token_type", 0, {1, 1, 1})
                          .String("llama.block_count", "30")
                          .Number<int32_t>("llama.context_length", 5, -1)
                          .Float("llama.rope.freq_base", std::nanf(""))
                          .Array<uint64_t>("wide", 10, {~uint64_t{0}})
                          .Build();
  auto file = File::Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto message = [](const auto& result) { return std::string(result.status().message()); };
  EXPECT_EQ(message((*file)->Floats("tokenizer.ggml.scores")),
            "metadata key 'tokenizer.ggml.scores' is array of 3 u8; expected an array of f32");
  EXPECT_EQ(message((*file)->Ints("tokenizer.ggml.token_type")),
            "metadata key 'tokenizer.ggml.token_type' is array of 3 u8; expected an array of i32");
  EXPECT_THAT(message((*file)->Uint("llama.block_count")),
              HasSubstr("'llama.block_count' is string; expected an unsigned"));
  EXPECT_THAT(message((*file)->Uint("llama.context_length")), HasSubstr("is negative: -1"));
  EXPECT_THAT(message((*file)->Float("llama.rope.freq_base")), HasSubstr("not a finite number"));
  EXPECT_THAT(message((*file)->Ints("wide")), HasSubstr("exceeds 63 bits"));
  EXPECT_EQ((*file)->Uint("nope").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*file)->Strings("llama.block_count").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*file)->String("wide").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*file)->Bool("wide").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*file)->Bools("wide").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(GgufHeader, RefusesWhatIsNotGguf) {
  EXPECT_EQ(Refusal(Bytes{}), "the file is empty");
  EXPECT_THAT(Refusal(Bytes(3)), HasSubstr("ends inside the magic"));
  EXPECT_THAT(Refusal(Bytes(64)), HasSubstr("not a GGUF file"));
}

TEST(GgufHeader, RefusesOtherVersionsAndByteOrder) {
  EXPECT_THAT(Refusal(GgufBuilder().Version(1)), HasSubstr("version 1 is not supported"));
  EXPECT_THAT(Refusal(GgufBuilder().Version(4)), HasSubstr("version 4 is not supported"));
  EXPECT_THAT(Refusal(GgufBuilder().Version(0)), HasSubstr("version 0 is not supported"));
  EXPECT_THAT(Refusal(GgufBuilder().Version(0x03000000)), HasSubstr("big-endian"));
}

TEST(GgufHeader, ComparesCountsWithTheFileBeforeBelievingThem) {
  for (uint64_t count : {uint64_t{1}, uint64_t{1} << 61, ~uint64_t{0}}) {
    EXPECT_THAT(Refusal(GgufBuilder().DeclareMetadata(count)), HasSubstr("metadata entries, more than its 24 bytes"));
    EXPECT_THAT(Refusal(GgufBuilder().DeclareTensors(count)), HasSubstr("tensors, more than its 24 bytes"));
  }
}

TEST(GgufMetadata, RefusesStringsPastTheEnd) {
  Bytes bytes = GgufBuilder().DeclareMetadata(1).Build();
  GgufBuilder::Put<uint64_t>(&bytes, uint64_t{1} << 48);
  bytes.resize(bytes.size() + 8);
  EXPECT_THAT(Refusal(bytes), HasSubstr("the file ends inside metadata key 1 of 1: 281474976710656 bytes needed"));
  Bytes length;
  GgufBuilder::Put<uint64_t>(&length, ~uint64_t{0});
  EXPECT_THAT(Refusal(GgufBuilder().Raw("k", 8, length)),
              HasSubstr("the file ends inside the value of metadata key 'k'"));
}

TEST(GgufMetadata, RefusesEmptyAndDuplicateKeys) {
  EXPECT_THAT(Refusal(GgufBuilder().Uint("", 1)), HasSubstr("metadata key 1 of 1 is empty"));
  EXPECT_THAT(Refusal(GgufBuilder().Uint("a", 1).Uint("b", 1).Uint("a", 2)),
              HasSubstr("metadata key 'a' occurs twice"));
  EXPECT_THAT(Refusal(GgufBuilder().Uint(std::string(70000, 'k'), 1)), HasSubstr("more than the limit of 65535"));
}

TEST(GgufMetadata, RefusesTruthValuesOtherThan0And1) {
  EXPECT_THAT(Refusal(GgufBuilder().Number<uint8_t>("flag", 7, 2)), HasSubstr("'flag': a truth value must be 0 or 1"));
  EXPECT_THAT(Refusal(GgufBuilder().Array<uint8_t>("flags", 7, {1, 0, 9})), HasSubstr("element 2 is 9"));
}

TEST(GgufMetadata, RefusesUnknownTypes) {
  EXPECT_THAT(Refusal(GgufBuilder().Number<uint64_t>("k", 13, 0)), HasSubstr("'k': value type 13 is unknown"));
  EXPECT_THAT(Refusal(GgufBuilder().Array<uint64_t>("k", 13, {1, 2})), HasSubstr("array element type 13 is unknown"));
  EXPECT_THAT(Refusal(GgufBuilder().Array<uint64_t>("k", 0xFFFFFFFF, {1})), HasSubstr("element type 4294967295"));
}

TEST(GgufMetadata, RefusesArraysOfArrays) {
  EXPECT_THAT(Refusal(GgufBuilder().Array<uint64_t>("k", 9, {4, 0})), HasSubstr("'k': arrays of arrays"));
}

TEST(GgufMetadata, RefusesArraysLargerThanTheFile) {
  for (uint32_t type : {0u, 4u, 6u, 7u, 8u, 10u}) {
    for (uint64_t count : {uint64_t{1} << 62, ~uint64_t{0}, uint64_t{1} << 32}) {
      Bytes value;
      GgufBuilder::Put(&value, type);
      GgufBuilder::Put(&value, count);
      EXPECT_THAT(Refusal(GgufBuilder().Raw("k", 9, value)), HasSubstr("does not fit into the"));
    }
  }
}

TEST(GgufMetadata, RefusesAStringArrayWhoseLastStringIsCut) {
  Bytes value;
  GgufBuilder::Put<uint32_t>(&value, 8);
  GgufBuilder::Put<uint64_t>(&value, 2);
  GgufBuilder::PutString(&value, "abc");
  GgufBuilder::Put<uint64_t>(&value, 100);
  EXPECT_THAT(Refusal(GgufBuilder().Raw("k", 9, value)), HasSubstr("ends inside element 1 of metadata key 'k'"));
}

TEST(GgufMetadata, ShowsNamesFromTheFileEscaped) {
  EXPECT_THAT(Refusal(GgufBuilder().Number<uint8_t>("a\nb", 7, 2)),
              AllOf(HasSubstr("a\\nb"), testing::Not(HasSubstr("\n"))));
}

TEST(GgufMetadata, RefusesOnePartOfASplitModel) {
  EXPECT_THAT(Refusal(GgufBuilder().Number<uint16_t>("split.count", 2, 3)),
              HasSubstr("one of 3 parts of a split model"));
  EXPECT_EQ(Refusal(GgufBuilder().Number<uint16_t>("split.count", 2, 1)), "accepted");
  EXPECT_THAT(Refusal(GgufBuilder().String("split.count", "3")), HasSubstr("'split.count' is string"));
}

TEST(GgufMetadata, RefusesImpossibleAlignments) {
  for (uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 8192u, 0x80000000u}) {
    EXPECT_THAT(Refusal(GgufBuilder().Uint("general.alignment", alignment)),
                HasSubstr("must be a power of two from 8 to 4096"));
  }
  for (uint32_t alignment : {8u, 32u, 4096u}) {
    EXPECT_EQ(Refusal(GgufBuilder().Uint("general.alignment", alignment)), "accepted");
  }
  EXPECT_THAT(Refusal(GgufBuilder().Float("general.alignment", 32)), HasSubstr("'general.alignment' is f32"));
}

TEST(GgufTensors, RefusesZeroDimensions) {
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", 0, {1, 0}, Zeros(0))), HasSubstr("tensor 't': dimension 1 is 0"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", 2, {0}, Zeros(0))), HasSubstr("tensor 't': dimension 0 is 0"));
}

TEST(GgufTensors, RefusesSizesThatOverflow) {
  const uint64_t k2 = 1;
  for (const std::vector<uint64_t>& dimensions : std::vector<std::vector<uint64_t>>{
           {k2 << 32, k2 << 30}, {k2 << 32, k2 << 32}, {k2 << 63, 1}, {k2 << 61, 1}, {~uint64_t{0}, ~uint64_t{0}}}) {
    EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", 0, dimensions, Zeros(32))),
                HasSubstr("tensor 't': byte size overflows"));
  }
}

TEST(GgufTensors, RefusesImpossibleNumbersOfDimensions) {
  for (uint32_t count : {0u, 5u, 0xFFFFFFFFu}) {
    EXPECT_THAT(Refusal(GgufBuilder().DeclareDimensions(count).Tensor("t", 0, {1, 1, 1, 1, 1}, Zeros(4))),
                HasSubstr("1 to 4 are allowed"));
  }
}

TEST(GgufTensors, RefusesUnknownAndWithdrawnTypes) {
  for (uint32_t type : {4u, 5u, 31u, 36u, 9999u, 0xFFFFFFFFu}) {
    EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", type, {32}, Zeros(128))), HasSubstr("is unknown"));
  }
}

TEST(GgufTensors, RefusesRowsThatAreNotWholeBlocks) {
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", 2, {31}, Zeros(32))),
              HasSubstr("rows of 31 elements are not whole Q4_0 blocks"));
  // A whole number of blocks in total does not help: each row must be whole.
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", 12, {128, 2}, Zeros(144))), HasSubstr("not whole Q4_K blocks of 256"));
}

TEST(GgufTensors, RefusesOffsetsOutOfRangeOrMisaligned) {
  const uint64_t huge = ~uint64_t{0} - 31;
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", 0, {16}, Zeros(64), huge)),
              HasSubstr("tensor 't': needs 64 bytes at offset 18446744073709551584, but the file has only 64"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", 0, {16}, Zeros(64), 32)), HasSubstr("cut short or damaged"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", 0, {16}, Zeros(64), 64)), HasSubstr("cut short or damaged"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", 0, {8}, Zeros(64), 8)),
              HasSubstr("offset 8 is not a multiple of the alignment 32"));
}

TEST(GgufTensors, RefusesOverlaps) {
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("a", 0, {16}, Zeros(64)).Tensor("b", 0, {8}, Zeros(32), 32)),
              HasSubstr("tensors 'a' and 'b' overlap"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("a", 0, {8}, Zeros(32), 0).Tensor("b", 0, {8}, Zeros(32), 0)),
              HasSubstr("overlap"));
}

TEST(GgufTensors, RefusesDuplicateAndEmptyNames) {
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("t", 0, {1}, Zeros(4)).Tensor("t", 0, {1}, Zeros(4))),
              HasSubstr("tensor 't' occurs twice"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("", 0, {1}, Zeros(4))), HasSubstr("the name of tensor 1 of 1 is empty"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor(std::string(300, 't'), 0, {1}, Zeros(4))),
              HasSubstr("more than the limit of 255"));
}

TEST(GgufTensors, RefusesMoreTensorsThanTheFileHasRoomFor) {
  EXPECT_THAT(Refusal(GgufBuilder().String("k", std::string(200, 'x')).DeclareTensors(3)),
              HasSubstr("declares 3 tensors, more than the 0 bytes behind its metadata"));
}

}  // namespace
}  // namespace tercet::gguf
