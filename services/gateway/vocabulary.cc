#include "services/gateway/vocabulary.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace tercet::gateway {

Vocabulary::Builder::Builder(Header header) : vocabulary_(new Vocabulary) {
  vocabulary_->header_ = std::move(header);
  vocabulary_->begins_.push_back(0);
}

absl::Status Vocabulary::Builder::Add(uint32_t id, std::string_view bytes, bool control) {
  if (id != vocabulary_->control_.size() || id >= vocabulary_->header_.size) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer's vocabulary came with piece ", id, " where piece ",
                                                   vocabulary_->control_.size(), " of ", vocabulary_->header_.size,
                                                   " was due"));
  }
  vocabulary_->bytes_.append(bytes);
  vocabulary_->begins_.push_back(static_cast<uint32_t>(vocabulary_->bytes_.size()));
  vocabulary_->control_.push_back(control);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Vocabulary>> Vocabulary::Builder::Build() {
  const Header& header = vocabulary_->header_;
  if (header.fingerprint.size() != 16 || header.size == 0 || vocabulary_->control_.size() != header.size) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer's vocabulary is not whole: ",
                                                   vocabulary_->control_.size(), " of ", header.size,
                                                   " pieces, fingerprint of ", header.fingerprint.size(), " bytes"));
  }
  return std::shared_ptr<const Vocabulary>(std::move(vocabulary_));
}

bool Vocabulary::EndsGeneration(uint32_t id) const {
  const auto& ids = header_.end_of_generation_ids;
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace tercet::gateway
