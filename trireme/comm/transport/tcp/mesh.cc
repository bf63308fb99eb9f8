// All connections of a rank, made side by side; see mesh.h.
#include "trireme/comm/transport/tcp/mesh.h"

#include <poll.h>

#include <algorithm>
#include <fstream>
#include <list>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/comm/wire/acceptor.h"
#include "trireme/comm/wire/dialer.h"

namespace trireme::comm {
namespace {

// What ranks of one host have in common, whatever network namespace they are in: they share its cores.
std::string boot_identity() {
  std::string identity;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), identity);
  return identity.empty() ? "unknown" : identity;
}

std::string listening_address(const std::string& host) {
  for (const char* any : {"0.0.0.0", "::", "[::]", "*"}) {
    if (host == any) {
      throw_error("cannot listen on {}: give the one address of this host that the other ranks reach it by",
                  host);
    }
  }
  return host.find(':') != std::string::npos && !host.starts_with('[') ? fmt::format("[{}]:0", host)
                                                                       : host + ":0";
}

class MeshBuilder {
 public:
  MeshBuilder(Rendezvous& rendezvous, const Secret& secret, const Membership& self, Descriptor listener,
              double timeout_seconds)
      : rendezvous_(rendezvous),
        self_(self),
        acceptor_(std::move(listener), secret, self, Purpose::mesh, self.rank + 1, timeout_seconds),
        secret_(secret),
        timeout_seconds_(timeout_seconds) {
    mesh_.links.resize(self.ranks);
  }

  Mesh build(const std::vector<std::string>& addresses) {
    const auto deadline = Clock::now() + clock_duration(timeout_seconds_);
    for (int rank = 0; rank < self_.rank; ++rank) {
      dialers_.emplace_back(addresses[rank], rank, secret_, self_, Purpose::mesh, timeout_seconds_);
    }
    for (;;) {
      drop_closed();
      for (Admitted& admitted : acceptor_.advance()) {
        add(admitted.rank, std::move(admitted.socket), admitted.address);
      }
      if (acceptor_.conflict())
        throw_error("cannot connect the ranks; refused was {}", *acceptor_.conflict());
      std::erase_if(dialers_, [&](Dialer& dialer) {
        if (!dialer.advance()) return false;
        add(dialer.to_rank(), dialer.take(), dialer.address());
        return true;
      });
      const std::string missing = missing_ranks();
      if (missing.empty()) return std::move(mesh_);
      check_all_are_there();
      if (Clock::now() > deadline) {
        throw_error("rank {} has no connection with {} after {} s{}; does a firewall keep the hosts apart?",
                    self_.rank, missing, timeout_seconds_, acceptor_.turned_away());
      }
      wait(deadline);
    }
  }

 private:
  void add(int rank, Descriptor socket, const std::string& address) {
    tune_connection(socket.get(), timeout_seconds_);
    mesh_.links[rank] = {std::move(socket), address};
  }

  // A rank that was let in and went again, because it had not heard so in time: it will come anew.
  void drop_closed() {
    for (int rank = self_.rank + 1; rank < self_.ranks; ++rank) {
      pollfd entry{mesh_.links[rank].socket.get(), POLLRDHUP, 0};
      if (entry.fd < 0 || poll(&entry, 1, 0) != 1) continue;
      mesh_.links[rank].socket.reset();
      acceptor_.readmit(rank);
    }
  }

  // Who has ended will not connect.
  void check_all_are_there() {
    try {
      rendezvous_.check();
    } catch (const Error& error) {
      throw_error("{}{}", error.what(), acceptor_.turned_away());
    }
  }

  // "2 (10.0.0.3:4711: connection refused), 5"
  std::string missing_ranks() const {
    std::vector<std::string> texts;
    for (const Dialer& dialer : dialers_) {
      texts.push_back(fmt::format("rank {} ({}: {})", dialer.to_rank(), dialer.address(), dialer.trouble()));
    }
    for (int rank = self_.rank + 1; rank < self_.ranks; ++rank) {
      if (!mesh_.links[rank].socket) texts.push_back(fmt::format("rank {} (it did not connect)", rank));
    }
    return trireme::join(texts, ", ");
  }

  void wait(Clock::time_point until) {
    std::vector<pollfd> entries{{acceptor_.descriptor(), POLLIN, 0}};
    until = std::min(until, acceptor_.wake());
    for (const Dialer& dialer : dialers_) {
      entries.push_back(dialer.poll_entry());
      until = std::min(until, dialer.wake());
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    poll(entries.data(), entries.size(), static_cast<int>(std::clamp<int64_t>(left + 1, 0, 1000)));
  }

  Rendezvous& rendezvous_;
  const Membership& self_;
  Acceptor acceptor_;
  std::list<Dialer> dialers_;
  const Secret& secret_;
  double timeout_seconds_;
  Mesh mesh_;
};

}  // namespace

Mesh connect_mesh(Rendezvous& rendezvous, const Secret& secret, const Membership& self,
                  const std::string& host, double timeout_seconds) {
  Descriptor listener = listen_on(listening_address(host));
  const std::string identity = boot_identity();
  std::vector<std::string> addresses, hosts;
  for (const std::string& line :
       rendezvous.exchange("tcp addresses", local_address(listener.get()) + " " + identity)) {
    const auto parts = split(line, ' ');
    if (parts.size() != 2) throw_error("'{}' is no address of a rank", printable(line));
    addresses.push_back(parts[0]);
    hosts.push_back(parts[1]);
  }
  Mesh mesh = MeshBuilder(rendezvous, secret, self, std::move(listener), timeout_seconds).build(addresses);
  mesh.ranks_on_host = static_cast<int>(std::count(hosts.begin(), hosts.end(), identity));
  // Nobody begins before all are connected: who cannot be is known now, not in the middle of the first step.
  rendezvous.exchange("tcp connections", "");
  return mesh;
}

}  // namespace trireme::comm
