// Where tests find what is not part of the repository: conformance data and models. Empty when it is not there; the test then
// skips and says so.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tercet::tests {

inline std::string Find(const char* variable, const char* below_source, const std::string& name) {
  const char* folder = std::getenv(variable);
  const char* source = std::getenv("TERCET_SOURCE_DIR");
  std::filesystem::path path =
      folder != nullptr ? std::filesystem::path(folder) : std::filesystem::path(source != nullptr ? source : ".") / below_source;
  path /= name;
  std::error_code error;
  return std::filesystem::exists(path, error) ? path.string() : "";
}

inline std::string ConformancePath(const std::string& name) {
  return Find("TERCET_CONFORMANCE_DIR", "../shared/conformance", name);
}
inline std::string ModelPath(const std::string& name) { return Find("TERCET_MODEL_DIR", "models", name); }

}  // namespace tercet::tests
