// One rank as a child process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/launch/last_words.h"
#include "trireme/comm/launch/line_tagger.h"

namespace trireme::comm {

struct RankSetup {
  int rank = 0;
  std::string executable;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=value", whole
  std::vector<int> inherited;            // descriptors that stay open in the rank
  pid_t process_group = 0;               // 0: it starts one
  std::vector<int> processors;           // that it is bound to; empty: not bound
};

class RankProcess {
 public:
  // Throws Error when it could not be started.
  explicit RankProcess(const RankSetup& setup);
  ~RankProcess();  // after the process has ended
  RankProcess(RankProcess&&) = delete;

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }

  // The wait status, once it has ended.
  std::optional<int> status() const { return status_; }
  // Looks, without waiting, whether it has ended; true when it has, just now.
  bool reap();

  // Its output: descriptors to poll, -1 when closed. Rank 0 has none for standard output.
  struct Stream {
    int descriptor = -1;
    int to = -1;  // where it is passed on to
    LineTagger tagger;
  };
  std::vector<Stream>& streams() { return streams_; }
  // Passes on what is there, without waiting, and no more than a pipe holds: other ranks have their turn.
  static void pass_on(Stream& stream);
  // The rest, and an end to it, once the rank has ended: a process that it left behind may hold the pipe.
  static void finish(Stream& stream);
  // Why it ended, where it told; to be asked once, when it has.
  LastWords last_words() const { return read_last_words(words_); }

 private:
  int rank_;
  pid_t pid_ = -1;
  std::optional<int> status_;
  std::vector<Stream> streams_;
  int words_ = -1;
};

// What is to be written before a line, so that it does not end up behind the progress that rank 0 draws on
// the same terminal; "" where `descriptor` is no terminal. Rank 0 draws anew with its next step.
std::string_view line_start(int descriptor);

}  // namespace trireme::comm
