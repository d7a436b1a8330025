#include "services/gateway/http/target.h"

#include <charconv>

namespace tercet::gateway {

std::optional<std::string> PathOfTarget(std::string_view target) {
  for (std::string_view scheme : {"http://", "https://"}) {
    if (target.substr(0, scheme.size()) != scheme) continue;
    size_t slash = target.find('/', scheme.size());
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  target = target.substr(0, target.find_first_of("?#"));
  if (target != "*" && (target.empty() || target.front() != '/')) return std::nullopt;
  std::string path;
  for (size_t i = 0; i < target.size(); ++i) {
    char c = target[i];
    if (c == '%') {
      unsigned value = 0;
      if (i + 2 >= target.size()) return std::nullopt;
      const char* digits = target.data() + i + 1;
      auto [end, error] = std::from_chars(digits, digits + 2, value, 16);
      if (error != std::errc() || end != digits + 2) return std::nullopt;
      c = static_cast<char>(value);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return std::nullopt;
    path.push_back(c);
  }
  return path;
}

}  // namespace tercet::gateway
