#include "services/cli/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

namespace tercet::cli {

struct Sha256::Context {
  EVP_MD_CTX* evp = nullptr;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  context_->evp = EVP_MD_CTX_new();
  EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr);
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_->evp); }

void Sha256::Add(const void* bytes, size_t count) { EVP_DigestUpdate(context_->evp, bytes, count); }

std::string Sha256::Hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_DigestFinal_ex(context_->evp, digest, &length);
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return absl::NotFoundError(fmt::format("{}: {}", path, std::strerror(errno)));
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), file)) hash.Add(buffer.data(), count);
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return absl::DataLossError(fmt::format("{} cannot be read", path));
  return hash.Hex();
}

}  // namespace tercet::cli
