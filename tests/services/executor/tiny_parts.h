// An executor's parts around a tiny model, put together for a test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "common/gguf/file.h"
#include "services/executor/forward/forward.h"
#include "services/executor/forward/worker_team.h"
#include "services/executor/kv/page_pool.h"
#include "services/executor/model/model.h"
#include "tests/services/executor/tiny_model.h"

namespace tercet::executor {

struct TinyOptions {
  TinyModelOptions model;
  int workers = 2;
  int32_t pages = 128;
  int32_t max_rows = 64;
  int32_t max_logit_rows = 40;
  // Changes the file before it is loaded.
  std::function<void(TinyFile&)> edit;
};

class TinyParts {
 public:
  explicit TinyParts(const TinyOptions& options = {}) : team_(options.workers) {
    TinyFile tiny = MakeTinyFile(options.model);
    if (options.edit) options.edit(tiny);
    std::vector<std::byte> bytes = tiny.Build();
    auto file = gguf::File::Parse(bytes);
    if (!file.ok()) throw std::runtime_error(file.status().ToString());
    auto model = Model::Load(**file, team_, {});
    if (!model.ok()) throw std::runtime_error(model.status().ToString());
    model_ = *std::move(model);
    const Hyperparameters& h = model_->hyper();
    auto pool = PagePool::Create({h.layers, h.kv_heads, h.head_dim}, options.pages);
    if (!pool.ok()) throw std::runtime_error(pool.status().ToString());
    pool_ = *std::move(pool);
    auto forward = Forward::Create(*model_, *pool_, team_, options.max_rows, options.max_logit_rows, h.context_length);
    if (!forward.ok()) throw std::runtime_error(forward.status().ToString());
    forward_ = *std::move(forward);
  }

  WorkerTeam& team() { return team_; }
  const Model& model() const { return *model_; }
  PagePool& pool() { return *pool_; }
  Forward& forward() { return *forward_; }
  uint32_t vocabulary() const { return static_cast<uint32_t>(model_->hyper().vocabulary); }

 private:
  WorkerTeam team_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Forward> forward_;
};

}  // namespace tercet::executor
