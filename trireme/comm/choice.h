// What runs a call when nobody who has measured decides.
#pragma once

#include "trireme/comm/group.h"

namespace trireme::comm {

constexpr size_t kDefaultSegmentBytes = 256 * 1024;  // a few of them stay in a core's cache

// The transport's own way where it has one, few rounds for small vectors, few bytes for large ones.
Choice fixed_choice(const Call& call, bool native_offered);

}  // namespace trireme::comm
