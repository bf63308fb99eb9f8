// What a process holds of the system, to see whether it grows.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace trireme::chaos {

struct Resources {
  int descriptors = 0;
  size_t resident_bytes = 0;
};
Resources resources_of(pid_t process);

}  // namespace trireme::chaos
