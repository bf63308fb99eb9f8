// Numbers that would have fitted, for "try 64 or 128".
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// The divisors of `value` that lie nearest to `wanted`.
std::string divisors_near(int64_t value, int64_t wanted);
std::string multiples_near(int64_t factor, int64_t wanted);

}  // namespace trireme
