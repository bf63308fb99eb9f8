// System calls of a process and of all that it starts, seen before they happen, and what becomes of them:
// they go ahead, fail like those of a full disk, or what they send is lost. By Linux's seccomp notifications,
// which need no rights and nothing in the process itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace trireme::chaos {

class SystemCalls {
 public:
  enum class Watched : uint8_t {
    kFileChanges,  // what creates, writes, flushes, renames or removes a file, or makes a folder
    kMessages,     // sendmsg(), by which ranks send to each other over tcp
  };
  struct Call {
    pid_t thread = 0;      // that makes it
    std::string path;      // of the file; "" for messages, and for what is no file
    size_t bytes = 0;      // of a message
    bool removes = false;  // a name, which a full disk permits
  };
  struct Answer {
    enum class What : uint8_t {
      kGoesAhead,
      kFails,      // with `error`
      kVanishes,   // a message: the sender believes that it was sent
      kIsFlipped,  // a message: it is sent with its last bit but 64 flipped
    };
    What what = What::kGoesAhead;
    int error = 0;
  };
  // Called on a thread of this object, for one call after another.
  using Judge = std::function<Answer(const Call&)>;

  SystemCalls(Watched watched, Judge judge);  // throws Error
  ~SystemCalls();
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  // In the child, between fork() and exec(). Calls nothing but the system; false where it refuses.
  bool enter() const;
  // In the parent, after the fork. Throws Error where the child could not enter.
  void begin();

 private:
  void serve();
  void answer_next();

  Watched watched_;
  Judge judge_;
  int ours_ = -1, childs_ = -1;  // a pair of sockets, over which the listener comes
  int listener_ = -1;
  int stop_ = -1;
  std::thread thread_;
};

}  // namespace trireme::chaos
