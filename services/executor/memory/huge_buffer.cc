#include "services/executor/memory/huge_buffer.h"

#include <absl/strings/str_cat.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace tercet::executor {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}

absl::StatusOr<HugeBuffer> HugeBuffer::Allocate(size_t bytes) {
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > size_t{1} << 62) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot get ", bytes, " bytes of memory: no machine has them"));
  }
  size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  // One huge page more than needed, so that an aligned start lies inside; the rest is given back.
  size_t mapped = rounded + kHugePage;
  void* address = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot get ", bytes, " bytes of memory: ", std::strerror(errno)));
  }
  uintptr_t start = reinterpret_cast<uintptr_t>(address);
  uintptr_t aligned = (start + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned > start) munmap(address, aligned - start);
  uintptr_t end = start + mapped, aligned_end = aligned + rounded;
  if (end > aligned_end) munmap(reinterpret_cast<void*>(aligned_end), end - aligned_end);
  buffer.data_ = reinterpret_cast<std::byte*>(aligned);
  buffer.bytes_ = rounded;
  madvise(buffer.data_, rounded, MADV_HUGEPAGE);  // a hint; without it the buffer is only slower
  return buffer;
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace tercet::executor
