// The memory of another process of this user that this one started.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trireme::chaos {

// The process that a thread is of; the thread itself where that is not known.
pid_t process_of(pid_t thread);

// False where not all of it can be read. `process` may be one of its threads.
bool read_memory(pid_t process, uint64_t address, void* to, size_t bytes);
// What stands there up to a zero, at most 4096 bytes; "" where it can not be read.
std::string read_text(pid_t process, uint64_t address);

// Flips the highest bit of the exponent of the float in the middle of `pattern`, wherever these bytes stand
// in the private memory that the process may write. Returns the addresses of the bytes that have changed.
// Throws Error where the memory can not be reached.
std::vector<uint64_t> flip_bit_of(pid_t process, std::span<const std::byte> pattern);
// Floats in its private memory that the process computes with: those that change, and all around them too,
// while `meanwhile` runs. Throws Error where the memory can not be reached.
std::vector<uint64_t> changing_floats(pid_t process, const std::function<void()>& meanwhile);
// Bit 0 to 31 of the float that begins there. False where it can not be reached.
bool flip_bit_at(pid_t process, uint64_t address, int bit);
// Whether that bit of a float, whose address is that of its last byte, is set.
bool is_bit_set(pid_t process, uint64_t address);

}  // namespace trireme::chaos
