#include "trireme/base/crc32c.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

// The examples of RFC 3720, B.4.
TEST(Crc32c, HasTheValuesOfTheStandard) {
  std::vector<std::byte> rising(32), falling(32);
  for (int i = 0; i < 32; ++i) rising[i] = falling[31 - i] = static_cast<std::byte>(i);
  for (const auto function : {crc32c, crc32c_by_table}) {
    EXPECT_EQ(function(std::vector<std::byte>(32, std::byte{0}), 0), 0x8a9136aau);
    EXPECT_EQ(function(std::vector<std::byte>(32, std::byte{0xff}), 0), 0x62a8ab43u);
    EXPECT_EQ(function(rising, 0), 0x46dd794eu);
    EXPECT_EQ(function(falling, 0), 0x113fdb5cu);
  }
}

TEST(Crc32c, IsTheSameByInstructionByTableAndInParts) {
  std::vector<std::byte> bytes(10'007);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i * 2654435761u >> 13);
  const std::span<const std::byte> all(bytes);
  for (size_t begin : {0, 1, 7}) {
    for (size_t size : {0, 1, 7, 8, 9, 3071, 3072, 3073, 6144, 9999}) {
      const auto part = all.subspan(begin, size);
      EXPECT_EQ(crc32c(part), crc32c_by_table(part)) << begin << " " << size;
      const auto [first, rest] = std::pair(part.first(size / 3), part.subspan(size / 3));
      EXPECT_EQ(crc32c(part), crc32c(rest, crc32c(first))) << begin << " " << size;
    }
  }
}

}  // namespace
}  // namespace trireme
