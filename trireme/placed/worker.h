// One worker of a placed workflow: takes messages as they come, makes outputs one after another, and sends
// them to the workers that wait for them.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "trireme/placed/job.h"
#include "trireme/placed/mail.h"

namespace trireme::placed {

struct Made {
  Bytes output;      // as it is sent on, without the request's number
  std::string text;  // the same for people
};
// From the messages of an op's inputs, without their numbers.
using Maker = std::function<Made(int op, std::span<const Bytes> inputs)>;

// What a worker tells at its end.
struct WorkerCount {
  int64_t items = 0, late = 0;  // that were made; of them, that took longer than the workflow says
  double computed = 0;          // seconds, of all items
};

// Streams of a placed job; those of messages follow.
enum Stream : uint32_t { kOrders, kNotes, kCounts, kFirstInput };
uint32_t stream_of(const Job& job, int op, int input);
// To rank 0, of an item that was made, or with request kReady of a worker that can begin. A text follows.
struct Note {
  int64_t request = 0, op = 0;
};
inline constexpr int64_t kReady = -1;

// As rank `rank` from 1, until rank 0 ends it. An item takes as long as the workflow says of this class of
// workers, or longer where this machine is slower.
void work(const Job& job, int rank, comm::Transport& transport, Mail& mail, const Maker& make);

}  // namespace trireme::placed
