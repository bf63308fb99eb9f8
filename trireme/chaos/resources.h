// What processes hold of the system, to see whether it grows.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace trireme::chaos {

struct Resources {
  int descriptors = 0;
  size_t resident_bytes = 0;
};
Resources resources_of(pid_t process);

// Of a job that `trireme train -n` started, at one moment.
struct JobResources {
  Resources launcher;
  Resources rank;        // the most of any
  int shared_files = 0;  // in /dev/shm, of this launcher
  size_t shared_bytes = 0;
};
JobResources resources_of_job(pid_t launcher, std::span<const pid_t> ranks);

// "" where nothing grows: at its least, no resource is above what it was at its most in the first samples,
// but for what a heap and files that come and go may differ by. Of few samples nothing is said.
std::string growth_in(std::span<const JobResources> samples);
// "launcher: 12 open files, at the end 12; …"
std::string text_of(std::span<const JobResources> samples);

}  // namespace trireme::chaos
