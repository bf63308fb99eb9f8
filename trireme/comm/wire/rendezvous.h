// Rendezvous: how ranks that know nothing of each other but a meeting place learn each other's addresses.
// Every transport is set up by exchanges of a few bytes; afterwards the meeting place is not needed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::comm {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Collective over all ranks: everyone gives a few bytes (at most kMaxBytes), everyone gets everyone's, by
  // rank. `what` names the exchange ("shm segments"); ranks that are in different ones get an Error that says
  // so. Throws Error when someone does not come within the timeout, naming who did and who did not.
  virtual std::vector<std::string> exchange(std::string_view what, std::string mine) = 0;
  // Between exchanges, without waiting: throws Error when a rank is known to have gone, so that none of the
  // exchanges to come can take place. For callers that wait for others by other means.
  virtual void check() {}

  static constexpr size_t kMaxBytes = 64 * 1024;
};

}  // namespace trireme::comm
