// The scheduler's service over real sockets, with fake executors behind real sockets.
#include "services/scheduler/service.h"

#include <absl/strings/numbers.h>
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "tests/services/scheduler/fake_executor_server.h"
#include "tests/temporary_directory.h"

namespace tercet::scheduler {
namespace {

using ::testing::HasSubstr;

std::vector<uint32_t> Prompt(size_t length, uint32_t start = 1) {
  std::vector<uint32_t> ids(length);
  for (size_t i = 0; i < length; ++i) ids[i] = (start + static_cast<uint32_t>(i) * 7) % 1000;
  return ids;
}

v1::GenerateRequest Spec(const std::vector<uint32_t>& prompt, uint32_t max_new) {
  v1::GenerateRequest spec;
  spec.set_request_id("test");
  spec.set_vocabulary_fingerprint("fedcba9876543210");
  spec.mutable_prompt_token_ids()->Add(prompt.begin(), prompt.end());
  spec.mutable_stop()->set_max_new_tokens(max_new);
  return spec;
}

struct Answer {
  std::vector<uint32_t> tokens;
  int started = 0;
  std::optional<v1::Finished> finished;
  grpc::Status status;
  int64_t retry_after_ms = 0;
};

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// One scheduler process, less its main().
class Process {
 public:
  Process(const std::string& address, const std::vector<std::string>& executors, ServiceOptions options = {})
      : service(options, metrics, [this](bool r) {
          ready = r;
          health->SetServing(r);
        }) {
    server = *rpc::Server::Start({.address = address, .services = {&service}});
    health = server.get();
    service.Connect(executors);
  }
  ~Process() { server->Shutdown(absl::ZeroDuration()); }

  telemetry::Metrics registry;
  SchedulerMetrics metrics{registry};
  std::atomic<bool> ready{false};
  rpc::Server* health = nullptr;
  SchedulerService service;
  std::unique_ptr<rpc::Server> server;
};

class ServiceTest : public ::testing::Test {
 protected:
  void StartExecutor(int step_ms = 1) {
    executor = std::make_unique<FakeExecutorServer>(executor_address, step_ms);
    ASSERT_TRUE(executor->ok());
  }
  void StartScheduler(ServiceOptions options = {}) {
    process = std::make_unique<Process>(scheduler_address, std::vector<std::string>{executor_address}, options);
    stub = v1::Scheduler::NewStub(rpc::MakeChannel(scheduler_address));
  }
  void Start(int step_ms = 1) {
    StartExecutor(step_ms);
    StartScheduler();
    ASSERT_TRUE(Eventually([&] { return process->ready.load(); }));
  }

  // Reads the stream to its end; `on_tokens` may cancel it.
  Answer Ask(const v1::GenerateRequest& spec, std::function<void(grpc::ClientContext&, size_t)> on_tokens = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    auto reader = stub->Generate(&context, spec);
    Answer answer;
    size_t resumed = static_cast<size_t>(spec.resume_token_ids_size());
    for (v1::GenerateEvent event; reader->Read(&event);) {
      if (event.has_started()) ++answer.started;
      if (event.has_tokens()) {
        EXPECT_EQ(event.tokens().first_index(), resumed + answer.tokens.size());
        answer.tokens.insert(answer.tokens.end(), event.tokens().token_ids().begin(), event.tokens().token_ids().end());
        if (on_tokens) on_tokens(context, answer.tokens.size());
      }
      if (event.has_finished()) answer.finished = event.finished();
    }
    answer.status = reader->Finish();
    auto trailer = context.GetServerTrailingMetadata().find("retry-after-ms");
    if (trailer != context.GetServerTrailingMetadata().end()) {
      EXPECT_TRUE(absl::SimpleAtoi(absl::string_view(trailer->second.data(), trailer->second.size()), &answer.retry_after_ms));
    }
    return answer;
  }

  TemporaryDirectory directory;
  std::string executor_address = "unix:" + directory.file("executor");
  std::string scheduler_address = "unix:" + directory.file("scheduler");
  std::unique_ptr<FakeExecutorServer> executor;
  std::unique_ptr<Process> process;
  std::unique_ptr<v1::Scheduler::Stub> stub;
};

TEST_F(ServiceTest, StreamsAnAnswer) {
  Start();
  Answer answer = Ask(Spec(Prompt(20), 50));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.tokens, RightAnswer(Prompt(20), 50));
  EXPECT_EQ(answer.started, 1);
  EXPECT_EQ(answer.finished->reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(answer.finished->usage().generated_tokens(), 50u);
}

TEST_F(ServiceTest, ServesManyAtATime) {
  Start();
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (uint32_t i = 0; i < 24; ++i) {
    clients.emplace_back([&, i] {
      if (Ask(Spec(Prompt(10 + i, i), 40)).tokens == RightAnswer(Prompt(10 + i, i), 40)) ++right;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 24);
  EXPECT_TRUE(Eventually([&] { return executor->used_pages() == 0; }));
}

TEST_F(ServiceTest, CancellingFreesThePagesEachTime) {
  Start();
  for (size_t i = 0; i < 50; ++i) {
    Answer answer = Ask(Spec(Prompt(100, static_cast<uint32_t>(i)), 500), [&](grpc::ClientContext& context, size_t tokens) {
      if (tokens > i % 7) context.TryCancel();
    });
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_FALSE(answer.finished.has_value());
    EXPECT_TRUE(Eventually([&] { return executor->used_pages() == 0; }));
  }
  EXPECT_TRUE(Eventually([&] { return process->service.OpenStreams() == 0; }));
  EXPECT_EQ(Ask(Spec(Prompt(20), 5)).tokens, RightAnswer(Prompt(20), 5));
}

TEST_F(ServiceTest, ARefusalSaysWhatAndWhenToComeBack) {
  StartScheduler();  // no executor yet
  Answer early = Ask(Spec(Prompt(20), 5));
  EXPECT_EQ(early.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GT(early.retry_after_ms, 0);
  EXPECT_FALSE(process->ready);
  StartExecutor();
  ASSERT_TRUE(Eventually([&] { return process->ready.load(); }));
  Answer hostile = Ask(Spec({5000}, 5));
  EXPECT_EQ(hostile.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(hostile.status.error_message(), HasSubstr("prompt_token_ids[0] is 5000"));
}

TEST_F(ServiceTest, AKilledExecutorComesBackAndTheStreamGoesOn) {
  Start();
  bool killed = false;
  Answer answer = Ask(Spec(Prompt(30), 300), [&](grpc::ClientContext&, size_t tokens) {
    if (tokens < 50 || killed) return;
    killed = true;
    executor->Stop();
    EXPECT_TRUE(Eventually([&] { return !process->ready; }));
    StartExecutor();
  });
  EXPECT_TRUE(killed);
  EXPECT_EQ(answer.tokens, RightAnswer(Prompt(30), 300));
  EXPECT_EQ(answer.started, 1);
  EXPECT_TRUE(process->ready);
}

TEST_F(ServiceTest, AResumedRequestGoesOnBehindItsTokens) {
  Start();
  std::vector<uint32_t> right = RightAnswer(Prompt(30), 60);
  v1::GenerateRequest spec = Spec(Prompt(30), 60);
  spec.mutable_resume_token_ids()->Add(right.begin(), right.begin() + 33);
  EXPECT_EQ(Ask(spec).tokens, std::vector<uint32_t>(right.begin() + 33, right.end()));
}

TEST_F(ServiceTest, TheDeadlineEndsAStreamWithWhatItHas) {
  Start(/*step_ms=*/5);
  v1::GenerateRequest spec = Spec(Prompt(30), 2000 - 30);
  spec.set_deadline_ms(300);
  auto begin = std::chrono::steady_clock::now();
  Answer answer = Ask(spec);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  EXPECT_EQ(answer.finished->reason(), v1::FINISH_REASON_DEADLINE);
  EXPECT_FALSE(answer.tokens.empty());
  EXPECT_EQ(answer.tokens, RightAnswer(Prompt(30), answer.tokens.size()));
}

TEST_F(ServiceTest, AReaderThatDoesNotReadIsCutOffAndHoldsNobodyUp) {
  StartExecutor(/*step_ms=*/0);
  executor->description.set_context_length(32768);
  executor->description.set_total_pages(4096);
  StartScheduler();
  ASSERT_TRUE(Eventually([&] { return process->ready.load(); }));
  grpc::ClientContext context;
  auto reader = stub->Generate(&context, Spec(Prompt(20), 30000));
  EXPECT_EQ(Ask(Spec(Prompt(25), 100)).tokens, RightAnswer(Prompt(25), 100));
  ASSERT_TRUE(Eventually([&] { return process->service.OpenStreams() == 0; })) << "its memory is not kept for ever";
  EXPECT_TRUE(Eventually([&] { return executor->used_pages() == 0; }));
  v1::GenerateEvent event;
  while (reader->Read(&event)) EXPECT_FALSE(event.has_finished());
  EXPECT_FALSE(reader->Finish().ok());
}

TEST_F(ServiceTest, WatchShowsTheStateAndCanBeLeft) {
  Start();
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_interval_ms(50);
  auto reader = stub->Watch(&context, request);
  v1::SchedulerState state;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(reader->Read(&state));
  ASSERT_EQ(state.executors_size(), 1);
  EXPECT_TRUE(state.executors(0).admitted());
  EXPECT_EQ(state.executors(0).address(), executor_address);
  EXPECT_EQ(state.executors(0).model_name(), "fake");
  EXPECT_EQ(state.executors(0).total_pages(), 256u);
  EXPECT_GT(state.executors(0).lease_epoch(), 0u);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);

  for (uint32_t wrong : {1u, 49u, 60001u}) {
    grpc::ClientContext other;
    request.set_interval_ms(wrong);
    auto refused = stub->Watch(&other, request);
    EXPECT_FALSE(refused->Read(&state));
    EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(ServiceTest, DrainFinishesWhatRunsAndRefusesTheRest) {
  Start();
  std::atomic<bool> drained{false};
  std::thread drain;
  Answer answer = Ask(Spec(Prompt(30), 300), [&](grpc::ClientContext&, size_t) {
    if (drain.joinable()) return;
    drain = std::thread([&] {
      grpc::ClientContext context;
      v1::DrainSchedulerReply reply;
      EXPECT_TRUE(stub->Drain(&context, {}, &reply).ok());
      EXPECT_EQ(reply.finished_requests(), 1u);
      drained = true;
    });
    EXPECT_TRUE(Eventually([&] { return !process->ready; })) << "health says so at once";
    Answer refused = Ask(Spec(Prompt(10), 5));
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_GT(refused.retry_after_ms, 0);
    EXPECT_FALSE(drained);
  });
  drain.join();
  EXPECT_EQ(answer.tokens, RightAnswer(Prompt(30), 300));
  EXPECT_TRUE(process->service.WaitUntilIdle(1000));
}

TEST_F(ServiceTest, ADrainThatTakesTooLongSaysWhatIsLeftAndStopsNothing) {
  Start(/*step_ms=*/3);
  bool asked = false;
  Answer answer = Ask(Spec(Prompt(30), 100), [&](grpc::ClientContext&, size_t) {
    if (std::exchange(asked, true)) return;
    grpc::ClientContext context;
    v1::DrainSchedulerRequest request;
    request.set_timeout_ms(30);
    v1::DrainSchedulerReply reply;
    grpc::Status status = stub->Drain(&context, request, &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(status.error_message(), HasSubstr("1 requests are still running"));
  });
  EXPECT_EQ(answer.tokens, RightAnswer(Prompt(30), 100));
}

TEST_F(ServiceTest, AnExecutorOfAnotherSchedulerIsLeftAloneUntilItIsAnOrphan) {
  StartExecutor();
  executor->OwnedByAnother(41);
  StartScheduler();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(process->ready);
  EXPECT_EQ(executor->attached(), 0);
  v1::SchedulerState state = process->service.Describe();
  EXPECT_THAT(state.executors(0).problem(), HasSubstr("another scheduler owns it (lease epoch 41)"));
  executor->OwnedByAnother(0);
  ASSERT_TRUE(Eventually([&] { return process->ready.load(); }));
  EXPECT_EQ(process->service.Describe().executors(0).lease_epoch(), 42u);
}

TEST_F(ServiceTest, TwoSchedulersDoNotTakeAnExecutorFromEachOther) {
  Start();
  Process second("unix:" + directory.file("second"), {executor_address});
  Answer answer = Ask(Spec(Prompt(30), 300));
  EXPECT_EQ(answer.tokens, RightAnswer(Prompt(30), 300));
  EXPECT_EQ(executor->attached(), 1);
  EXPECT_FALSE(second.ready);
  process.reset();  // the first one goes
  EXPECT_TRUE(Eventually([&] { return second.ready.load(); }));
  EXPECT_EQ(executor->attached(), 2);
}

TEST_F(ServiceTest, StoppingInTheMiddleOfStreamsEndsThemAll) {
  Start();
  std::vector<std::thread> clients;
  std::atomic<int> ended{0};
  for (uint32_t i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] {
      Answer answer = Ask(Spec(Prompt(10 + i, i), 1500));
      EXPECT_FALSE(answer.status.ok());
      ++ended;
    });
  }
  EXPECT_TRUE(Eventually([&] { return process->service.OpenStreams() == 6; }));
  process->service.StartDraining();
  EXPECT_FALSE(process->service.WaitUntilIdle(50));
  process.reset();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(ended, 6);
}

}  // namespace
}  // namespace tercet::scheduler
