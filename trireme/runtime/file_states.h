// States that rest elsewhere than in the device's memory, in a file or in memory of the host, and come there
// for the segments that need them, a group at a time. Groups take a few places in memory (staging slots) in
// turn; each slot has a thread of its own, so that one group is computed with while others are read ahead or
// written behind.
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

#include "trireme/runtime/device.h"

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
  // process, however it ends: checkpoints have what lasts. "": memory of the host instead of a file, for a
  // device that has memory of its own. Throws Error when there is no room for it. The device must outlive it.
  FileStates(const std::string& folder, std::vector<Group> groups, int slots, Device& device);
  ~FileStates();
  FileStates(const FileStates&) = delete;

  // Start, behind what is under way in the group's slot, and behind a point of the device's work that has to
  // be through before, where there is one. What goes wrong is thrown by the next call that waits for the
  // slot.
  void start_read(int group, std::unique_ptr<Event> after = nullptr);
  void start_write(int group, std::unique_ptr<Event> after = nullptr);
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
  // where it rests; and to both. The device does nothing with the group meanwhile.
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
    double seconds = 0;            // of work
    std::unique_ptr<Event> after;  // before the work begins
    std::thread thread;
    // Where the device has memory of its own: what copies, and where on the host a file's bytes pass through.
    std::unique_ptr<Stream> stream;
    std::vector<std::byte> host;
  };

  void serve(Slot& slot);
  void start(int group, Work work, std::unique_ptr<Event> after);
  // Waits until nothing is under way there.
  std::unique_lock<std::mutex> idle(Slot& slot);
  Slot& slot_of(int group) { return *slots_[groups_[group].slot]; }
  void bring(Slot& slot, const Group& group) const;
  void take_away(Slot& slot, const Group& group);
  // From and to where states rest.
  void read_home(void* data, size_t bytes, size_t offset) const;
  void write_home(const void* data, size_t bytes, size_t offset);
  void open_file(const std::string& folder, size_t bytes);

  std::string path_;
  int file_ = -1;
  std::vector<std::byte> home_;  // where there is no file
  std::vector<Group> groups_;
  std::vector<std::unique_ptr<Slot>> slots_;
  double waited_ = 0;
};

}  // namespace trireme
