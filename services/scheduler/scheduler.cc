#include "services/scheduler/scheduler.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "services/scheduler/delivery.h"

namespace tercet::scheduler {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRetryMs = 1000;
// A request whose executors break off so many times in a row is taken for the cause.
constexpr uint32_t kMostLosses = 8;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, const Clock& clock, SchedulerMetrics& metrics)
    : options_(options),
      clock_(clock),
      metrics_(metrics),
      without_executor_since_ms_(clock.NowMs()),
      admission_(options.max_queued_requests, options.max_queued_tokens),
      router_(options.batch.prefill_chunk_idle) {}

Scheduler::~Scheduler() = default;

// ---- Requests

absl::StatusOr<RequestId> Scheduler::Submit(v1::GenerateRequest spec, RequestSink* sink, double* retry_after_ms) {
  auto reject = [&](const char* reason, absl::Status status, double retry_ms = 0) {
    metrics_.Rejected(reason).Increment();
    *retry_after_ms = retry_ms;
    return status;
  };
  if (draining_) {
    return reject("unavailable", absl::UnavailableError("the scheduler is shutting down and takes no new requests"), kRetryMs);
  }
  if (limits_.context_length == 0) {
    return reject("unavailable", absl::UnavailableError("no executor has been reached yet"), kRetryMs);
  }
  if (absl::Status valid = ValidateRequest(spec, limits_); !valid.ok()) return reject("invalid", valid);

  auto owned = std::make_unique<Request>();
  Request& request = *owned;
  request.id = next_id_++;
  request.arrival = request.id;
  request.sink = sink;
  request.received_ms = clock_.NowMs();
  double most_ms = options_.max_deadline_ms;
  request.deadline_ms = request.received_ms + (spec.deadline_ms() == 0 ? most_ms : std::min<double>(spec.deadline_ms(), most_ms));
  request.generated.assign(spec.resume_token_ids().begin(), spec.resume_token_ids().end());
  request.spec = std::move(spec);
  if (absl::Status room = admission_.Check(request, queue_); !room.ok()) {
    return reject("queue_full", room, admission_.PredictedWaitMs(queue_.size()));
  }
  RequestId id = request.id;
  metrics_.admitted.Increment();
  queue_.Push(&request);
  requests_.emplace(id, std::move(owned));
  Advance();
  return id;
}

void Scheduler::Cancel(RequestId id) {
  auto found = requests_.find(id);
  if (found == requests_.end()) return;
  Detach(*found->second);
  requests_.erase(found);
  metrics_.Finished("cancelled").Increment();
  Advance();
}

void Scheduler::Detach(Request& request) {
  switch (request.state) {
    case RequestState::kQueued:
      queue_.Remove(&request);
      return;
    case RequestState::kRunning:
      Close(request, /*tell_executor=*/true);
      return;
  }
}

void Scheduler::Finish(Request& request, v1::FinishReason reason) {
  Detach(request);
  DeliverFinished(request, reason, clock_.NowMs(), metrics_);
  requests_.erase(request.id);
}

void Scheduler::Fail(Request& request, const absl::Status& status, double retry_after_ms) {
  Detach(request);
  DeliverError(request, status, retry_after_ms, metrics_);
  requests_.erase(request.id);
}

// ---- Executors

uint32_t Scheduler::AddExecutor(const std::string& address) {
  auto executor = std::make_unique<Executor>();
  executor->index = static_cast<uint32_t>(executors_.size());
  executor->address = address;
  executors_.push_back(std::move(executor));
  return executors_.back()->index;
}

absl::Status Scheduler::ExecutorUp(uint32_t index, uint64_t lease_epoch, const v1::ExecutorDescription& description,
                                   ExecutorLink* link) {
  Executor& executor = *executors_[index];
  auto refuse = [&](absl::Status status) {
    executor.problem = std::string(status.message());
    return status;
  };
  if (description.total_pages() == 0 || description.page_tokens() == 0 || description.max_rows() == 0 ||
      description.max_sequences() == 0 || description.context_length() == 0 || description.vocabulary_size() == 0) {
    return refuse(absl::InvalidArgumentError("its description is incomplete"));
  }
  bool same_model = description.model_hash() == limits_.model_hash &&
                    description.vocabulary_fingerprint() == limits_.vocabulary_fingerprint &&
                    description.context_length() == limits_.context_length;
  if (!same_model) {
    // One fleet, one model and one context: else a request's answer would depend on where it runs.
    for (const auto& other : executors_) {
      if (other->membership == Membership::kAway || other.get() == &executor) continue;
      return refuse(absl::FailedPreconditionError(absl::StrCat(
          "it serves another model or context length (", description.model_name(), ", ", description.context_length(),
          " tokens) than ", other->address, " (", limits_.model_name, ", ", limits_.context_length, " tokens)")));
    }
    // What waits was made for the former model: its ids mean something else to this one.
    std::vector<Request*> former;
    for (const auto& [id, request] : requests_) former.push_back(request.get());
    for (Request* request : former) {
      Fail(*request, absl::FailedPreconditionError(absl::StrCat("the executors now serve ", description.model_name(),
                                                                " instead of ", limits_.model_name)));
    }
    for (const auto& each : executors_) each->description.Clear();
    limits_.model_name = description.model_name();
    limits_.model_hash = description.model_hash();
    limits_.vocabulary_fingerprint = description.vocabulary_fingerprint();
    limits_.vocabulary_size = description.vocabulary_size();
    limits_.context_length = description.context_length();
  }
  executor.membership = Membership::kAdmitted;
  executor.problem.clear();
  executor.link = link;
  executor.lease_epoch = lease_epoch;
  executor.description = description;
  executor.budget.Reset(description.total_pages(), description.page_tokens());
  executor.free_pages = description.total_pages();
  executor.cached_pages = 0;
  executor.plan_id = 0;
  executor.steps_left = 0;
  executor.plan_due = false;
  executor.draft.Clear();
  UpdateLimits();
  Advance();
  return absl::OkStatus();
}

void Scheduler::ExecutorDown(uint32_t index, const std::string& problem) {
  Executor& executor = *executors_[index];
  if (executor.membership == Membership::kAway) {
    executor.problem = problem;
    return;
  }
  if (executor.membership == Membership::kAdmitted) executor.problem = problem;
  executor.membership = Membership::kAway;
  executor.link = nullptr;
  router_.Forget(index);
  std::vector<Request*> lost;
  for (const auto& [handle, request] : executor.sequences) lost.push_back(request);
  for (Request* request : lost) {
    Close(*request, /*tell_executor=*/false);
    Requeue(*request);
    metrics_.resumed.Increment();
    if (++request->losses > kMostLosses) {
      Fail(*request, absl::InternalError(absl::StrCat("executors broke off ", request->losses,
                                                      " times in a row while they ran this request; the last time: ",
                                                      problem)));
    }
  }
  if (!HasExecutor()) without_executor_since_ms_ = clock_.NowMs();
  Advance();
}

void Scheduler::UpdateLimits() {
  limits_.largest_pool = 0;
  for (const auto& executor : executors_) limits_.largest_pool = std::max(limits_.largest_pool, executor->pool_tokens());
}

bool Scheduler::HasExecutor() const {
  return std::any_of(executors_.begin(), executors_.end(),
                     [](const auto& each) { return each->membership == Membership::kAdmitted; });
}

absl::Status Scheduler::ExecutorResults(uint32_t index, const v1::StepResults& results) {
  Executor& executor = *executors_[index];
  if (executor.membership == Membership::kAway || results.lease_epoch() != executor.lease_epoch) {
    return absl::OkStatus();  // late
  }
  executor.free_pages = results.free_pages();
  executor.cached_pages = results.cached_pages();
  for (const v1::StepStatistics& step : results.steps()) {
    executor.cost.Observe(step.rows(), (step.forward_us() + step.sample_us()) / 1000.0);
  }
  for (const v1::RowResult& row : results.rows()) {
    if (absl::Status status = ApplyRow(executor, results, row); !status.ok()) return status;
  }
  if (results.plan_id() == executor.plan_id) {
    uint32_t taken = static_cast<uint32_t>(results.steps_size());
    executor.steps_left -= std::min(taken, executor.steps_left);
    if (results.idle()) executor.steps_left = 0;
    // Renewed at half, a grant outlives the round trip; a plan is a few hundred bytes.
    if (!executor.sequences.empty() && executor.steps_left <= options_.batch.free_steps / 2) executor.plan_due = true;
  }
  Advance();
  return absl::OkStatus();
}

absl::Status Scheduler::ApplyRow(Executor& executor, const v1::StepResults& results, const v1::RowResult& row) {
  auto found = executor.sequences.find(row.handle());
  if (found == executor.sequences.end()) return absl::OkStatus();  // closed meanwhile
  Request& request = *found->second;
  if (row.error_code() == static_cast<int32_t>(absl::StatusCode::kUnavailable)) {
    // It shuts down: it finishes what it has and lets this one go elsewhere.
    Close(request, /*tell_executor=*/false);
    Requeue(request);
    executor.membership = Membership::kLeaving;
    executor.problem = row.error_message();
    if (!HasExecutor()) without_executor_since_ms_ = clock_.NowMs();
    return absl::OkStatus();
  }
  if (row.error_code() != 0) {
    Close(request, /*tell_executor=*/false);
    DeliverError(request, absl::Status(static_cast<absl::StatusCode>(row.error_code()), row.error_message()), 0, metrics_);
    requests_.erase(request.id);
    return absl::OkStatus();
  }
  bool was_prefilling = request.prefilling();
  if (absl::Status status = DeliverRow(request, row, executor.address, clock_.NowMs(), metrics_); !status.ok()) {
    return status;
  }
  if (row.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) {
    Close(request, /*tell_executor=*/false);
    admission_.OnEnd(clock_.NowMs(), queue_.size());
    DeliverFinished(request, row.finish_reason(), clock_.NowMs(), metrics_);
    requests_.erase(request.id);
    return absl::OkStatus();
  }
  if (row.out_of_pages() && results.plan_id() == executor.plan_id && row.pages() < request.page_limit) {
    return absl::InternalError(absl::StrCat("no page is left for a sequence that holds ", row.pages(), " of the ",
                                            request.page_limit, " pages promised to it"));
  }
  // It needs a higher limit, or its prefill chunk is free for the next prompt.
  if (row.out_of_pages() || (was_prefilling && !request.prefilling())) executor.plan_due = true;
  return absl::OkStatus();
}

// ---- Placement and plans

// Everything that an event may have made possible.
void Scheduler::Advance() {
  do {
    Assign();
  } while (SendPlans());
  UpdateGauges();
}

void Scheduler::Assign() {
  if (queue_.empty() || !HasExecutor()) return;
  for (auto next = queue_.begin(); next != queue_.end();) {
    Request& request = *(next++)->second;
    if (request.known_tokens() > limits_.largest_pool) {
      // It has grown to all the memory there is, or the executor that could hold it came back smaller.
      if (request.generated.empty()) {
        Fail(request, absl::InvalidArgumentError(absl::StrCat("the prompt has ", request.known_tokens(),
                                                              " tokens, but the KV memory of an executor holds ",
                                                              limits_.largest_pool)));
      } else {
        Finish(request, v1::FINISH_REASON_CONTEXT);
      }
      continue;
    }
    if (Executor* executor = router_.Choose(executors_, request)) {
      Open(request, *executor);
      continue;
    }
    // None overtakes one that will fit once others end: a large request must not starve behind small ones. But one that waits
    // for an executor to come back holds nobody up.
    bool fits_later = std::any_of(executors_.begin(), executors_.end(),
                                  [&](const auto& each) { return Router::CouldHold(*each, request); });
    if (fits_later) return;
  }
}

void Scheduler::Open(Request& request, Executor& executor) {
  queue_.Remove(&request);
  request.state = RequestState::kRunning;
  request.executor = executor.index;
  request.handle = executor.next_handle++;
  request.computed_tokens = 0;
  uint32_t pages = executor.budget.PagesFor(request.known_tokens());
  request.page_limit = executor.budget.Raise(0, pages, pages);
  executor.sequences.emplace(request.handle, &request);

  v1::OpenSequence* open = executor.draft.add_open();
  open->set_handle(request.handle);
  *open->mutable_token_ids() = request.spec.prompt_token_ids();
  open->mutable_token_ids()->Add(request.generated.begin(), request.generated.end());
  open->set_prompt_length(request.prompt_length());
  *open->mutable_sampling() = request.spec.sampling();
  *open->mutable_stop() = request.spec.stop();
  *open->mutable_logprobs() = request.spec.logprobs();
  open->set_cache_salt(request.spec.cache_salt());
  executor.plan_due = true;
}

// Takes the sequence off its executor; the caller says what becomes of it.
void Scheduler::Close(Request& request, bool tell_executor) {
  Executor& executor = *executors_[request.executor];
  executor.sequences.erase(request.handle);
  executor.budget.Release(request.page_limit);
  request.page_limit = 0;
  if (!tell_executor) return;
  auto* opens = executor.draft.mutable_open();
  for (int i = 0; i < opens->size(); ++i) {
    if ((*opens)[i].handle() == request.handle) {  // the executor has not heard of it yet
      opens->DeleteSubrange(i, 1);
      return;
    }
  }
  executor.draft.add_close(request.handle);
  executor.plan_due = true;
}

void Scheduler::Requeue(Request& request) {
  request.state = RequestState::kQueued;
  queue_.Push(&request);
}

// `request` has no page to compute its next token. One that needs more than the whole pool leaves it (true: it can go on elsewhere,
// or ends); otherwise the youngest gives way, and goes on when pages are back.
bool Scheduler::MakeRoom(Executor& executor, Request& request) {
  if (request.known_tokens() > executor.pool_tokens()) {
    Close(request, /*tell_executor=*/true);
    Requeue(request);
    return true;
  }
  Request* youngest = &request;
  for (const auto& [handle, other] : executor.sequences) {
    bool later = other->spec.priority() != youngest->spec.priority() ? other->spec.priority() < youngest->spec.priority()
                                                                      : other->arrival > youngest->arrival;
    if (later) youngest = other;
  }
  Close(*youngest, /*tell_executor=*/true);
  Requeue(*youngest);
  metrics_.preempted.Increment();
  return false;
}

// Sends what is due. True: a sequence outgrew its executor and is to be assigned anew.
bool Scheduler::SendPlans() {
  bool outgrown = false;
  for (const auto& each : executors_) {
    Executor& executor = *each;
    if (executor.membership == Membership::kAway || !executor.plan_due) continue;
    while (Request* starving = FillPlan(executor, options_.batch)) outgrown |= MakeRoom(executor, *starving);
    executor.plan_due = false;
    executor.draft.set_plan_id(++executor.plan_id);
    executor.steps_left = executor.draft.rows_size() == 0 ? 0 : executor.draft.free_steps() + 1;
    v1::Plan plan;
    plan.Swap(&executor.draft);
    executor.link->Send(std::move(plan));
  }
  return outgrown;
}

// ---- Time

double Scheduler::NextTimerMs() const {
  double next = kNever;
  bool alone = !HasExecutor();
  for (const auto& [id, request] : requests_) {
    next = std::min(next, request->deadline_ms);
    if (alone && !request->started && request->state == RequestState::kQueued) {
      next = std::min(next, std::max(request->received_ms, without_executor_since_ms_) + options_.no_executor_ms);
    }
  }
  return next;
}

void Scheduler::Tick() {
  double now = clock_.NowMs();
  bool alone = !HasExecutor();
  std::vector<Request*> expired, stranded;
  for (const auto& [id, request] : requests_) {
    if (request->deadline_ms <= now) {
      expired.push_back(request.get());
    } else if (alone && !request->started && request->state == RequestState::kQueued &&
               std::max(request->received_ms, without_executor_since_ms_) + options_.no_executor_ms <= now) {
      stranded.push_back(request.get());
    }
  }
  for (Request* request : expired) {
    bool begun = request->state == RequestState::kRunning || request->started || !request->generated.empty();
    if (begun) {
      Finish(*request, v1::FINISH_REASON_DEADLINE);
    } else {
      Fail(*request, absl::UnavailableError("no executor could begin this request within its deadline"),
           alone ? kRetryMs : admission_.PredictedWaitMs(queue_.size()));
    }
  }
  for (Request* request : stranded) Fail(*request, absl::UnavailableError("no executor is reachable"), kRetryMs);
  if (!expired.empty() || !stranded.empty()) Advance();
}

// ---- State

v1::SchedulerState Scheduler::Describe() const {
  v1::SchedulerState state;
  state.set_queued_requests(static_cast<uint32_t>(queue_.size()));
  state.set_running_requests(static_cast<uint32_t>(requests_.size() - queue_.size()));
  state.set_draining(draining_);
  for (const auto& executor : executors_) {
    v1::ExecutorState* out = state.add_executors();
    out->set_address(executor->address);
    out->set_admitted(executor->membership == Membership::kAdmitted);
    out->set_problem(executor->problem);
    out->set_model_name(executor->description.model_name());
    if (executor->membership == Membership::kAway) continue;
    out->set_lease_epoch(executor->lease_epoch);
    out->set_running_sequences(static_cast<uint32_t>(executor->sequences.size()));
    out->set_total_pages(executor->description.total_pages());
    out->set_free_pages(executor->free_pages);
    out->set_cached_pages(executor->cached_pages);
    out->set_step_ms(executor->cost.StepMs(1));
  }
  return state;
}

void Scheduler::UpdateGauges() {
  double admitted = 0, free = 0, cached = 0, total = 0;
  for (const auto& executor : executors_) {
    if (executor->membership == Membership::kAway) continue;
    if (executor->membership == Membership::kAdmitted) admitted += 1;
    free += executor->free_pages;
    cached += executor->cached_pages;
    total += executor->description.total_pages();
  }
  metrics_.queued.Set(static_cast<double>(queue_.size()));
  metrics_.running.Set(static_cast<double>(requests_.size() - queue_.size()));
  metrics_.executors.Set(admitted);
  metrics_.pages_free.Set(free);
  metrics_.pages_cached.Set(cached);
  metrics_.pages_total.Set(total);
}

}  // namespace tercet::scheduler
