// The meeting place over TCP: rank 0 listens on an address that all know, the others connect, and exchanges
// go through rank 0. Every connection proves that it knows the job's secret before anything else is read.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/wire/handshake.h"
#include "trireme/comm/wire/rendezvous.h"
#include "trireme/comm/wire/secret.h"

namespace trireme::comm {

struct TcpRendezvousOptions {
  Secret secret;
  Membership membership;                    // rank, ranks, job and generation
  std::string address = "127.0.0.1:29500";  // where rank 0 listens, and only there
  int listener = -1;             // rank 0: an inherited listening socket to use instead (and to close)
  double timeout_seconds = 120;  // for all to come, and then for each exchange
  void validate() const;         // throws Error
};

class TcpRendezvous final : public Rendezvous {
 public:
  // Collective: returns when all ranks have come. Throws Error, on all of those that came, when some do not
  // within the timeout (naming them), when two have the same rank, or when their numbers of ranks differ.
  explicit TcpRendezvous(TcpRendezvousOptions options);
  ~TcpRendezvous() override;

  int rank() const override;
  int ranks() const override;
  std::vector<std::string> exchange(std::string_view what, std::string mine) override;
  void check() override;

  // This host's address (without port) as the others reach it: what a transport should listen on.
  std::string host() const;

 private:
  class Side;
  class Server;
  class Client;
  std::unique_ptr<Side> side_;
};

}  // namespace trireme::comm
