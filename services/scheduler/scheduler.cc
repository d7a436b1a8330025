#include "services/scheduler/scheduler.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>

namespace tercet::scheduler {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

const char* ReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP: return "stop";
    case v1::FINISH_REASON_LENGTH: return "length";
    case v1::FINISH_REASON_CONTEXT: return "context";
    case v1::FINISH_REASON_DEADLINE: return "deadline";
    default: return "error";
  }
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, const Clock& clock, SchedulerMetrics* metrics)
    : options_(options),
      clock_(clock),
      metrics_(metrics),
      without_executor_since_ms_(clock.NowMs()),
      queue_(options.max_queued_requests, options.max_queued_tokens) {}

Scheduler::~Scheduler() = default;

// ---- Requests

absl::StatusOr<RequestId> Scheduler::Submit(v1::GenerateRequest spec, RequestSink* sink, double* retry_after_ms) {
  auto reject = [&](const char* reason, absl::Status status) {
    if (metrics_ != nullptr) metrics_->Rejected(reason).Increment();
    return status;
  };
  *retry_after_ms = 0;
  if (draining_) {
    *retry_after_ms = 1000;
    return reject("unavailable", absl::UnavailableError("the scheduler is shutting down and takes no new requests"));
  }
  if (limits_.context_length == 0) {
    *retry_after_ms = 1000;
    return reject("unavailable", absl::UnavailableError("no executor has been reached yet"));
  }
  if (absl::Status valid = ValidateRequest(spec, limits_); !valid.ok()) return reject("invalid", valid);

  auto request = std::make_unique<Request>();
  request->id = next_id_++;
  request->arrival = request->id;
  request->sink = sink;
  request->received_ms = clock_.NowMs();
  double budget = spec.deadline_ms() == 0 ? options_.max_deadline_ms
                                          : std::min<double>(spec.deadline_ms(), options_.max_deadline_ms);
  request->deadline_ms = request->received_ms + budget;
  request->generated.assign(spec.resume_token_ids().begin(), spec.resume_token_ids().end());
  request->spec = std::move(spec);
  if (!queue_.HasRoomFor(*request)) {
    *retry_after_ms = std::max(100.0, PredictedWaitMs());
    return reject("queue_full", absl::ResourceExhaustedError(absl::StrCat(
                                    "the queue is full (", queue_.size(), " requests, ", queue_.tokens(), " tokens wait)")));
  }
  RequestId id = request->id;
  if (metrics_ != nullptr) metrics_->admitted.Increment();
  queue_.Push(request.get());
  requests_.emplace(id, std::move(request));
  Assign();
  SendPlans();
  return id;
}

void Scheduler::Cancel(RequestId id) {
  auto found = requests_.find(id);
  if (found == requests_.end()) return;
  Request& request = *found->second;
  if (request.state == RequestState::kRunning) {
    Close(request, /*tell_executor=*/true);
  } else {
    queue_.Remove(&request);
  }
  requests_.erase(found);
  if (metrics_ != nullptr) metrics_->Finished("cancelled").Increment();
  Assign();
  SendPlans();
}

void Scheduler::FinishOk(Request& request, v1::FinishReason reason) {
  double now = clock_.NowMs();
  v1::GenerateEvent event;
  v1::Finished* finished = event.mutable_finished();
  finished->set_reason(reason);
  v1::Usage* usage = finished->mutable_usage();
  usage->set_prompt_tokens(request.prompt_length());
  usage->set_cached_tokens(request.cached_tokens);
  usage->set_generated_tokens(static_cast<uint32_t>(request.generated.size()));
  v1::GenerateTiming* timing = finished->mutable_timing();
  timing->set_queue_ms((request.started ? request.started_ms : now) - request.received_ms);
  if (request.started) {
    double prefilled = request.first_token_ms > 0 ? request.first_token_ms : now;
    timing->set_prefill_ms(prefilled - request.started_ms);
    if (request.first_token_ms > 0) timing->set_decode_ms(request.last_token_ms - request.first_token_ms);
  }
  request.sink->OnEvent(std::move(event));
  if (metrics_ != nullptr) {
    metrics_->Finished(ReasonName(reason)).Increment();
    metrics_->request_seconds.Observe((now - request.received_ms) / 1000);
    if (request.generated.size() > 1 && request.last_token_ms > request.first_token_ms) {
      metrics_->inter_token_seconds.Observe((request.last_token_ms - request.first_token_ms) / 1000 /
                                            static_cast<double>(request.generated.size() - 1));
    }
  }
  request.sink->OnEnd(absl::OkStatus(), 0);
  requests_.erase(request.id);
}

void Scheduler::Finish(Request& request, const absl::Status& status, double retry_after_ms) {
  if (metrics_ != nullptr) metrics_->Finished("error").Increment();
  request.sink->OnEnd(status, retry_after_ms);
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
  if (description.total_pages() == 0 || description.page_tokens() == 0 || description.max_rows() == 0 ||
      description.max_sequences() == 0 || description.context_length() == 0 || description.vocabulary_size() == 0) {
    executor.problem = "its description is incomplete";
    return absl::InvalidArgumentError(executor.problem);
  }
  for (const auto& other : executors_) {
    if (other->admitted && other->index != index &&
        (other->description.model_hash() != description.model_hash() ||
         other->description.vocabulary_fingerprint() != description.vocabulary_fingerprint())) {
      executor.problem = absl::StrCat("it serves another model (", description.model_name(), ") than ", other->address);
      return absl::FailedPreconditionError(executor.problem);
    }
  }
  executor.admitted = true;
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

  limits_.vocabulary_fingerprint = description.vocabulary_fingerprint();
  limits_.vocabulary_size = description.vocabulary_size();
  limits_.context_length = description.context_length();
  limits_.largest_pool = 0;
  for (const auto& each : executors_) {
    if (!each->admitted) continue;
    limits_.largest_pool =
        std::max(limits_.largest_pool, each->description.total_pages() * each->description.page_tokens());
  }
  UpdateGauges();
  Assign();
  SendPlans();
  return absl::OkStatus();
}

void Scheduler::ExecutorDown(uint32_t index, const std::string& problem) {
  Executor& executor = *executors_[index];
  executor.problem = problem;
  if (!executor.admitted) return;
  executor.admitted = false;
  executor.link = nullptr;
  prefixes_.Purge(index);
  std::vector<Request*> lost;
  for (const auto& [handle, request] : executor.sequences) lost.push_back(request);
  for (Request* request : lost) {
    Close(*request, /*tell_executor=*/false);
    Requeue(*request);
    if (metrics_ != nullptr) metrics_->resumed.Increment();
  }
  if (!HasExecutor()) without_executor_since_ms_ = clock_.NowMs();
  UpdateGauges();
  Assign();
  SendPlans();
}

bool Scheduler::HasExecutor() const {
  return std::any_of(executors_.begin(), executors_.end(), [](const auto& each) { return each->admitted; });
}

absl::Status Scheduler::ExecutorResults(uint32_t index, const v1::StepResults& results) {
  Executor& executor = *executors_[index];
  if (!executor.admitted || results.lease_epoch() != executor.lease_epoch) return absl::OkStatus();  // late
  executor.free_pages = results.free_pages();
  executor.cached_pages = results.cached_pages();
  for (const v1::StepStatistics& step : results.steps()) {
    executor.cost.Observe(step.rows(), (step.forward_us() + step.sample_us()) / 1000.0);
  }
  for (const v1::RowResult& row : results.rows()) {
    if (absl::Status status = ApplyRow(executor, row); !status.ok()) return status;
  }
  if (results.plan_id() == executor.plan_id) {
    uint32_t taken = static_cast<uint32_t>(results.steps_size());
    executor.steps_left -= std::min(taken, executor.steps_left);
    if (results.idle()) executor.steps_left = 0;
    // Renewed at half, a grant outlives the round trip; a plan is a few hundred bytes.
    if (!executor.sequences.empty() && executor.steps_left <= options_.batch.free_steps / 2) executor.plan_due = true;
  }
  Assign();
  SendPlans();
  UpdateGauges();
  return absl::OkStatus();
}

absl::Status Scheduler::ApplyRow(Executor& executor, const v1::RowResult& row) {
  auto found = executor.sequences.find(row.handle());
  if (found == executor.sequences.end()) return absl::OkStatus();  // closed meanwhile
  Request& request = *found->second;
  double now = clock_.NowMs();

  if (!request.started) {
    request.started = true;
    request.started_ms = now;
    request.cached_tokens = std::min(row.cached_tokens(), request.prompt_length());
    v1::GenerateEvent event;
    event.mutable_started()->set_executor(executor.address);
    event.mutable_started()->set_cached_tokens(request.cached_tokens);
    event.mutable_started()->set_queue_ms(now - request.received_ms);
    request.sink->OnEvent(std::move(event));
    if (metrics_ != nullptr) {
      metrics_->queue_seconds.Observe((now - request.received_ms) / 1000);
      metrics_->prompt_tokens.Increment(request.prompt_length());
      metrics_->cached_tokens.Increment(request.cached_tokens);
    }
  }
  bool was_prefilling = request.prefilling();
  request.computed_tokens = std::max(request.computed_tokens, row.computed_tokens());

  if (row.prompt_logprobs_size() > 0) {
    uint32_t first = row.prompt_first_index();
    if (first > request.next_prompt_logprob) {
      return absl::InternalError(absl::StrCat("prompt log-probabilities jump from ", request.next_prompt_logprob, " to ", first));
    }
    uint32_t skip = std::min<uint32_t>(request.next_prompt_logprob - first, row.prompt_logprobs_size());
    if (skip < static_cast<uint32_t>(row.prompt_logprobs_size())) {
      v1::GenerateEvent event;
      event.mutable_prompt_logprobs()->set_first_index(first + skip);
      for (int i = static_cast<int>(skip); i < row.prompt_logprobs_size(); ++i) {
        *event.mutable_prompt_logprobs()->add_logprobs() = row.prompt_logprobs(i);
      }
      request.next_prompt_logprob = first + row.prompt_logprobs_size();
      request.sink->OnEvent(std::move(event));
    }
  }

  if (row.token_ids_size() > 0) {
    if (row.first_index() != request.generated.size()) {
      return absl::InternalError(absl::StrCat("tokens begin at index ", row.first_index(), ", but ",
                                              request.generated.size(), " are known"));
    }
    bool first_token = request.first_token_ms == 0;
    v1::GenerateEvent event;
    v1::Tokens* tokens = event.mutable_tokens();
    tokens->set_first_index(row.first_index());
    *tokens->mutable_token_ids() = row.token_ids();
    *tokens->mutable_logprobs() = row.logprobs();
    request.generated.insert(request.generated.end(), row.token_ids().begin(), row.token_ids().end());
    if (first_token) request.first_token_ms = now;
    request.last_token_ms = now;
    request.sink->OnEvent(std::move(event));
    if (metrics_ != nullptr) {
      metrics_->generated_tokens.Increment(row.token_ids_size());
      if (first_token) metrics_->first_token_seconds.Observe((now - request.received_ms) / 1000);
    }
  }

  if (row.error_code() != 0) {
    Close(request, /*tell_executor=*/false);
    Finish(request, absl::Status(static_cast<absl::StatusCode>(row.error_code()), row.error_message()));
  } else if (row.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) {
    Close(request, /*tell_executor=*/false);
    FinishOk(request, row.finish_reason());
  } else if (row.out_of_pages() || (was_prefilling && !request.prefilling())) {
    // It needs a higher limit, or its prefill chunk is free for the next prompt.
    executor.plan_due = true;
  }
  return absl::OkStatus();
}

// ---- Placement

double Scheduler::PredictedWaitMs() const {
  double best = kNever;
  for (const auto& executor : executors_) {
    if (!executor->admitted) continue;
    best = std::min(best, executor->cost.PrefillMs(queue_.tokens() + executor->PendingPrefill(),
                                                   options_.batch.prefill_chunk_idle));
  }
  return best == kNever ? 1000 : best;
}

Executor* Scheduler::Choose(const Request& request) {
  Executor* best = nullptr;
  double best_ms = kNever;
  std::vector<uint64_t> chain;
  for (const auto& executor : executors_) {
    if (!executor->admitted || executor->sequences.size() >= executor->description.max_sequences()) continue;
    uint32_t page_tokens = executor->description.page_tokens();
    uint64_t tokens = request.known_tokens();
    if (tokens + 1 > uint64_t{executor->description.total_pages()} * page_tokens &&
        request.spec.stop().max_new_tokens() > 0) {
      continue;
    }
    if (executor->budget.left() < executor->budget.PagesFor(tokens + 1) && !executor->sequences.empty()) continue;
    if (executors_.size() > 1 && chain.empty()) {
      chain = PrefixMap::Chain(request.spec.cache_salt(), request.spec.prompt_token_ids().data(), request.prompt_length(),
                               page_tokens);
    }
    uint64_t cached = std::min<uint64_t>(prefixes_.Match(chain, executor->index) * page_tokens, tokens - 1);
    double wait = executor->cost.PrefillMs(executor->PendingPrefill() + tokens - cached, options_.batch.prefill_chunk_idle);
    // Before any step was measured, fewer open sequences and more cached tokens decide.
    wait += 1e-3 * static_cast<double>(executor->sequences.size()) + 1e-6 * static_cast<double>(tokens - cached);
    if (wait < best_ms) {
      best_ms = wait;
      best = executor.get();
    }
  }
  if (best != nullptr && !chain.empty()) prefixes_.Insert(chain, best->index);
  return best;
}

void Scheduler::Assign() {
  // In order, and none overtakes one that does not fit yet: a large request must not starve behind small ones.
  while (!queue_.empty()) {
    Request& request = *queue_.begin()->second;
    Executor* executor = Choose(request);
    if (executor == nullptr || !Open(request, *executor)) return;
  }
}

bool Scheduler::Open(Request& request, Executor& executor) {
  uint32_t needed = executor.budget.PagesFor(
      std::min<uint64_t>(request.known_tokens() + 1, uint64_t{executor.budget.total()} * executor.description.page_tokens()));
  uint32_t limit = executor.budget.Raise(0, needed, needed);
  if (limit == 0) return false;
  queue_.Remove(&request);
  request.state = RequestState::kRunning;
  request.executor = executor.index;
  request.handle = executor.next_handle++;
  request.computed_tokens = 0;
  request.page_limit = limit;
  request.in_plan = false;
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
  return true;
}

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

// Some sequence has no page for its next token: the youngest gives way, and goes on when pages are back.
void Scheduler::MakeRoom(Executor& executor) {
  std::vector<Request*> open;
  for (const auto& [handle, request] : executor.sequences) open.push_back(request);
  auto youngest = std::max_element(open.begin(), open.end(), [](const Request* a, const Request* b) {
    if (a->spec.priority() != b->spec.priority()) return a->spec.priority() > b->spec.priority();
    return a->arrival < b->arrival;
  });
  Request& victim = **youngest;
  if (open.size() == 1) {
    // Alone and still short of pages: the pool is full of this one sequence.
    Close(victim, /*tell_executor=*/true);
    FinishOk(victim, v1::FINISH_REASON_CONTEXT);
    return;
  }
  Close(victim, /*tell_executor=*/true);
  Requeue(victim);
  if (metrics_ != nullptr) metrics_->preempted.Increment();
}

void Scheduler::SendPlans() {
  for (const auto& each : executors_) {
    Executor& executor = *each;
    if (!executor.admitted || !executor.plan_due) continue;
    while (!FillPlan(executor, options_.batch)) MakeRoom(executor);
    executor.plan_due = false;
    executor.draft.set_plan_id(++executor.plan_id);
    executor.steps_left = executor.draft.rows_size() == 0 ? 0 : executor.draft.free_steps() + 1;
    v1::Plan plan;
    plan.Swap(&executor.draft);
    executor.link->Send(std::move(plan));
  }
}

// ---- Time

double Scheduler::NextTimerMs() const {
  double next = kNever;
  for (const auto& [id, request] : requests_) {
    next = std::min(next, request->deadline_ms);
    if (!request->started && !HasExecutor()) {
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
    } else if (alone && !request->started &&
               std::max(request->received_ms, without_executor_since_ms_) + options_.no_executor_ms <= now) {
      stranded.push_back(request.get());
    }
  }
  for (Request* request : expired) {
    if (request->state == RequestState::kRunning) {
      Close(*request, /*tell_executor=*/true);
    } else {
      queue_.Remove(request);
    }
    FinishOk(*request, v1::FINISH_REASON_DEADLINE);
  }
  for (Request* request : stranded) {
    queue_.Remove(request);
    Finish(*request, absl::UnavailableError("no executor is reachable"), 1000);
  }
  if (!expired.empty()) {
    Assign();
    SendPlans();
  }
  UpdateGauges();
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
    out->set_admitted(executor->admitted);
    out->set_problem(executor->problem);
    if (!executor->admitted) continue;
    out->set_lease_epoch(executor->lease_epoch);
    out->set_model_name(executor->description.model_name());
    out->set_running_sequences(static_cast<uint32_t>(executor->sequences.size()));
    out->set_total_pages(executor->description.total_pages());
    out->set_free_pages(executor->free_pages);
    out->set_cached_pages(executor->cached_pages);
    out->set_step_ms(executor->cost.StepMs(1));
  }
  return state;
}

void Scheduler::UpdateGauges() {
  if (metrics_ == nullptr) return;
  double admitted = 0, free = 0, cached = 0, total = 0;
  for (const auto& executor : executors_) {
    if (!executor->admitted) continue;
    admitted += 1;
    free += executor->free_pages;
    cached += executor->cached_pages;
    total += executor->description.total_pages();
  }
  metrics_->queued.Set(static_cast<double>(queue_.size()));
  metrics_->running.Set(static_cast<double>(requests_.size() - queue_.size()));
  metrics_->executors.Set(admitted);
  metrics_->pages_free.Set(free);
  metrics_->pages_cached.Set(cached);
  metrics_->pages_total.Set(total);
}

}  // namespace tercet::scheduler
