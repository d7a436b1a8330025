#include "services/executor/engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/executor/sampling/verify.h"

namespace tercet::executor {
namespace {

uint32_t Microseconds(std::chrono::steady_clock::duration duration) {
  const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(us, 0, UINT32_MAX));
}

}  // namespace

Engine::Engine(EngineOptions options, Forward& forward, PagePool& pool, WorkerTeam& team, EngineMetrics* metrics)
    : options_(std::move(options)),
      forward_(forward),
      pool_(pool),
      team_(team),
      metrics_(metrics),
      tree_(pool, options_.prefix_hash),
      chooser_(options_.limits.vocabulary_size, team) {
  const size_t rows = options_.limits.max_rows;
  const size_t sequences = options_.limits.max_sequences;
  batch_tokens_.reserve(rows);
  choices_.reserve(rows);
  batch_.reserve(sequences);
  spans_.reserve(sequences);
  rows_.reserve(sequences);
  PublishCounts();
  thread_ = std::thread([this] { Loop(); });
}

Engine::~Engine() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    has_mail_.store(true, std::memory_order_release);
  }
  mail_arrived_.notify_one();
  thread_.join();
}

// ---- Mailbox ----------------------------------------------------------------------------------------------------------

void Engine::Post(Mail mail) {
  {
    std::lock_guard lock(mutex_);
    mailbox_.push_back(std::move(mail));
    has_mail_.store(true, std::memory_order_release);
  }
  mail_arrived_.notify_one();
}

void Engine::Attach(uint64_t epoch, std::shared_ptr<ResultSink> sink) { Post(AttachMail{epoch, std::move(sink)}); }

bool Engine::Submit(uint64_t epoch, Plan plan) {
  bool room;
  {
    std::lock_guard lock(mutex_);
    mailbox_.push_back(PlanMail{epoch, std::move(plan)});
    room = ++waiting_plans_ < kMaxWaitingPlans;
    has_mail_.store(true, std::memory_order_release);
  }
  mail_arrived_.notify_one();
  return room;
}

void Engine::Detach(uint64_t epoch) { Post(DetachMail{epoch}); }

void Engine::Drain(std::function<void()> empty) { Post(DrainMail{std::move(empty)}); }

void Engine::Loop() {
  for (;;) {
    if (has_mail_.load(std::memory_order_acquire)) {
      TakeMail();
      std::lock_guard lock(mutex_);
      if (stop_) break;
    }
    if (steps_left_ > 0 && !rows_.empty()) {
      Step();
      continue;
    }
    if (plan_open_) {
      plan_open_ = false;
      rows_.clear();
      gathered_.idle = true;
      Flush();
    }
    WaitForMail();
  }
  CloseAll();
  PublishCounts();
}

void Engine::WaitForMail() {
  std::unique_lock lock(mutex_);
  mail_arrived_.wait(lock, [this] { return has_mail_.load(std::memory_order_relaxed); });
}

void Engine::TakeMail() {
  std::vector<Mail> mail;
  bool plans_taken;
  {
    std::lock_guard lock(mutex_);
    mail.swap(mailbox_);
    plans_taken = waiting_plans_ >= kMaxWaitingPlans;
    waiting_plans_ = 0;
    has_mail_.store(stop_, std::memory_order_release);
  }
  for (Mail& item : mail) {
    std::visit([this](auto& message) { Handle(std::move(message)); }, item);
  }
  if (plans_taken && sink_ != nullptr) sink_->OnPlansTaken();
  PublishCounts();
  NotifyIfEmpty();
}

void Engine::Handle(AttachMail mail) {
  CloseAll();
  epoch_ = mail.epoch;
  sink_ = std::move(mail.sink);
  plan_id_ = 0;
}

void Engine::Handle(DetachMail mail) {
  if (mail.epoch != epoch_) return;
  CloseAll();
  epoch_ = 0;
  sink_.reset();
}

void Engine::Handle(DrainMail mail) {
  draining_ = true;
  if (mail.empty) waiting_for_empty_.push_back(std::move(mail.empty));
}

void Engine::Handle(PlanMail mail) {
  if (mail.epoch != epoch_ || sink_ == nullptr) return;
  if (absl::Status status = ApplyPlan(std::move(mail.plan)); !status.ok()) Fault(std::move(status));
}

void Engine::Fault(absl::Status status) {
  CloseAll();
  const std::shared_ptr<ResultSink> sink = std::exchange(sink_, nullptr);
  sink->OnFault(std::move(status));
}

// ---- Plans ------------------------------------------------------------------------------------------------------------

absl::Status Engine::ApplyPlan(Plan plan) {
  if (plan.id <= plan_id_) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan ", plan.id, " follows plan ", plan_id_, "; plan_id must increase"));
  }
  // What is left of the previous plan is replaced; its results keep its number.
  Flush();
  rows_.clear();
  plan_id_ = plan.id;
  plan_open_ = true;

  for (uint64_t handle : plan.close) sequences_.erase(handle);
  for (OpenSequence& open : plan.open) {
    if (sequences_.contains(open.handle)) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan ", plan.id, " opens handle ", open.handle, ", which is in use"));
    }
    if (sequences_.size() >= options_.limits.max_sequences) {
      return absl::InvalidArgumentError(absl::StrCat("plan ", plan.id, " opens more than the ",
                                                     options_.limits.max_sequences,
                                                     " sequences that this executor holds (max_sequences)"));
    }
    OpenOne(std::move(open));
  }
  for (PlanRow& row : plan.rows) {
    const auto known = sequences_.find(row.handle);
    // It may have ended by itself while the plan was on its way.
    if (known == sequences_.end()) continue;
    Sequence& sequence = *known->second;
    if (!sequence.prefilled() && row.prefill_tokens == 0) {
      return absl::InvalidArgumentError(absl::StrCat("plan ", plan.id, ", row of handle ", row.handle,
                                                     ": prefill_tokens is 0, but ids are left to compute"));
    }
    rows_.push_back({.sequence = &sequence,
                     .prefill_tokens = static_cast<int32_t>(row.prefill_tokens),
                     .page_limit = static_cast<int32_t>(std::min<uint32_t>(row.page_limit, INT32_MAX)),
                     .draft = std::move(row.draft_token_ids)});
  }
  steps_left_ = 1 + plan.free_steps;
  return absl::OkStatus();
}

void Engine::OpenOne(OpenSequence open) {
  const uint64_t handle = open.handle;
  auto owned = std::make_unique<Sequence>(std::move(open), pool_, tree_);
  Sequence& sequence = *owned;
  if (draining_) {
    RowResult& result = ResultOf(sequence);
    result.error = absl::UnavailableError("this executor is draining; send the request to another one");
    urgent_ = true;
    return;
  }
  // A resumed sequence may have all that it wants already.
  if (sequence.generated() > 0 && !sequence.logprobs().prompt) {
    if (std::optional<FinishReason> reason =
            sequence.EndReason(options_.end_of_generation_ids, options_.limits.context_length)) {
      RowResult& result = ResultOf(sequence);
      result.first_index = sequence.generated();
      result.finish = *reason;
      urgent_ = true;
      return;
    }
  }
  sequences_.emplace(handle, std::move(owned));
}

void Engine::CloseAll() {
  rows_.clear();
  steps_left_ = 0;
  plan_open_ = false;
  sequences_.clear();
  gathered_ = {};
  ++gathering_;
  urgent_ = false;
}

// ---- One step ---------------------------------------------------------------------------------------------------------

void Engine::Step() {
  BuildBatch();
  Clock::duration duration{};
  if (!batch_.empty()) {
    const Clock::time_point start = Clock::now();
    const absl::Status status = forward_.Run(spans_);
    const Clock::time_point computed = Clock::now();
    if (status.ok()) {
      for (TokenChoice& choice : choices_) choice.logits = forward_.Logits(choice.logits_row);
      chooser_.Choose(choices_);
      for (const BatchEntry& entry : batch_) {
        if (entry.prefill) {
          ApplyPrefill(entry);
        } else {
          ApplyDecode(entry);
        }
      }
    } else {
      for (const BatchEntry& entry : batch_) Fail(*entry.row, status);
    }
    const Clock::time_point chosen = Clock::now();
    duration = chosen - start;
    statistics_.forward_us = Microseconds(computed - start);
    statistics_.sample_us = Microseconds(chosen - computed);
    gathered_.steps.push_back(statistics_);
    if (metrics_ != nullptr) metrics_->ObserveStep(statistics_);
  }
  for (ActiveRow& row : rows_) row.draft.clear();
  --steps_left_;
  RemoveDropped();
  FlushIfDue(duration);
}

void Engine::BuildBatch() {
  batch_.clear();
  spans_.clear();
  batch_tokens_.clear();
  choices_.clear();
  logit_rows_ = 0;
  statistics_ = {};
  int32_t budget = static_cast<int32_t>(options_.limits.max_rows);
  // Every row may need one row of logits; drafts and scored prompts share what is left.
  spare_logits_ = std::max(forward_.max_logit_rows() - static_cast<int32_t>(rows_.size()), 0);
  // Decode first: those sequences' readers wait between two tokens.
  for (ActiveRow& row : rows_) {
    if (row.sequence->prefilled()) AddDecode(row, budget);
  }
  for (ActiveRow& row : rows_) {
    if (!row.sequence->prefilled()) AddPrefill(row, budget);
  }
}

void Engine::AddDecode(ActiveRow& row, int32_t& budget) {
  if (budget <= 0) return;
  Sequence& sequence = *row.sequence;
  const int32_t first = sequence.computed();
  // A draft of more tokens than the sequence may still produce is of no use.
  const int32_t tokens_left = std::min(static_cast<int32_t>(sequence.stop().max_new_tokens) - sequence.generated(),
                                       static_cast<int32_t>(options_.limits.context_length) - sequence.length());
  int32_t draft = std::min({static_cast<int32_t>(row.draft.size()), tokens_left - 1, budget - 1, spare_logits_});
  const int32_t room = sequence.Reserve(first + 1 + draft, row.page_limit);
  if (room <= first) return Pause(row);
  draft = std::min(draft, room - first - 1);
  spare_logits_ -= draft;

  const size_t begin = batch_tokens_.size();
  batch_tokens_.push_back(sequence.ids().back());
  batch_tokens_.insert(batch_tokens_.end(), row.draft.begin(), row.draft.begin() + draft);
  AddSpan(row, {batch_tokens_.data() + begin, static_cast<size_t>(1 + draft)}, 0, false);
  for (int32_t i = 0; i <= draft; ++i) {
    choices_.push_back({.logits_row = logit_rows_++,
                        .sampling = &sequence.sampling(),
                        .position = static_cast<uint64_t>(sequence.length() + i),
                        .score = sequence.logprobs().enabled,
                        .top = sequence.logprobs().top});
  }
  batch_.back().choices = 1 + draft;
  budget -= 1 + draft;
}

void Engine::AddPrefill(ActiveRow& row, int32_t& budget) {
  // The step is full; the chunk comes with the next one.
  if (budget <= 0) return;
  Sequence& sequence = *row.sequence;
  if (!sequence.looked_up()) {
    const int32_t found = sequence.TakeCachedPrefix(row.page_limit);
    if (metrics_ != nullptr && sequence.generated() == 0 && !sequence.logprobs().prompt) {
      metrics_->prefix_query_tokens.Increment(sequence.length());
      metrics_->prefix_hit_tokens.Increment(found);
    }
  }
  const int32_t first = sequence.computed();
  int32_t tokens = std::min({row.prefill_tokens, budget, sequence.length() - first});
  const int32_t scored_before = sequence.logprobs().prompt ? sequence.prompt_length() - 1 : 0;
  if (first < scored_before) tokens = std::min(tokens, 1 + spare_logits_);
  const int32_t room = sequence.Reserve(first + tokens, row.page_limit);
  if (room <= first) return Pause(row);
  tokens = std::min(tokens, room - first);

  // Position p predicts id p + 1: prompt ids are scored, and the last id of all gives the next token.
  const bool last = first + tokens == sequence.length();
  const bool draws = last && !sequence.EndReason(options_.end_of_generation_ids, options_.limits.context_length);
  const int32_t scored = std::clamp(scored_before - first, 0, tokens);
  const int32_t logits_from = scored > 0 ? 0 : (draws ? tokens - 1 : tokens);
  AddSpan(row, {sequence.ids().data() + first, static_cast<size_t>(tokens)}, logits_from, true);
  for (int32_t i = 0; i < scored; ++i) {
    choices_.push_back({.logits_row = logit_rows_ + i,
                        .position = static_cast<uint64_t>(first + i + 1),
                        .score = true,
                        .top = sequence.logprobs().top,
                        .token = sequence.ids()[first + i + 1]});
  }
  if (draws) {
    choices_.push_back({.logits_row = logit_rows_ + tokens - 1 - logits_from,
                        .sampling = &sequence.sampling(),
                        .position = static_cast<uint64_t>(sequence.length()),
                        .score = sequence.logprobs().enabled,
                        .top = sequence.logprobs().top});
  }
  logit_rows_ += tokens - logits_from;
  spare_logits_ -= std::max(tokens - logits_from - 1, 0);
  batch_.back().choices = scored + (draws ? 1 : 0);
  statistics_.prefill_rows += tokens;
  budget -= tokens;
}

void Engine::AddSpan(ActiveRow& row, std::span<const uint32_t> tokens, int32_t logits_from, bool prefill) {
  const int32_t count = static_cast<int32_t>(tokens.size());
  const int32_t first = row.sequence->computed();
  spans_.push_back({.table = &row.sequence->table(), .tokens = tokens, .first_position = first, .logits_from = logits_from});
  batch_.push_back({.row = &row,
                    .first_position = first,
                    .tokens = count,
                    .prefill = prefill,
                    .first_choice = static_cast<int32_t>(choices_.size())});
  statistics_.rows += count;
}

void Engine::Pause(ActiveRow& row) {
  RowResult& result = ResultOf(*row.sequence);
  result.out_of_pages = true;
  row.dropped = true;
  urgent_ = true;
}

void Engine::ApplyDecode(const BatchEntry& entry) {
  ActiveRow& row = *entry.row;
  Sequence& sequence = *row.sequence;
  const std::span<TokenChoice> choices(choices_.data() + entry.first_choice, entry.choices);
  const uint32_t offered = static_cast<uint32_t>(entry.choices - 1);
  // The target's own tokens stand up to and including the first that differs from the draft.
  own_tokens_.clear();
  for (const TokenChoice& choice : choices) own_tokens_.push_back(choice.token);
  const size_t accepted = AcceptedDrafts({row.draft.data(), offered}, own_tokens_);
  RowResult& result = ResultOf(sequence);
  const int32_t emitted = Emit(row, choices.first(accepted + 1));
  const uint32_t stood = static_cast<uint32_t>(std::max(emitted - 1, 0));
  result.drafted_tokens += offered;
  result.accepted_tokens += stood;
  if (metrics_ != nullptr) {
    metrics_->drafted_tokens.Increment(offered);
    metrics_->accepted_tokens.Increment(stood);
  }
  // Every id but the last has been computed: the one before this step, and the drafts that stood.
  sequence.Advance(sequence.length() - 1);
}

void Engine::ApplyPrefill(const BatchEntry& entry) {
  ActiveRow& row = *entry.row;
  Sequence& sequence = *row.sequence;
  sequence.Advance(entry.first_position + entry.tokens);
  RowResult& result = ResultOf(sequence);
  std::span<TokenChoice> choices(choices_.data() + entry.first_choice, entry.choices);
  while (!choices.empty() && choices.front().sampling == nullptr) {
    TokenChoice& scored = choices.front();
    if (!scored.status.ok()) return Fail(row, std::move(scored.status));
    if (result.prompt_logprobs.empty()) result.prompt_first_index = static_cast<uint32_t>(scored.position);
    result.prompt_logprobs.push_back(std::move(scored.logprobs));
    choices = choices.subspan(1);
  }
  if (sequence.computed() < sequence.length()) return;
  sequence.set_prefilled();
  if (choices.empty()) {
    Finish(row, *sequence.EndReason(options_.end_of_generation_ids, options_.limits.context_length));
  } else {
    Emit(row, choices);
  }
}

int32_t Engine::Emit(ActiveRow& row, std::span<TokenChoice> choices) {
  Sequence& sequence = *row.sequence;
  RowResult& result = ResultOf(sequence);
  int32_t emitted = 0;
  for (TokenChoice& choice : choices) {
    if (!choice.status.ok()) {
      Fail(row, std::move(choice.status));
      break;
    }
    if (result.token_ids.empty()) result.first_index = static_cast<uint32_t>(sequence.generated());
    result.token_ids.push_back(choice.token);
    if (choice.score) result.logprobs.push_back(std::move(choice.logprobs));
    sequence.Append(choice.token);
    ++emitted;
    if (std::optional<FinishReason> reason =
            sequence.EndReason(options_.end_of_generation_ids, options_.limits.context_length)) {
      Finish(row, *reason);
      break;
    }
  }
  if (emitted > 0 && !std::exchange(sequence.emitted, true)) urgent_ = true;
  if (metrics_ != nullptr) metrics_->generated_tokens.Increment(emitted);
  return emitted;
}

void Engine::Finish(ActiveRow& row, FinishReason reason) {
  ResultOf(*row.sequence).finish = reason;
  row.dropped = true;
  row.ended = true;
  urgent_ = true;
}

void Engine::Fail(ActiveRow& row, absl::Status status) {
  ResultOf(*row.sequence).error = std::move(status);
  row.dropped = true;
  row.ended = true;
  urgent_ = true;
  if (metrics_ != nullptr) metrics_->failed_sequences.Increment();
}

void Engine::RemoveDropped() {
  for (ActiveRow& row : rows_) {
    if (!row.dropped) {
      if (row.sequence->result_gathering == gathering_) UpdateCounts(*row.sequence);
      continue;
    }
    UpdateCounts(*row.sequence);
    if (row.ended) sequences_.erase(row.sequence->handle());
  }
  std::erase_if(rows_, [](const ActiveRow& row) { return row.dropped; });
  NotifyIfEmpty();
}

// ---- Results ----------------------------------------------------------------------------------------------------------

RowResult& Engine::ResultOf(Sequence& sequence) {
  if (gathered_.rows.empty() && gathered_.steps.empty()) gathered_since_ = Clock::now();
  if (sequence.result_gathering != gathering_) {
    sequence.result_gathering = gathering_;
    sequence.result_row = gathered_.rows.size();
    RowResult& result = gathered_.rows.emplace_back();
    result.handle = sequence.handle();
    if (!std::exchange(sequence.reported, true)) result.cached_tokens = static_cast<uint32_t>(sequence.cached_tokens());
  }
  return gathered_.rows[sequence.result_row];
}

void Engine::UpdateCounts(Sequence& sequence) {
  RowResult& result = ResultOf(sequence);
  result.computed_tokens = static_cast<uint32_t>(sequence.computed());
  result.pages = static_cast<uint32_t>(sequence.pages());
}

void Engine::FlushIfDue(Clock::duration last_step) {
  const bool used_up = steps_left_ == 0 || rows_.empty();
  // An idle plan is flushed by the loop, which says so in the same message.
  if (used_up) return;
  if (urgent_ || Clock::now() - gathered_since_ + last_step > options_.flush) Flush();
}

void Engine::Flush() {
  PublishCounts();
  if (sink_ == nullptr || (gathered_.rows.empty() && gathered_.steps.empty() && !gathered_.idle)) return;
  gathered_.epoch = epoch_;
  gathered_.plan_id = plan_id_;
  gathered_.free_pages = static_cast<uint32_t>(pool_.free_pages());
  gathered_.cached_pages = static_cast<uint32_t>(tree_.cached_pages());
  sink_->OnResults(std::exchange(gathered_, {}));
  ++gathering_;
  urgent_ = false;
}

void Engine::PublishCounts() {
  const int32_t free = pool_.free_pages();
  const int32_t cached = tree_.cached_pages();
  open_sequences_.store(static_cast<int32_t>(sequences_.size()), std::memory_order_relaxed);
  free_pages_.store(free, std::memory_order_relaxed);
  cached_pages_.store(cached, std::memory_order_relaxed);
  if (metrics_ == nullptr) return;
  metrics_->sequences.Set(static_cast<double>(sequences_.size()));
  metrics_->SetPages(pool_.total_pages(), free, cached);
  metrics_->lease_epoch.Set(static_cast<double>(epoch_));
}

void Engine::NotifyIfEmpty() {
  if (waiting_for_empty_.empty() || !sequences_.empty()) return;
  // The last results go out first.
  Flush();
  for (std::function<void()>& empty : std::exchange(waiting_for_empty_, {})) empty();
}

}  // namespace tercet::executor
