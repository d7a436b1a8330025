#include "kernels/gguf_block.h"

#include "kernels/half.h"

namespace tercet::kernels {

namespace {

int Byte(const std::byte* p) { return std::to_integer<int>(*p); }

// 16 bytes of nibbles: the low ones are k = 0…15, the high ones k = 16…31.
void ReadNibbles(const std::byte* p, uint8_t* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = static_cast<uint8_t>(Byte(p + i) & 15);
    q[i + 16] = static_cast<uint8_t>(Byte(p + i) >> 4);
  }
}

void AddFifthBits(const std::byte* p, uint8_t* q) {
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(q[i] | (Byte(p + i / 8) >> (i % 8) & 1) << 4);
}

// The 6-bit scale and minimum of part `sub` (0 … 7) of a Q4_K or Q5_K block.
void ReadScaleAndMinimum(const std::byte* p, int sub, GgufBlock* out) {
  if (sub < 4) {
    out->scale[0] = static_cast<int8_t>(Byte(p + sub) & 63);
    out->minimum = static_cast<uint8_t>(Byte(p + sub + 4) & 63);
  } else {
    out->scale[0] = static_cast<int8_t>((Byte(p + sub + 4) & 15) | (Byte(p + sub - 4) >> 6) << 4);
    out->minimum = static_cast<uint8_t>(Byte(p + sub + 4) >> 4 | (Byte(p + sub) >> 6) << 4);
  }
  out->scale[1] = out->scale[0];
}

// Q4_K, Q5_K: parts 2i and 2i + 1 are the low and the high nibbles of 32 bytes.
void ReadKNibbles(const std::byte* p, int sub, uint8_t* q) {
  const std::byte* bytes = p + sub / 2 * 32;
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(Byte(bytes + i) >> sub % 2 * 4 & 15);
}

// Q6_K: a half block of 128 weights is four parts; parts 0 and 2 share 32 bytes of nibbles, 1 and 3 the next 32; the bit
// pair of part f is pair f of 32 bytes.
void ReadQ6K(const std::byte* block, int sub, GgufBlock* out) {
  const int half = sub / 4, part = sub % 4;
  const std::byte* nibbles = block + half * 64 + part % 2 * 32;
  const std::byte* pairs = block + 128 + half * 32;
  for (int i = 0; i < 32; ++i) {
    const int low = Byte(nibbles + i) >> part / 2 * 4 & 15;
    out->q[i] = static_cast<uint8_t>(low | (Byte(pairs + i) >> 2 * part & 3) << 4);
  }
  for (int i = 0; i < 2; ++i) out->scale[i] = static_cast<int8_t>(Byte(block + 192 + 2 * sub + i));
}

}  // namespace

GgufBlock ReadGgufBlock(Format format, const std::byte* block, int sub) {
  GgufBlock out = {.scale = {1, 1}, .minimum = 1};
  out.d_bits = LoadU16(format == Format::kQ6_K ? block + 208 : block);
  switch (format) {
    case Format::kQ8_0:
      for (int i = 0; i < 32; ++i) out.q[i] = static_cast<uint8_t>(Byte(block + 2 + i) ^ 0x80);
      break;
    case Format::kQ4_0:
      ReadNibbles(block + 2, out.q);
      break;
    case Format::kQ4_1:
      out.m_bits = LoadU16(block + 2);
      ReadNibbles(block + 4, out.q);
      break;
    case Format::kQ5_0:
      ReadNibbles(block + 6, out.q);
      AddFifthBits(block + 2, out.q);
      break;
    case Format::kQ5_1:
      out.m_bits = LoadU16(block + 2);
      ReadNibbles(block + 8, out.q);
      AddFifthBits(block + 4, out.q);
      break;
    case Format::kQ4_K:
      out.m_bits = LoadU16(block + 2);
      ReadScaleAndMinimum(block + 4, sub, &out);
      ReadKNibbles(block + 16, sub, out.q);
      break;
    case Format::kQ5_K:
      out.m_bits = LoadU16(block + 2);
      ReadScaleAndMinimum(block + 4, sub, &out);
      ReadKNibbles(block + 48, sub, out.q);
      for (int i = 0; i < 32; ++i) {
        out.q[i] = static_cast<uint8_t>(out.q[i] | (Byte(block + 16 + i) >> sub & 1) << 4);
      }
      break;
    case Format::kQ6_K:
      ReadQ6K(block, sub, &out);
      break;
    case Format::kF32:
    case Format::kF16:
    case Format::kBF16:
      break;
  }
  const bool k_format = format == Format::kQ4_K || format == Format::kQ5_K;
  out.d = HalfToFloat(out.d_bits);
  out.m = k_format ? -HalfToFloat(out.m_bits) : HalfToFloat(out.m_bits);
  return out;
}

}  // namespace tercet::kernels
