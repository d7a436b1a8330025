// Which instruction set the kernels run on.
//
// Every operation exists for every instruction set with the same bits, so the choice is one of speed only. It is made once:
// the best the machine has, unless TERCET_ISA (scalar, avx2, avx512) names another.
//
// Thread safety: all functions may be called from any thread; SelectIsa before kernels run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/table.h"

namespace tercet::kernels {

enum class Isa : uint8_t { kScalar, kAvx2, kAvx512 };
constexpr Isa kAllIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512};

// "scalar", "avx2", "avx512".
const char* IsaName(Isa isa);

// The best instruction set this machine has.
Isa DetectIsa();

// The one in use. At the first use without a selection: what TERCET_ISA names if that is possible, else DetectIsa().
Isa ActiveIsa();

// Selects by name; "" means DetectIsa(). False, with a sentence in *error, if the name is unknown or the machine lacks the
// instruction set; the selection is then unchanged.
bool SelectIsa(std::string_view name, std::string* error);

// SelectIsa with the value of TERCET_ISA. Programs call it when they start, to refuse a wrong value instead of passing over it.
bool SelectIsaFromEnvironment(std::string* error);

// All operations of one instruction set, for tests and benchmarks; null if this machine lacks it.
const Table* TableFor(Isa isa);

}  // namespace tercet::kernels
