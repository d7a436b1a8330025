#include "common/telemetry/metrics.h"

#include <absl/strings/str_cat.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>

namespace tercet::telemetry {

Metrics::Metrics() : registry_(std::make_shared<prometheus::Registry>()) {}
Metrics::~Metrics() = default;

prometheus::Counter& Metrics::Counter(const std::string& name, const std::string& help,
                                      const prometheus::Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_).Add(labels);
}

prometheus::Gauge& Metrics::Gauge(const std::string& name, const std::string& help, const prometheus::Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_).Add(labels);
}

prometheus::Histogram& Metrics::Histogram(const std::string& name, const std::string& help,
                                          const std::vector<double>& buckets, const prometheus::Labels& labels) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry_).Add(
      labels, prometheus::Histogram::BucketBoundaries(buckets.begin(), buckets.end()));
}

absl::StatusOr<std::string> Metrics::Serve(const std::string& address) {
  if (address.empty()) return std::string();
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(address, /*num_threads=*/1);
    exposer_->RegisterCollectable(registry_);
  } catch (const std::exception&) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", address, ": the address is not valid or is in use (--metrics-listen)"));
  }
  size_t colon = address.rfind(':');
  std::vector<int> ports = exposer_->GetListeningPorts();
  if (ports.empty() || colon == std::string::npos) return address;
  return absl::StrCat(address.substr(0, colon), ":", ports[0]);
}

std::string Metrics::Text() const { return prometheus::TextSerializer().Serialize(registry_->Collect()); }

const std::vector<double>& LatencyBuckets() {
  static const auto* buckets = new std::vector<double>{.001, .005, .01, .02, .04, .06, .08, .1,  .25, .5,
                                                       .75,  1,    2.5, 5,   7.5, 10,  30,  60, 120};
  return *buckets;
}

const std::vector<double>& StepBuckets() {
  static const auto* buckets = new std::vector<double>{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02,
                                                       .05,    .1,    .2,    .5,    1,    2,    5,    10};
  return *buckets;
}

}  // namespace tercet::telemetry
