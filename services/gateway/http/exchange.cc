#include "services/gateway/http/exchange.h"

namespace tercet::gateway {

std::string_view Request::Header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

}  // namespace tercet::gateway
