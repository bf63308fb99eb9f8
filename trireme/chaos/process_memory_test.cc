#include "trireme/chaos/process_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/chaos/job.h"

namespace trireme::chaos {
namespace {

TEST(ProcessMemory, IsReadUpToWhatIsMapped) {
  const std::string text = "an oar";
  std::string copy(text.size(), ' ');
  ASSERT_TRUE(read_memory(getpid(), reinterpret_cast<uint64_t>(text.data()), copy.data(), copy.size()));
  EXPECT_EQ(copy, text);
  EXPECT_EQ(read_text(getpid(), reinterpret_cast<uint64_t>(text.c_str())), text);
  EXPECT_FALSE(read_memory(getpid(), 8, copy.data(), copy.size()));
}

TEST(ProcessMemory, AThreadIsOfItsProcess) {
  pid_t of_thread = 0;
  std::thread([&] { of_thread = process_of(gettid()); }).join();
  EXPECT_EQ(of_thread, getpid());
}

TEST(ProcessMemory, WhatIsNotThereIsNotFlipped) {
  EXPECT_EQ(flip_bit_of(getpid(), std::as_bytes(std::span("a text that stands in memory which is only read")))
                .size(),
            0u);
}

// A child with the numbers 1, 2, … in its memory says what the one in the middle is, before and after.
TEST(ProcessMemory, OneBitOfANumberFlips) {
  Job job(1);
  const Child& child =
      job.start({"python3", "-c",
                 "import array, signal\n"
                 "numbers = array.array('f', range(1, 65))\n"
                 "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
                 "print('ready', flush=True)\n"
                 "signal.pause()\n"
                 "print([n for n, was in zip(numbers, range(1, 65)) if n != was], numbers[32])\n"});
  job.wait_until("word of the child", 30, [&] { return job.find_line({}, "ready") != nullptr; });
  std::vector<float> pattern(64);
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<float>(i + 1);
  std::vector<uint64_t> flipped;
  try {
    flipped = flip_bit_of(child.pid(), std::as_bytes(std::span(pattern)));
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  ASSERT_GE(flipped.size(), 1u);
  EXPECT_TRUE(is_bit_set(child.pid(), flipped[0]) != is_bit_set(child.pid(), flipped[0] - 4));
  kill(child.pid(), SIGUSR1);
  ASSERT_EQ(job.wait_for_end(30), 0);
  uint32_t bits = 0;
  const float was = 33;
  std::memcpy(&bits, &was, sizeof bits);
  bits ^= 1u << 30;
  float is = 0;
  std::memcpy(&is, &bits, sizeof is);
  const std::string said = job.last_lines(1);
  EXPECT_NEAR(std::stod(said.substr(said.find('[') + 1)) / is, 1, 1e-6) << said;
}

// A child that adds to some numbers all the time, and lets others be.
TEST(ProcessMemory, NumbersThatChangeAreFound) {
  Job job(1);
  const Child& child = job.start({"python3", "-c",
                                  "import array\n"
                                  "numbers = array.array('f', [1.5] * 100)\n"
                                  "others = array.array('f', [1.5] * 100)\n"
                                  "print('ready', flush=True)\n"
                                  "while max(numbers) < 100:\n"
                                  "  for i in range(100): numbers[i] += 0.001\n"});
  job.wait_until("word of the child", 30, [&] { return job.find_line({}, "ready") != nullptr; });
  std::vector<uint64_t> found;
  try {
    found = changing_floats(child.pid(), [&] { job.watch_for(0.05); });
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_GE(found.size(), 90u);
  EXPECT_LE(found.size(), 110u);
  EXPECT_TRUE(flip_bit_at(child.pid(), found[0], 30));  // which makes it so large that the child ends
  EXPECT_EQ(job.wait_for_end(30), 0);
}

}  // namespace
}  // namespace trireme::chaos
