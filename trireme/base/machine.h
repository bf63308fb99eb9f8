// Facts about the machine and this process, as the operating system tells them. Nothing here is measured;
// what must be measured is in bench/ceilings.h.
#pragma once

#include <cstddef>
#include <string>

namespace trireme {

std::string host_name();  // "" where the system does not say
std::string cpu_model();  // "unknown" where the system does not say
int core_count();         // that this process may use
int host_core_count();    // of the host, also where this process is bound to some of them

size_t total_memory_bytes();
size_t available_memory_bytes();
size_t last_level_cache_bytes();  // 0 where the system does not say
size_t peak_resident_bytes();     // of this process until now (VmHWM)
std::string huge_page_setting();  // "always", "madvise", "never"; "" without transparent huge pages

// 0 means automatic: one per core.
int thread_count(long requested);

}  // namespace trireme
