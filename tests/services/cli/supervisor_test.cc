// Processes that the shell plays: start, crash, restart, order of stopping.
#include "services/cli/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tercet::cli {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the supervisor reports, from its thread.
class Record {
 public:
  void Add(const std::string& text) {
    std::lock_guard lock(mutex_);
    entries_.push_back(text);
  }
  std::vector<std::string> entries() const {
    std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> entries_;
};

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

ProcessSpec Shell(const std::string& name, const std::string& script) { return {name, {"/bin/sh", "-c", script}}; }

// A process that reports its end, as a service that drains does.
ProcessSpec Service(const std::string& name) {
  return Shell(name, "trap 'echo bye; exit 0' TERM; echo hello; while :; do sleep 0.02; done");
}

SupervisorOptions Recorded(std::vector<ProcessSpec> processes, Record* lines, Record* events) {
  SupervisorOptions options;
  options.processes = std::move(processes);
  options.on_line = [lines](const std::string& name, const std::string& line) { lines->Add(name + ": " + line); };
  options.on_event = [events](const std::string& sentence) { events->Add(sentence); };
  return options;
}

TEST(Supervisor, StopsProcessesOneAfterAnotherInTheirOrder) {
  Record lines, events;
  auto supervisor = Supervisor::Start(Recorded({Service("a"), Service("b"), Service("c")}, &lines, &events));
  ASSERT_TRUE(supervisor.ok()) << supervisor.status();
  ASSERT_TRUE(Eventually([&] { return lines.entries().size() == 3; }));
  (*supervisor)->MarkReady();
  EXPECT_TRUE((*supervisor)->Stop().ok());
  const auto entries = lines.entries();
  EXPECT_THAT((std::vector<std::string>(entries.begin() + 3, entries.end())),
              ElementsAre("a: bye", "b: bye", "c: bye"));
}

TEST(Supervisor, ReportsTheSentenceOfAProcessThatCannotStart) {
  Record lines, events;
  auto supervisor = Supervisor::Start(
      Recorded({Service("gateway"),
                Shell("executor", "echo loading >&2; echo 'tercet-executor: x.gguf: the file is empty' >&2; exit 1")},
               &lines, &events));
  ASSERT_TRUE(supervisor.ok());
  ASSERT_TRUE(Eventually([&] { return (*supervisor)->failure().has_value(); }));
  EXPECT_EQ(*(*supervisor)->failure(), "x.gguf: the file is empty");
  EXPECT_TRUE((*supervisor)->Stop().ok());
}

TEST(Supervisor, NamesTheSignalOfAProcessThatDiesWithoutAWord) {
  Record lines, events;
  auto supervisor = Supervisor::Start(Recorded({Shell("executor", "kill -ABRT $$")}, &lines, &events));
  ASSERT_TRUE(supervisor.ok());
  ASSERT_TRUE(Eventually([&] { return (*supervisor)->failure().has_value(); }));
  EXPECT_THAT(*(*supervisor)->failure(), HasSubstr("the executor ended with signal 6"));
}

TEST(Supervisor, StartsACrashedProcessAgain) {
  Record lines, events;
  auto supervisor = Supervisor::Start(Recorded({Service("a"), Service("b")}, &lines, &events));
  ASSERT_TRUE(supervisor.ok());
  ASSERT_TRUE(Eventually([&] { return lines.entries().size() == 2; }));
  (*supervisor)->MarkReady();
  const pid_t first = (*supervisor)->processes()[0].pid;
  for (int crash = 1; crash <= 2; ++crash) {
    kill((*supervisor)->processes()[0].pid, SIGKILL);
    ASSERT_TRUE(Eventually([&] {
      const ProcessState state = (*supervisor)->processes()[0];
      return state.restarts == crash && state.pid > 0;
    }));
    // The next kill must not come before the new process has said its line.
    ASSERT_TRUE(Eventually([&] { return lines.entries().size() == static_cast<size_t>(2 + crash); }));
  }
  EXPECT_NE((*supervisor)->processes()[0].pid, first);
  EXPECT_EQ((*supervisor)->processes()[1].restarts, 0);
  EXPECT_THAT(events.entries(), Contains(HasSubstr("the a ended with signal 9 (Killed); starting it again")));
  EXPECT_TRUE((*supervisor)->Stop().ok());
}

TEST(Supervisor, KillsAProcessThatDoesNotStop) {
  Record lines, events;
  SupervisorOptions options =
      Recorded({Shell("deaf", "trap '' TERM; echo hello; while :; do sleep 0.02; done")}, &lines, &events);
  options.stop_grace = milliseconds(100);
  auto supervisor = Supervisor::Start(std::move(options));
  ASSERT_TRUE(supervisor.ok());
  ASSERT_TRUE(Eventually([&] { return !lines.entries().empty(); }));
  (*supervisor)->MarkReady();
  const absl::Status stopped = (*supervisor)->Stop();
  EXPECT_THAT(std::string(stopped.message()), HasSubstr("deaf ended with signal 9"));
}

TEST(Supervisor, LeavesNoProcessBehind) {
  pid_t pid = -1;
  {
    Record lines, events;
    auto supervisor = Supervisor::Start(Recorded({Service("a")}, &lines, &events));
    ASSERT_TRUE(supervisor.ok());
    pid = (*supervisor)->processes()[0].pid;
    ASSERT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(Supervisor, RefusesAProgramThatIsMissing) {
  auto supervisor = Supervisor::Start({.processes = {{"a", {"/nonexistent/tercet-gateway"}}}});
  ASSERT_FALSE(supervisor.ok());
  EXPECT_THAT(std::string(supervisor.status().message()), HasSubstr("/nonexistent/tercet-gateway: No such file"));
}

TEST(Supervisor, KeepsLongAndUnfinishedLines) {
  Record lines, events;
  auto supervisor = Supervisor::Start(
      Recorded({Shell("a", "head -c 200000 /dev/zero | tr '\\0' x; printf '\\nlast'; exit 0")}, &lines, &events));
  ASSERT_TRUE(supervisor.ok());
  ASSERT_TRUE(Eventually([&] { return (*supervisor)->failure().has_value(); }));
  size_t x = 0;
  for (const std::string& line : lines.entries()) x += static_cast<size_t>(std::count(line.begin(), line.end(), 'x'));
  EXPECT_EQ(x, 200000u);
  EXPECT_EQ(lines.entries().back(), "a: last");
}

TEST(SentenceOf, StripsTimeLevelAndProcess) {
  EXPECT_EQ(SentenceOf("2026-01-02T03:04:05.678Z error   tercet-executor[12] x: bad key=1"), "x: bad key=1");
  EXPECT_EQ(SentenceOf("tercet-executor: x: bad"), "x: bad");
  EXPECT_EQ(SentenceOf("terminate called: y"), "terminate called: y");
  EXPECT_EQ(SentenceOf(""), "");
}

}  // namespace
}  // namespace tercet::cli
