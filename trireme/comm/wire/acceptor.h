// Takes connections on one listening socket until the expected ranks are in. Whoever connects has a short
// time to prove itself and is read no further than the handshake's fixed frames; so many may be at it at
// once, beyond that the oldest is dropped. Nobody waits for anybody: a scan, a slow or a silent connection
// costs the ranks nothing but a place in a list.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/wire/handshake.h"
#include "trireme/comm/wire/socket.h"

namespace trireme::comm {

// How long a connection may take to prove itself, from the one timeout.
double handshake_seconds(double timeout_seconds);

struct Admitted {
  int rank;
  Descriptor socket;
  std::string address;
};

class Acceptor {
 public:
  // Lets in each rank from `first_rank` on, once. `secret` outlives the acceptor.
  Acceptor(Descriptor listener, const Secret& secret, Membership self, Purpose purpose, int first_rank,
           double timeout_seconds);

  // Does what can be done without waiting and returns who came in.
  std::vector<Admitted> advance();
  // A descriptor to poll: readable when advance() has something to do. It also has at wake().
  int descriptor() const { return epoll_.get(); }
  Clock::time_point wake() const;

  // The rank's connection ended before the job began; it may come again.
  void readmit(int rank) { present_[rank] = false; }

  // Set when processes of this very job are at odds (two with one rank, or different numbers of ranks), so
  // that it cannot begin; says who.
  const std::optional<std::string>& conflict() const { return conflict_; }
  // Who else was turned away, for an error message: "3 connections that did not prove …"; empty if nobody.
  std::string turned_away() const;

  // Beyond these, the oldest connection that has not proved itself makes room. The ranks themselves come on
  // top, so that all of them may be at it at once.
  static constexpr size_t kMaxStrangers = 64;

 private:
  struct Pending {
    Descriptor socket;
    std::unique_ptr<AcceptorHandshake> handshake;
    Clock::time_point deadline;
    std::string address;
  };
  enum class Progress : uint8_t { waiting, admitted, ended };

  void accept_waiting();
  void watch(int socket, uint64_t id);
  Progress drive(Pending& pending);
  void drop(std::map<uint64_t, Pending>::iterator pending);
  Verdict judge(int rank);

  Descriptor listener_;
  Descriptor epoll_;
  const Secret& secret_;
  Membership self_;
  Purpose purpose_;
  int first_rank_;
  Clock::duration patience_;
  std::vector<bool> present_;
  uint64_t next_id_ = 1;                 // 0 is the listener
  std::map<uint64_t, Pending> pending_;  // by age
  std::optional<std::string> conflict_;
  std::string last_refused_;
  int strangers_ = 0;
};

}  // namespace trireme::comm
