// One piece of work at a time for each slot: nothing is queued, so that nothing is allocated in a step.
#include "trireme/runtime/file_states.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

std::string no_room(const std::string& path, size_t bytes, int error) {
  std::error_code ignored;
  const std::filesystem::space_info space =
      std::filesystem::space(std::filesystem::path(path).parent_path(), ignored);
  return fmt::format("{}: no room for {} of states that the plan offloads: {} ({} are free there)", path,
                     format_bytes(bytes), std::strerror(error), format_bytes(ignored ? 0 : space.available));
}

}  // namespace

FileStates::FileStates(const std::string& folder, std::vector<Group> groups, int slots, Device& device)
    : groups_(std::move(groups)) {
  const bool own_memory = device.memory() == Device::Memory::kOwn;
  size_t end = 0;
  for (const Group& group : groups_) end = std::max(end, group.file_offset + group.bytes);
  if (!folder.empty())
    open_file(folder, end);
  else if (own_memory)
    home_.resize(end);
  else
    throw_error(
        "the plan offloads states to memory of the host, but that is where the device '{}' computes; let "
        "them rest in files (\"file\", with a folder), or take offload out of the plan",
        device.name());
  for (int s = 0; s < slots; ++s) {
    Slot& slot = *slots_.emplace_back(std::make_unique<Slot>());
    if (own_memory) {
      slot.stream = device.make_stream();
      size_t largest = 0;
      for (const Group& group : groups_) largest = std::max(largest, group.slot == s ? group.bytes : 0);
      if (file_ >= 0) slot.host.resize(largest);
    }
    slot.thread = std::thread([this, &slot] { serve(slot); });
  }
}

void FileStates::open_file(const std::string& folder, size_t bytes) {
  path_ = folder + "/trireme-states-XXXXXX";
  file_ = ::mkostemp(path_.data(), O_CLOEXEC);
  if (file_ < 0)
    throw_error("can not make a file for offloaded states in {}: {}; the plan's offload names the folder",
                folder, std::strerror(errno));
  ::unlink(path_.c_str());
  if (const int error = ::posix_fallocate(file_, 0, static_cast<off_t>(bytes)); error != 0) {
    ::close(file_);
    throw Error(no_room(path_, bytes, error));
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
  if (file_ >= 0) ::close(file_);
}

void FileStates::serve(Slot& slot) {
  std::unique_lock lock(slot.mutex);
  while (true) {
    slot.changed.wait(lock, [&] { return slot.work != Work::kNone; });
    if (slot.work == Work::kEnd) return;
    const Group& group = groups_[slot.group];
    const Work work = slot.work;
    const std::unique_ptr<Event> after = std::move(slot.after);
    lock.unlock();
    Clock::time_point begin = Clock::now();
    std::exception_ptr failure;
    try {
      if (after) after->wait();
      begin = Clock::now();
      work == Work::kRead ? bring(slot, group) : take_away(slot, group);
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

void FileStates::bring(Slot& slot, const Group& group) const {
  if (!slot.stream) return read_home(group.memory, group.bytes, group.file_offset);
  const std::byte* from = home_.data() + group.file_offset;
  if (file_ >= 0) {
    read_home(slot.host.data(), group.bytes, group.file_offset);
    from = slot.host.data();
  }
  slot.stream->upload(group.memory, from, group.bytes);
  slot.stream->synchronize();
}

void FileStates::take_away(Slot& slot, const Group& group) {
  if (!slot.stream) return write_home(group.memory, group.bytes, group.file_offset);
  std::byte* const to = file_ >= 0 ? slot.host.data() : home_.data() + group.file_offset;
  slot.stream->download(to, group.memory, group.bytes);
  if (file_ >= 0) write_home(to, group.bytes, group.file_offset);
}

void FileStates::start(int group, Work work, std::unique_ptr<Event> after) {
  Slot& slot = slot_of(group);
  {
    const auto lock = idle(slot);
    slot.group = group;
    slot.work = work;
    slot.after = std::move(after);
  }
  slot.changed.notify_all();
}

void FileStates::start_read(int group, std::unique_ptr<Event> after) {
  start(group, Work::kRead, std::move(after));
}

void FileStates::start_write(int group, std::unique_ptr<Event> after) {
  start(group, Work::kWrite, std::move(after));
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
  const std::byte* const here = groups_[group].memory + offset;
  if (slot.group != group)
    read_home(data, bytes, groups_[group].file_offset + offset);
  else if (slot.stream)
    slot.stream->download(data, here, bytes);
  else
    std::memcpy(data, here, bytes);
}

void FileStates::write(int group, size_t offset, const void* data, size_t bytes) {
  Slot& slot = slot_of(group);
  const auto lock = idle(slot);
  write_home(data, bytes, groups_[group].file_offset + offset);
  if (slot.group != group) return;
  std::byte* const here = groups_[group].memory + offset;
  if (!slot.stream) {
    std::memcpy(here, data, bytes);
    return;
  }
  slot.stream->upload(here, data, bytes);
  slot.stream->synchronize();
}

void FileStates::read_home(void* data, size_t bytes, size_t offset) const {
  if (file_ < 0) {
    std::memcpy(data, home_.data() + offset, bytes);
    return;
  }
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

void FileStates::write_home(const void* data, size_t bytes, size_t offset) {
  if (file_ < 0) {
    std::memcpy(home_.data() + offset, data, bytes);
    return;
  }
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
