// Makes one connection to a rank that may not be there yet: connects, proves itself, and tries again until
// it is in or refused. Never waits; several can be driven side by side with an Acceptor.
#pragma once

#include <poll.h>

#include <memory>
#include <string>

#include "trireme/comm/wire/handshake.h"
#include "trireme/comm/wire/socket.h"

namespace trireme::comm {

class Dialer {
 public:
  // `secret` outlives the dialer.
  Dialer(std::string address, int to_rank, const Secret& secret, Membership self, Purpose purpose,
         double timeout_seconds);

  // Does what can be done without waiting; true when connected and welcome. Throws Error when it makes no
  // sense to try again: this rank was refused, or who is there does not know the secret.
  bool advance();
  // What to poll, and when to call advance() in any case.
  pollfd poll_entry() const;
  Clock::time_point wake() const { return wake_; }

  Descriptor take() { return std::move(socket_); }
  const std::string& address() const { return address_; }
  int to_rank() const { return to_rank_; }
  // Why it is not in yet: "connection refused".
  const std::string& trouble() const { return trouble_; }

 private:
  void start();
  void retry(std::string trouble);
  void judge();

  std::string address_;
  int to_rank_;
  const Secret& secret_;
  Membership self_;
  Purpose purpose_;
  Clock::duration patience_;
  Descriptor socket_;
  std::unique_ptr<ConnectorHandshake> handshake_;  // none: no attempt is under way
  bool connected_ = false;
  int attempts_ = 0;
  Clock::time_point wake_;
  Clock::time_point first_unproven_ = Clock::time_point::max();
  std::string trouble_ = "no answer yet";
};

}  // namespace trireme::comm
