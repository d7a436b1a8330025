// SHA-256 of bytes as they come. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tercet::cli {

class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void Add(const void* bytes, size_t count);
  // 64 lower-case hexadecimal digits. Called once, last.
  std::string Hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Of a whole file.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace tercet::cli
