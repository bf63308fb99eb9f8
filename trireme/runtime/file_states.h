// States that rest in a file and come into memory for the segments that need them, a group at a time. Groups
// take a few places in memory (staging slots) in turn; each slot has a thread of its own, so that one group
// is computed with while others are read ahead or written behind.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace trireme {

class FileStates {
 public:
  struct Group {
    int slot = 0;
    std::byte* memory = nullptr;  // the slot's
    size_t bytes = 0;
    size_t file_offset = 0;
  };
  // Makes a file in `folder` with room for all groups, which nobody else sees and which is gone with this
  // process, however it ends: checkpoints have what lasts. Throws Error when there is no room for it.
  FileStates(const std::string& folder, std::vector<Group> groups, int slots);
  ~FileStates();
  FileStates(const FileStates&) = delete;

  // Start, behind what is under way in the group's slot. What goes wrong is thrown by the next call that
  // waits for the slot.
  void start_read(int group);
  void start_write(int group);
  // Until the group is in memory; reads it if nobody has asked for it.
  void expect(int group);
  // Until its slot is free, for what will be made there.
  void take(int group);

  // Seconds since the last call: of reading and writing, all slots together, and of whoever had to wait for
  // it.
  struct Times {
    double moving = 0, waited = 0;
  };
  Times take_times();

  // Some bytes of a group: from its place in memory where it is there, as it may not be stored yet, or from
  // the file; and to both.
  void read(int group, size_t offset, void* data, size_t bytes);
  void write(int group, size_t offset, const void* data, size_t bytes);

 private:
  enum class Work { kNone, kRead, kWrite, kEnd };
  struct Slot {
    std::mutex mutex;
    std::condition_variable changed;
    Work work = Work::kNone;
    int group = -1;  // that is in the slot, or comes into it
    std::exception_ptr failure;
    double seconds = 0;  // of work
    std::thread thread;
  };

  void serve(Slot& slot);
  void start(int group, Work work);
  // Waits until nothing is under way there.
  std::unique_lock<std::mutex> idle(Slot& slot);
  Slot& slot_of(int group) { return *slots_[groups_[group].slot]; }
  void read_file(void* data, size_t bytes, size_t offset) const;
  void write_file(const void* data, size_t bytes, size_t offset) const;

  std::string path_;
  int file_ = -1;
  std::vector<Group> groups_;
  std::vector<std::unique_ptr<Slot>> slots_;
  double waited_ = 0;
};

}  // namespace trireme
