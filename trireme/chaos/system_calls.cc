// See system_calls.h. The filter lets all other calls pass without a word to us, so that they cost nothing.
#include "trireme/chaos/system_calls.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/chaos/process_memory.h"

namespace trireme::chaos {
namespace {

constexpr int kNone = -1;  // no such argument

// Where a call has the path or the descriptor of its file, and the flags that say whether it makes one.
struct WatchedCall {
  long number;
  int path, descriptor, open_flags;
  bool removes = false;
};

constexpr WatchedCall kFileCalls[] = {
    {SYS_openat, 1, kNone, 2},
    {SYS_write, kNone, 0, kNone},
    {SYS_pwrite64, kNone, 0, kNone},
    {SYS_writev, kNone, 0, kNone},
    {SYS_fsync, kNone, 0, kNone},
    {SYS_fdatasync, kNone, 0, kNone},
    {SYS_renameat2, 1, kNone, kNone},
    {SYS_renameat, 1, kNone, kNone},
    {SYS_unlinkat, 1, kNone, kNone, true},
    {SYS_mkdirat, 1, kNone, kNone},
#ifdef __x86_64__
    {SYS_open, 0, kNone, 1},
    {SYS_rename, 0, kNone, kNone},
    {SYS_unlink, 0, kNone, kNone, true},
    {SYS_rmdir, 0, kNone, kNone, true},
    {SYS_mkdir, 0, kNone, kNone},
#endif
};
constexpr WatchedCall kMessageCalls[] = {{SYS_sendmsg, kNone, 0, kNone}};

std::span<const WatchedCall> calls_of(SystemCalls::Watched watched) {
  if (watched == SystemCalls::Watched::kMessages) return kMessageCalls;
  return kFileCalls;
}

const WatchedCall* find_call(SystemCalls::Watched watched, long number) {
  const auto calls = calls_of(watched);
  const auto found = std::ranges::find(calls, number, &WatchedCall::number);
  return found == calls.end() ? nullptr : &*found;
}

// Loads the number of the call, compares it with each that is watched, and notifies or allows.
std::vector<sock_filter> filter_of(SystemCalls::Watched watched) {
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offsetof(seccomp_data, nr)))};
  const auto calls = calls_of(watched);
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto to_notify = static_cast<uint8_t>(calls.size() - i);
    filter.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(calls[i].number), to_notify, 0));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  return filter;
}

// One descriptor as the control data of a message of one byte.
struct Parcel {
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  Parcel() {
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
};

bool send_descriptor(int to, int descriptor) {
  Parcel parcel;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  // sendmsg() may be what is watched, and would wait for who does not listen yet.
  mmsghdr messages{parcel.message, 0};
  return sendmmsg(to, &messages, 1, 0) == 1;
}

int receive_descriptor(int from) {
  Parcel parcel;
  if (recvmsg(from, &parcel.message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  if (!header || header->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

std::string link_of(pid_t thread, uint64_t descriptor) {
  std::error_code error;
  return std::filesystem::read_symlink(
             "/proc/" + std::to_string(thread) + "/fd/" + std::to_string(descriptor), error)
      .string();
}

// The iovecs of a message in another process.
std::vector<iovec> pieces_of(pid_t thread, uint64_t address) {
  msghdr message{};
  if (!read_memory(thread, address, &message, sizeof message)) return {};
  std::vector<iovec> pieces(std::min<size_t>(message.msg_iovlen, IOV_MAX));
  const auto first = reinterpret_cast<uint64_t>(message.msg_iov);
  if (!read_memory(thread, first, pieces.data(), pieces.size() * sizeof(iovec))) return {};
  return pieces;
}

// Sends what the process wanted to send, by its own socket, with one bit flipped. Returns what sendmsg()
// does.
int64_t send_flipped(pid_t thread, int descriptor, uint64_t address) {
  std::string bytes;
  for (const iovec& piece : pieces_of(thread, address)) {
    const size_t before = bytes.size();
    bytes.resize(before + piece.iov_len);
    if (!read_memory(thread, reinterpret_cast<uint64_t>(piece.iov_base), bytes.data() + before,
                     piece.iov_len))
      return -EFAULT;
  }
  if (bytes.empty()) return -EAGAIN;
  // Of the exponent of one of the last numbers, before what fills the frame up.
  bytes[bytes.size() - std::min<size_t>(bytes.size(), 9)] ^= 1 << 5;
  const long process = syscall(SYS_pidfd_open, process_of(thread), 0);
  const long socket = process < 0 ? -1 : syscall(SYS_pidfd_getfd, process, descriptor, 0);
  ssize_t sent = -1;
  if (socket >= 0)
    sent = send(static_cast<int>(socket), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  const int error = errno;
  if (socket >= 0) close(static_cast<int>(socket));
  if (process >= 0) close(static_cast<int>(process));
  return sent < 0 ? -error : sent;
}

}  // namespace

SystemCalls::SystemCalls(Watched watched, Judge judge) : watched_(watched), judge_(std::move(judge)) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw_error("no pair of sockets to watch system calls: {}", std::strerror(errno));
  ours_ = ends[0];
  childs_ = ends[1];
  stop_ = eventfd(0, EFD_CLOEXEC);
}

SystemCalls::~SystemCalls() {
  if (thread_.joinable()) {
    eventfd_write(stop_, 1);
    thread_.join();
  }
  for (const int descriptor : {ours_, childs_, listener_, stop_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

bool SystemCalls::enter() const {
  std::vector<sock_filter> filter = filter_of(watched_);
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  const long listener =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  if (listener < 0) return false;
  return send_descriptor(childs_, static_cast<int>(listener));
}

void SystemCalls::begin() {
  close(std::exchange(childs_, -1));
  listener_ = receive_descriptor(ours_);
  if (listener_ < 0)
    throw_error(
        "this system does not let a process watch the system calls of its children (seccomp with "
        "SECCOMP_RET_USER_NOTIF, Linux 5.5 or later), which faults of disks and links need; choose other drills "
        "by --only");
  thread_ = std::thread([this] { serve(); });
}

void SystemCalls::serve() {
  for (;;) {
    std::array<pollfd, 2> polled = {{{listener_, POLLIN, 0}, {stop_, POLLIN, 0}}};
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[1].revents != 0) return;
    if (polled[0].revents & POLLHUP) return;  // none of the processes is left
    if (polled[0].revents & POLLIN) answer_next();
  }
}

void SystemCalls::answer_next() {
  seccomp_notif notice{};
  if (ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &notice) != 0) return;  // the process has ended
  const auto thread = static_cast<pid_t>(notice.pid);
  const WatchedCall& watched = *find_call(watched_, notice.data.nr);
  Call call{.thread = thread, .path = {}, .removes = watched.removes};
  bool changes = true;
  if (watched_ == Watched::kMessages) {
    for (const iovec& piece : pieces_of(thread, notice.data.args[1])) call.bytes += piece.iov_len;
  } else if (watched.path >= 0) {
    call.path = read_text(thread, notice.data.args[watched.path]);
    if (watched.open_flags >= 0) changes = (notice.data.args[watched.open_flags] & O_CREAT) != 0;
  } else {
    call.path = link_of(thread, notice.data.args[watched.descriptor]);
  }
  const Answer answer = changes ? judge_(call) : Answer{};
  seccomp_notif_resp response{};
  response.id = notice.id;
  switch (answer.what) {
    case Answer::What::kGoesAhead:
      response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
      break;
    case Answer::What::kFails:
      response.error = -answer.error;
      break;
    case Answer::What::kVanishes:
      response.val = static_cast<int64_t>(call.bytes);
      break;
    case Answer::What::kIsFlipped: {
      const int64_t sent = send_flipped(thread, static_cast<int>(notice.data.args[0]), notice.data.args[1]);
      if (sent < 0) response.error = static_cast<int32_t>(sent);
      if (sent > 0) response.val = sent;
      break;
    }
  }
  ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &response);  // fails where the process has ended meanwhile
}

}  // namespace trireme::chaos
