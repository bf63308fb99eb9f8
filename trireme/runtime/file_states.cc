// One piece of work at a time for each slot: nothing is queued, so that nothing is allocated in a step.
#include "trireme/runtime/file_states.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string no_room(const std::string& path, size_t bytes, int error) {
  std::error_code ignored;
  const std::filesystem::space_info space =
      std::filesystem::space(std::filesystem::path(path).parent_path(), ignored);
  return fmt::format("{}: no room for {} of states that the plan offloads: {} ({} are free there)", path,
                     format_bytes(bytes), std::strerror(error), format_bytes(ignored ? 0 : space.available));
}

}  // namespace

FileStates::FileStates(const std::string& folder, std::vector<Group> groups, int slots)
    : path_(folder + "/trireme-states-XXXXXX"), groups_(std::move(groups)) {
  file_ = ::mkostemp(path_.data(), O_CLOEXEC);
  if (file_ < 0)
    throw_error("can not make a file for offloaded states in {}: {}; the plan's offload names the folder",
                folder, std::strerror(errno));
  ::unlink(path_.c_str());
  size_t end = 0;
  for (const Group& group : groups_) end = std::max(end, group.file_offset + group.bytes);
  if (const int error = ::posix_fallocate(file_, 0, static_cast<off_t>(end)); error != 0) {
    ::close(file_);
    throw Error(no_room(path_, end, error));
  }
  for (int s = 0; s < slots; ++s) {
    Slot& slot = *slots_.emplace_back(std::make_unique<Slot>());
    slot.thread = std::thread([this, &slot] { serve(slot); });
  }
}

FileStates::~FileStates() {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    {
      std::unique_lock lock(slot->mutex);
      slot->changed.wait(lock, [&] { return slot->work == Work::kNone; });
      slot->work = Work::kEnd;
    }
    slot->changed.notify_all();
    slot->thread.join();
  }
  ::close(file_);
}

void FileStates::serve(Slot& slot) {
  std::unique_lock lock(slot.mutex);
  while (true) {
    slot.changed.wait(lock, [&] { return slot.work != Work::kNone; });
    if (slot.work == Work::kEnd) return;
    const Group& group = groups_[slot.group];
    const Work work = slot.work;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    std::exception_ptr failure;
    try {
      work == Work::kRead ? read_file(group.memory, group.bytes, group.file_offset)
                          : write_file(group.memory, group.bytes, group.file_offset);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    slot.work = Work::kNone;
    slot.seconds += seconds_since(begin);
    slot.failure = failure;
    if (failure) slot.group = -1;
    slot.changed.notify_all();
  }
}

std::unique_lock<std::mutex> FileStates::idle(Slot& slot) {
  const Clock::time_point begin = Clock::now();
  std::unique_lock lock(slot.mutex);
  slot.changed.wait(lock, [&] { return slot.work == Work::kNone; });
  waited_ += seconds_since(begin);
  if (slot.failure) std::rethrow_exception(std::exchange(slot.failure, nullptr));
  return lock;
}

void FileStates::start(int group, Work work) {
  Slot& slot = slot_of(group);
  {
    const auto lock = idle(slot);
    slot.group = group;
    slot.work = work;
  }
  slot.changed.notify_all();
}

void FileStates::start_read(int group) {
  start(group, Work::kRead);
}

void FileStates::start_write(int group) {
  start(group, Work::kWrite);
}

void FileStates::expect(int group) {
  Slot& slot = slot_of(group);
  if (idle(slot); slot.group == group) return;
  start_read(group);
  idle(slot);
}

void FileStates::take(int group) {
  Slot& slot = slot_of(group);
  const auto lock = idle(slot);
  slot.group = group;
}

FileStates::Times FileStates::take_times() {
  Times times{0, std::exchange(waited_, 0)};
  for (const std::unique_ptr<Slot>& slot : slots_) {
    const std::lock_guard lock(slot->mutex);
    times.moving += std::exchange(slot->seconds, 0);
  }
  return times;
}

void FileStates::read(int group, size_t offset, void* data, size_t bytes) {
  Slot& slot = slot_of(group);
  const auto lock = idle(slot);
  if (slot.group == group)
    std::memcpy(data, groups_[group].memory + offset, bytes);
  else
    read_file(data, bytes, groups_[group].file_offset + offset);
}

void FileStates::write(int group, size_t offset, const void* data, size_t bytes) {
  Slot& slot = slot_of(group);
  const auto lock = idle(slot);
  write_file(data, bytes, groups_[group].file_offset + offset);
  if (slot.group == group) std::memcpy(groups_[group].memory + offset, data, bytes);
}

void FileStates::read_file(void* data, size_t bytes, size_t offset) const {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got =
        ::pread(file_, static_cast<std::byte*>(data) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw_error("{}: reading {} of offloaded states at {} failed: {}", path_, format_bytes(bytes), offset,
                  got == 0 ? "the file ends there" : std::strerror(errno));
    done += static_cast<size_t>(got);
  }
}

void FileStates::write_file(const void* data, size_t bytes, size_t offset) const {
  for (size_t done = 0; done < bytes;) {
    const ssize_t put = ::pwrite(file_, static_cast<const std::byte*>(data) + done, bytes - done,
                                 static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0)
      throw_error("{}: writing {} of offloaded states at {} failed: {}; the last checkpoint has them", path_,
                  format_bytes(bytes), offset, std::strerror(errno));
    done += static_cast<size_t>(put);
  }
}

}  // namespace trireme
