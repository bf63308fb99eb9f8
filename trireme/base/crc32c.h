// CRC-32C, the checksum of iSCSI and ext4: finds every error of up to 32 bits in a row, and others but for
// one in 2^32. By the processor's instruction where there is one, by a table elsewhere; the values are the
// same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

// `before`: the value of the bytes that come before these; 0 where there are none.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// Without the instruction, for processors that have none and for tests.
uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace trireme
