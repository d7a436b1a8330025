// Angles of the rotary embedding, the same bits on every machine.
//
// sin and cos of a libm differ between machines in the last bit; these are computed from a fixed sequence of double
// operations and rounded to float. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace tercet::executor {

// Sine and cosine of `x` radians, |x| ≤ 2^20, to within 1e-15.
void SinCos(double x, double* sine, double* cosine);

// Radians a position of each rotated pair: base^(-2i / rotary_dim) / (scale · factors[i]); `factors` may be empty.
std::vector<double> RotaryFrequencies(int32_t rotary_dim, double base, double scale, const std::vector<float>& factors);

// cos and sin of each pair at `position`: [frequencies.size()] each.
void RotaryAngles(const std::vector<double>& frequencies, int32_t position, float* cos, float* sin);

}  // namespace tercet::executor
