#include "kernels/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/dispatch.h"

namespace tercet::kernels {

namespace {

bool Better(const Candidate& a, const Candidate& b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); }

}  // namespace

int64_t TopK(const float* logits, int64_t n, int64_t k, Candidate* out) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float threshold = -kInfinity;
  int64_t count = 0;
  for (int64_t next = 0; next < n;) {
    count += CollectAtLeast(logits, next, n, threshold, out + count, TopKRoom(k) - count, &next);
    if (count <= k) continue;
    // Keep the k best. From here on a logit must beat the last of them: an equal one has a higher id.
    std::nth_element(out, out + (k - 1), out + count, Better);
    count = k;
    threshold = std::nextafter(out[k - 1].logit, kInfinity);
  }
  std::sort(out, out + count, Better);
  return count;
}

}  // namespace tercet::kernels
