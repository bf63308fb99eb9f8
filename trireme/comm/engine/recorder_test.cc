#include "trireme/comm/engine/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/transport/ticks.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint32_t kWorld = 7;

struct SharedMemory {
  explicit SharedMemory(size_t size)
      : bytes(static_cast<std::byte*>(
                  mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
              size) {}
  ~SharedMemory() { munmap(bytes.data(), bytes.size()); }
  std::span<std::byte> bytes;
};

uint64_t all_reduce_of(int64_t count) {
  return Call{
      .collective = Collective::all_reduce, .algorithm = Algorithm::ring, .dtype = DType::f32, .count = count}
      .pack();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

TEST(Recorder, OneRowAnOperationNewestLast) {
  SharedMemory memory(Recorder::bytes_for(2));
  Recorder first(memory.bytes, 0, 2), second(memory.bytes, 1, 2);
  for (Recorder* recorder : {&first, &second}) {
    recorder->name_group(kWorld, "world");
    recorder->finished(recorder->started(make_stream(kWorld, 0), all_reduce_of(1024), 4096, read_ticks()),
                       read_ticks());
  }
  second.failed(second.started(make_stream(kWorld, 1), all_reduce_of(3), 12, read_ticks()), read_ticks());
  first.started(make_stream(kWorld, 1), all_reduce_of(3), 12, read_ticks());

  const Recorder reader(memory.bytes, -1, 2);
  const std::vector<std::string> lines = lines_of(reader.table());
  ASSERT_EQ(lines.size(), 5) << reader.table();
  EXPECT_THAT(lines[1], testing::AllOf(HasSubstr("world"), HasSubstr("all_reduce of 1,024 f32, sum, by ring"),
                                       HasSubstr("4.0 KiB"), HasSubstr("done")));
  EXPECT_THAT(lines[2], testing::AllOf(HasSubstr("of 3 f32"), HasSubstr("12 B"), HasSubstr("running")));
  EXPECT_THAT(lines[4], HasSubstr("failed"));
  EXPECT_THAT(reader.table(), Not(HasSubstr("behind")));
  EXPECT_EQ(lines_of(reader.table(1)).size(), 3);
}

TEST(Recorder, MarksWhoIsBehind) {
  SharedMemory memory(Recorder::bytes_for(3));
  std::vector<Recorder> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.emplace_back(memory.bytes, rank, 3);
  for (Recorder& recorder : ranks) recorder.name_group(kWorld, "world");
  for (uint32_t i = 0; i < 12; ++i)
    ranks[0].finished(ranks[0].started(make_stream(kWorld, i), 0, 0, read_ticks()), read_ticks());
  for (uint32_t i = 0; i < 5; ++i)
    ranks[2].finished(ranks[2].started(make_stream(kWorld, i), 0, 0, read_ticks()), read_ticks());
  const std::string table = ranks[0].table();
  EXPECT_THAT(table, HasSubstr("<- behind: others are at 11"));
  EXPECT_THAT(table, HasSubstr("rank 2 is behind in 'world': at number 4, others are at 11"));
  EXPECT_THAT(table, HasSubstr("rank 1 has started nothing in 'world'; others are at number 11"));
}

// Rank 1 died in the operation that it had just started; rank 2 was slower by chance.
TEST(Recorder, MarksTheDeadNotTheInnocent) {
  SharedMemory memory(Recorder::bytes_for(3));
  std::vector<Recorder> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.emplace_back(memory.bytes, rank, 3);
  for (Recorder& recorder : ranks) recorder.name_group(kWorld, "world");
  for (int rank = 0; rank < 3; ++rank) {
    for (uint32_t i = 0; i < (rank == 2 ? 4u : 5u); ++i)
      ranks[rank].started(make_stream(kWorld, i), 0, 0, read_ticks());
  }
  const std::string table = ranks[0].table(4, {{1, "was killed by signal 9 (Killed)"}});
  const std::vector<std::string> lines = lines_of(table);
  ASSERT_EQ(lines.size(), 1u + 12 + 1) << table;
  for (size_t line = 1; line < lines.size(); ++line)
    EXPECT_EQ(lines[line].find("<-") != std::string::npos, line == 8) << lines[line];
  EXPECT_THAT(lines[8], HasSubstr("   4  "));
  EXPECT_THAT(lines[8], testing::EndsWith("<- was killed by signal 9 (Killed)"));
  EXPECT_EQ(lines[13], "rank 1 was killed by signal 9 (Killed)");
  // Of the dead it is also said that it was behind.
  EXPECT_THAT(ranks[0].table(4, {{2, "ended with exit code 1"}}),
              HasSubstr("rank 2 is behind in 'world': at number 3, others are at 4"));
}

// A rank's place is judged in each group alone: it may have done much in one and be behind in another.
TEST(Recorder, GroupsAreApart) {
  SharedMemory memory(Recorder::bytes_for(2));
  Recorder first(memory.bytes, 0, 2), second(memory.bytes, 1, 2);
  for (uint32_t i = 0; i < 9; ++i) first.started(make_stream(1, i), 0, 0, read_ticks());
  for (Recorder* recorder : {&first, &second}) recorder->started(make_stream(2, 3), 0, 0, read_ticks());
  EXPECT_THAT(first.table(), Not(HasSubstr("behind")));
  first.started(make_stream(2, 4), 0, 0, read_ticks());
  EXPECT_THAT(first.table(), HasSubstr("rank 1 is behind in '0x2': at number 3, others are at 4"));
}

TEST(Recorder, OldEntriesAreOverwrittenAndEndNothingElse) {
  SharedMemory memory(Recorder::bytes_for(1));
  Recorder recorder(memory.bytes, 0, 1);
  const uint32_t old = recorder.started(make_stream(kWorld, 0), all_reduce_of(1), 4, read_ticks());
  for (uint32_t i = 1; i <= Recorder::kEntries; ++i)
    recorder.started(make_stream(kWorld, i), all_reduce_of(2), 8, read_ticks());
  recorder.finished(old, read_ticks());  // its slot has a new owner, which is still running
  const std::string table = recorder.table(Recorder::kEntries);
  EXPECT_THAT(table, Not(HasSubstr("done")));
  EXPECT_THAT(table, Not(HasSubstr("of 1 f32")));
  EXPECT_EQ(lines_of(table).size(), 1 + Recorder::kEntries);
}

TEST(Recorder, LongNamesAreCut) {
  SharedMemory memory(Recorder::bytes_for(1));
  Recorder recorder(memory.bytes, 0, 1);
  recorder.name_group(1, std::string(40, 'x'));
  recorder.started(make_stream(1, 0), 0, 0, read_ticks());
  EXPECT_THAT(recorder.table(), HasSubstr(std::string(31, 'x') + " "));
  EXPECT_THAT(recorder.table(), Not(HasSubstr(std::string(32, 'x'))));
}

TEST(Recorder, SurvivesKill) {
  SharedMemory memory(Recorder::bytes_for(2));
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Recorder recorder(memory.bytes, 1, 2);
    recorder.name_group(kWorld, "world");
    recorder.finished(recorder.started(make_stream(kWorld, 41), all_reduce_of(10), 40, read_ticks()),
                      read_ticks());
    recorder.started(make_stream(kWorld, 42), all_reduce_of(1000), 4000, read_ticks());
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  close(ready[0]);
  close(ready[1]);
  const std::vector<std::string> lines = lines_of(Recorder(memory.bytes, -1, 2).table());
  ASSERT_EQ(lines.size(), 4);
  EXPECT_THAT(lines[1], HasSubstr("nothing was started"));
  EXPECT_THAT(lines[2], HasSubstr("done"));
  EXPECT_THAT(lines[3], testing::AllOf(HasSubstr("42"), HasSubstr("of 1,000 f32"), HasSubstr("running")));
}

// Entries are written in pairs of equal words; a reader must never see half of a new one.
TEST(Recorder, ReadersNeverSeeHalfAnEntry) {
  SharedMemory memory(Recorder::bytes_for(1));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    Recorder recorder(memory.bytes, 0, 1);
    for (uint32_t i = 0; !stop; ++i) {
      recorder.finished(
          recorder.started(make_stream(kWorld, i), all_reduce_of(i % 90 + 10), i % 90 + 10, read_ticks()),
          read_ticks());
      // Slow enough that a reader finds anything but torn entries, fast enough that it finds those too.
      if (i % 512 == 0) std::this_thread::sleep_for(std::chrono::microseconds(1));
    }
  });
  const Recorder reader(memory.bytes, -1, 1);
  int rows = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (rows < 2000 && std::chrono::steady_clock::now() < deadline) {
    const std::vector<std::string> lines = lines_of(reader.table(Recorder::kEntries));
    for (size_t line = 1; line < lines.size(); ++line) {
      const size_t of = lines[line].find("all_reduce of ");
      if (of == std::string::npos) continue;
      const std::string count = lines[line].substr(of + 14, 2);
      EXPECT_THAT(lines[line], HasSubstr(" " + count + " B ")) << lines[line];
      ++rows;
    }
  }
  stop = true;
  writer.join();
  EXPECT_GT(rows, 0);
}

}  // namespace
}  // namespace trireme::comm
