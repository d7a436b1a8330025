// Prometheus metrics of one process. Names are `tercet_<process>_<what>_<unit>`, without colons.
//
// The objects returned live as long as the Metrics that made them. Thread-safe.
#pragma once

#include <absl/status/statusor.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <vector>

namespace prometheus {
class Exposer;
}

namespace tercet::telemetry {

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Asking twice for the same name and labels gives the same object. Label values must come from a small fixed set.
  prometheus::Counter& Counter(const std::string& name, const std::string& help, const prometheus::Labels& labels = {});
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help, const prometheus::Labels& labels = {});
  // `buckets`: upper bounds, increasing.
  prometheus::Histogram& Histogram(const std::string& name, const std::string& help, const std::vector<double>& buckets,
                                   const prometheus::Labels& labels = {});

  // Serves /metrics over HTTP on `address` ("host:port"; port 0 takes a free one; "" serves nothing). Returns the address
  // in use. UNAVAILABLE when it cannot listen there.
  absl::StatusOr<std::string> Serve(const std::string& address);

  // The text of /metrics.
  std::string Text() const;

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

// Bounds in seconds for latencies of requests: 1 ms … 120 s.
const std::vector<double>& LatencyBuckets();
// Bounds in seconds for one step or one call: 50 µs … 10 s.
const std::vector<double>& StepBuckets();

}  // namespace tercet::telemetry
