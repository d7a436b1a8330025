// The event loop behind the HTTP server and the strands on it. Includes Asio; only the server's own files include this.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "services/gateway/http/strand.h"

namespace tercet::gateway {

namespace asio = boost::asio;

// An io_context that can drop everything queued on it before it dies. Strands keep it alive, and queued work keeps strands
// alive; Close breaks that circle. Thread-safe but for Close, which is called once, after the loop's threads have ended.
class Reactor : public asio::io_context {
 public:
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  void Close() {
    closed_.store(true, std::memory_order_release);
    shutdown();
  }

 private:
  std::atomic<bool> closed_{false};
};

class ReactorStrand final : public Strand, public std::enable_shared_from_this<ReactorStrand> {
 public:
  using Executor = asio::strand<asio::io_context::executor_type>;

  explicit ReactorStrand(std::shared_ptr<Reactor> reactor)
      : reactor_(std::move(reactor)), executor_(asio::make_strand(reactor_->get_executor())) {}

  const Executor& executor() const { return executor_; }

  void Post(absl::AnyInvocable<void()> work) override {
    if (reactor_->closed()) return;
    asio::post(executor_, [work = std::move(work)]() mutable { work(); });
  }

  void PostAfter(absl::Duration delay, absl::AnyInvocable<void()> work) override {
    if (reactor_->closed()) return;
    auto timer = std::make_shared<asio::steady_timer>(executor_, absl::ToChronoNanoseconds(delay));
    timer->async_wait([timer, work = std::move(work)](const boost::system::error_code& error) mutable {
      if (!error) work();
    });
  }

 private:
  std::shared_ptr<Reactor> reactor_;
  Executor executor_;
};

}  // namespace tercet::gateway
