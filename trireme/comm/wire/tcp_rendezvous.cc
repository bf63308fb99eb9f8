// The rendezvous over TCP; see tcp_rendezvous.h. A star: every exchange is one frame from each rank to rank 0
// and one back, with everybody's bytes or with the reason why there are none. Rank 0 waits as long as the
// timeout says; the others a little longer, so that its reason reaches them.
#include "trireme/comm/wire/tcp_rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/comm/wire/acceptor.h"
#include "trireme/comm/wire/dialer.h"
#include "trireme/comm/wire/framed_socket.h"

namespace trireme::comm {
namespace {

constexpr size_t kMaxWhatBytes = 256;
constexpr std::string_view kJoining = "coming together";

Clock::time_point after(double seconds) {
  return Clock::now() + clock_duration(seconds);
}

// Waits for one of the descriptors or the time. Negative descriptors are left out, as poll does.
void wait_for(std::vector<pollfd>& entries, Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  poll(entries.data(), entries.size(), static_cast<int>(std::clamp<int64_t>(left.count() + 1, 0, 60'000)));
}

// "rank 2" or "ranks 1, 4, 5".
std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.empty()) return "none";
  std::vector<std::string> numbers;
  for (int rank : ranks) numbers.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + trireme::join(numbers, ", ");
}

// Texts in one frame: for each a length and its bytes.
std::string pack(const std::vector<std::string>& texts) {
  std::string packed;
  for (const std::string& text : texts) {
    const auto size = static_cast<uint32_t>(text.size());
    packed.append(reinterpret_cast<const char*>(&size), sizeof size);
    packed.append(text);
  }
  return packed;
}

std::vector<std::string> unpack(std::string_view packed) {
  std::vector<std::string> texts;
  while (packed.size() >= sizeof(uint32_t)) {
    uint32_t size = 0;
    std::memcpy(&size, packed.data(), sizeof size);
    packed.remove_prefix(sizeof size);
    if (size > packed.size()) return {};
    texts.emplace_back(packed.substr(0, size));
    packed.remove_prefix(size);
  }
  return texts;
}

size_t max_offer_bytes() {
  return Rendezvous::kMaxBytes + kMaxWhatBytes + 2 * sizeof(uint32_t);
}

}  // namespace

class TcpRendezvous::Side {
 public:
  explicit Side(TcpRendezvousOptions given) : options(std::move(given)) {}
  virtual ~Side() = default;
  virtual std::vector<std::string> exchange(std::string_view what, std::string mine) = 0;
  virtual void check() = 0;

  TcpRendezvousOptions options;
  std::string host;
};

class TcpRendezvous::Server final : public Side {
 public:
  explicit Server(TcpRendezvousOptions given) : Side(std::move(given)), clients_(options.membership.ranks) {
    const Membership& self = options.membership;
    Descriptor listener =
        options.listener >= 0 ? adopt_listener(options.listener) : listen_on(options.address);
    const std::string address = local_address(listener.get());
    host = host_of(address);
    Acceptor acceptor(std::move(listener), options.secret, self, Purpose::rendezvous, 1,
                      options.timeout_seconds);
    const auto deadline = after(options.timeout_seconds);
    while (!missing().empty()) {
      if (Clock::now() > deadline) {
        fail(
            fmt::format("after {} s at {}, {} of {} have come, and {} did not{}; are they started, and can "
                        "they reach this address?",
                        options.timeout_seconds, address, ranks_text(present()), self.ranks,
                        ranks_text(missing()), acceptor.turned_away()));
      }
      std::vector<pollfd> entries{{acceptor.descriptor(), POLLIN, 0}};
      for (const FramedSocket& client : clients_) entries.push_back({client.descriptor(), POLLRDHUP, 0});
      wait_for(entries, std::min(deadline, acceptor.wake()));
      // First those that have gone again: they may have come back already.
      for (int rank = 1; rank < self.ranks; ++rank) {
        if (!clients_[rank].open() || entries[rank + 1].revents == 0) continue;
        clients_[rank].close();
        acceptor.readmit(rank);
      }
      for (Admitted& admitted : acceptor.advance()) {
        tune_connection(admitted.socket.get(), options.timeout_seconds);
        clients_[admitted.rank] = FramedSocket(std::move(admitted.socket), max_offer_bytes());
      }
      if (acceptor.conflict()) fail(fmt::format("ranks are at odds; refused was {}", *acceptor.conflict()));
    }
    exchange(kJoining, "");
  }

  std::vector<std::string> exchange(std::string_view what, std::string mine) override {
    const auto deadline = after(options.timeout_seconds);
    const int ranks = options.membership.ranks;
    std::vector<std::string> all(ranks);
    std::vector<bool> arrived(ranks);
    all[0] = std::move(mine);
    arrived[0] = true;
    const auto outstanding = [&] {
      std::vector<int> waiting;
      for (int rank = 0; rank < ranks; ++rank) {
        if (!arrived[rank]) waiting.push_back(rank);
      }
      return waiting;
    };
    for (auto waiting = outstanding(); !waiting.empty(); waiting = outstanding()) {
      if (Clock::now() > deadline) {
        fail(fmt::format("'{}': {} did not come within {} s, the other ranks of {} did", what,
                         ranks_text(waiting), options.timeout_seconds, ranks));
      }
      std::vector<pollfd> entries;
      for (int rank : waiting) entries.push_back({clients_[rank].descriptor(), POLLIN, 0});
      wait_for(entries, deadline);
      for (int rank : waiting) {
        const auto frame = clients_[rank].receive();
        if (!clients_[rank].open()) fail(fmt::format("'{}': rank {} has ended its connection", what, rank));
        if (!frame) continue;
        std::vector<std::string> offer = unpack(frame->bytes);
        if (offer.size() != 2) fail(fmt::format("'{}': rank {} sent something else", what, rank));
        if (offer[0] != what) {
          fail(
              fmt::format("rank {} is at '{}' and rank 0 at '{}'; do all ranks run the same program with the "
                          "same options?",
                          rank, printable(offer[0]), what));
        }
        all[rank] = std::move(offer[1]);
        arrived[rank] = true;
      }
    }
    tell_all(FramedSocket::Kind::result, pack(all), deadline);
    return all;
  }

  void check() override {
    for (int rank = 1; rank < options.membership.ranks; ++rank) {
      pollfd entry{clients_[rank].descriptor(), POLLRDHUP, 0};
      if (poll(&entry, 1, 0) == 1)
        fail(fmt::format(
            "rank {} has ended while the ranks were connecting; its own output or the system's log "
            "says why",
            rank));
    }
  }

 private:
  std::vector<int> present() const { return ranks_that(true); }
  std::vector<int> missing() const { return ranks_that(false); }
  std::vector<int> ranks_that(bool are_open) const {
    std::vector<int> found;
    for (int rank = 0; rank < options.membership.ranks; ++rank) {
      if ((rank == 0 || clients_[rank].open()) == are_open) found.push_back(rank);
    }
    return found;
  }

  void tell_all(FramedSocket::Kind kind, std::string_view bytes, Clock::time_point deadline) {
    for (FramedSocket& client : clients_) {
      if (client.open()) client.send(kind, bytes);
    }
    for (;;) {
      std::vector<pollfd> entries;
      for (FramedSocket& client : clients_) {
        if (client.open() && !client.flush()) entries.push_back({client.descriptor(), POLLOUT, 0});
      }
      if (entries.empty() || Clock::now() > deadline) return;
      wait_for(entries, deadline);
    }
  }

  // Ends the rendezvous here and on all who came, with one text.
  [[noreturn]] void fail(const std::string& text) {
    const std::string whole = fmt::format("rendezvous of job '{}': {}", options.membership.job, text);
    tell_all(FramedSocket::Kind::failure, whole, after(1));
    throw Error(whole);
  }

  std::vector<FramedSocket> clients_;  // by rank; 0 stays empty
};

class TcpRendezvous::Client final : public Side {
 public:
  explicit Client(TcpRendezvousOptions given) : Side(std::move(given)) {
    const Membership& self = options.membership;
    Dialer dialer(options.address, 0, options.secret, self, Purpose::rendezvous, options.timeout_seconds);
    const auto deadline = after(options.timeout_seconds);
    while (!dialer.advance()) {
      if (Clock::now() > deadline) {
        throw_error(
            "rendezvous of job '{}': rank {} did not reach rank 0 at {} within {} s: {}; is rank 0 "
            "started, and is this its address?",
            self.job, self.rank, options.address, options.timeout_seconds, dialer.trouble());
      }
      std::vector<pollfd> entries{dialer.poll_entry()};
      wait_for(entries, std::min(deadline, dialer.wake()));
    }
    Descriptor socket = dialer.take();
    tune_connection(socket.get(), options.timeout_seconds);
    host = host_of(local_address(socket.get()));
    server_ =
        FramedSocket(std::move(socket), static_cast<size_t>(self.ranks) * (kMaxBytes + sizeof(uint32_t)));
    exchange(kJoining, "");
  }

  std::vector<std::string> exchange(std::string_view what, std::string mine) override {
    const auto deadline = after(options.timeout_seconds + handshake_seconds(options.timeout_seconds));
    server_.send(FramedSocket::Kind::offer, pack({std::string(what), std::move(mine)}));
    for (;;) {
      const bool flushed = server_.flush();
      if (const auto frame = receive(what)) {
        std::vector<std::string> all = unpack(frame->bytes);
        if (static_cast<int>(all.size()) == options.membership.ranks) return all;
        server_.close();
        continue;
      }
      if (Clock::now() > deadline) {
        throw_error("rendezvous of job '{}', '{}': rank 0 at {} does not answer", options.membership.job,
                    what, options.address);
      }
      std::vector<pollfd> entries{
          {server_.descriptor(), static_cast<short>(POLLIN | (flushed ? 0 : POLLOUT)), 0}};
      wait_for(entries, deadline);
    }
  }

  // Nothing was asked, so that all that may have come is the reason why rank 0 has given up.
  void check() override { receive("connecting"); }

 private:
  std::optional<FramedSocket::Frame> receive(std::string_view what) {
    std::optional<FramedSocket::Frame> frame = server_.receive();
    if (frame && frame->kind == FramedSocket::Kind::failure) throw Error(printable(frame->bytes));
    if (!frame && !server_.open()) {
      throw_error(
          "rendezvous of job '{}', '{}': rank 0 at {} has ended its connection; its own output says why",
          options.membership.job, what, options.address);
    }
    return frame;
  }

  FramedSocket server_;
};

void TcpRendezvousOptions::validate() const {
  const auto [job, generation, rank, ranks] = membership;
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw_error("rank {} of {} ranks: ranks count from 0 to one below their number", rank, ranks);
  }
  if (!(timeout_seconds > 0)) throw_error("a timeout of {} s; it must be above 0", timeout_seconds);
  if (listener >= 0 && rank != 0)
    throw_error("rank {} was given a listening socket; only rank 0 listens", rank);
}

TcpRendezvous::TcpRendezvous(TcpRendezvousOptions options) {
  options.validate();
  if (options.membership.rank == 0) {
    side_ = std::make_unique<Server>(std::move(options));
  } else {
    side_ = std::make_unique<Client>(std::move(options));
  }
}

TcpRendezvous::~TcpRendezvous() = default;

int TcpRendezvous::rank() const {
  return side_->options.membership.rank;
}
int TcpRendezvous::ranks() const {
  return side_->options.membership.ranks;
}
void TcpRendezvous::check() {
  side_->check();
}
std::string TcpRendezvous::host() const {
  return side_->host;
}

std::vector<std::string> TcpRendezvous::exchange(std::string_view what, std::string mine) {
  TRIREME_CHECK(what.size() <= kMaxWhatBytes);
  if (mine.size() > kMaxBytes) {
    throw_error("'{}': {} bytes, and an exchange carries at most {} a rank", what, mine.size(), kMaxBytes);
  }
  return side_->exchange(what, std::move(mine));
}

}  // namespace trireme::comm
