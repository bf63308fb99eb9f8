// See in_memory_communicator.h.
#include "trireme/runtime/in_memory_communicator.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/transport/transport.h"

namespace trireme {
namespace {

// What a rank adds up of so many elements, in whole packs of what a kernel loads at once.
Part share_of(int64_t count, int rank, int ranks) {
  constexpr int64_t kPack = 64;
  const int64_t packs = (count + kPack - 1) / kPack;
  const auto begin = [&](int64_t part) { return std::min(count, packs * part / ranks * kPack); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

}  // namespace

// Held by all ranks that take part; the last one frees it.
struct InMemoryCommunicator::Offer {
  std::byte* data;
  std::unique_ptr<Event> ready;  // from then on the device may touch the data
  std::unique_ptr<Event> done;   // set before `shared`
  std::atomic<bool> shared;      // this rank's share of the work (of a message: the copy) is on a stream
  std::atomic<bool> withdrawn;   // the rank has failed, and its memory goes
  std::atomic<int> holders;

  void drop() {
    if (holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
};

// One collective or message, on its way through these stages.
struct InMemoryCommunicator::Exchange {
  const std::byte* data;              // what wait() is called with
  std::shared_ptr<std::byte> memory;  // of `offers`; the host's communicator keeps it while it writes there
  std::span<Offer*> offers;           // which it brings, and by whose address it knows them
  Offer* own;                         // null on the receiver
  Share share;                        // null on the sender
  enum class Stage { kOffered, kShared, kThrough, kStaged } stage = Stage::kOffered;

  std::byte* key() const { return reinterpret_cast<std::byte*>(offers.data()); }
};

InMemoryCommunicator::InMemoryCommunicator(Communicator& inner, Stream& stream, const KernelTable& kernels)
    : WrappingCommunicator(inner), stream_(stream), kernels_(kernels), staged_(inner, stream) {}

// A run may end with sums under way that nobody waits for. All ranks end then, and each waits until nobody
// works on its memory. Where this rank fails instead, the others hear of it; they may hold its offers, which
// stay until the process ends: nobody can tell any more who still reads them.
InMemoryCommunicator::~InMemoryCommunicator() {
  bool ended = false;
  try {
    if (std::uncaught_exceptions() == 0) {
      end();
      ended = true;
    }
  } catch (const std::exception&) {
  }
  if (ended) return;
  for (Exchange& exchange : under_way_) {
    if (exchange.own) exchange.own->withdrawn.store(true, std::memory_order_release);
  }
}

void InMemoryCommunicator::end() {
  if (under_way_.empty()) return;
  until([&] {
    return std::ranges::all_of(under_way_, [](const Exchange& one) {
      return one.stage == Exchange::Stage::kThrough || one.stage == Exchange::Stage::kStaged;
    });
  });
  stream_.synchronize();
}

InMemoryCommunicator::Offer* InMemoryCommunicator::offer(std::byte* data, int holders) {
  return new Offer{data, stream_.record(), nullptr, false, false, holders};
}

InMemoryCommunicator::Exchange& InMemoryCommunicator::begin(const std::byte* data, size_t offers, Offer* own,
                                                            Share share) {
  std::shared_ptr<std::byte> memory = inner_.allocate(offers * sizeof(Offer*));
  Offer** const first = new (memory.get()) Offer* [offers] {};
  return under_way_.emplace_back(
      Exchange{data, std::move(memory), std::span(first, offers), own, std::move(share)});
}

void InMemoryCommunicator::collective(std::string_view axis, const std::byte* name, std::byte* offered,
                                      Share share) {
  const Place place = inner_.place(axis);
  Exchange& exchange =
      begin(name, static_cast<size_t>(place.ranks), offer(offered, place.ranks), std::move(share));
  exchange.offers[static_cast<size_t>(place.rank)] = exchange.own;
  inner_.start({CollectiveKind::kAllGather, axis, exchange.key(),
                place.ranks * static_cast<int64_t>(sizeof(Offer*)), DType::u8});
}

const Kernel* InMemoryCommunicator::sums(DType dtype, Reduction reduction) const {
  return reduction == Reduction::kSum ? kernels_.find("add", dtype) : nullptr;
}

// Elements of all offers are added up, neighbours first; the sum is then in the offer `into`, and what the
// others have there is lost.
void InMemoryCommunicator::add_up(const Kernel& kernel, Offers offers, size_t into, int64_t first,
                                  int64_t count, DType dtype) {
  const size_t at = static_cast<size_t>(first) * size_of(dtype), ranks = offers.size();
  const Attrs none;
  for (size_t step = 1; step < ranks; step *= 2) {
    for (size_t i = 0; i + step < ranks; i += 2 * step) {
      const auto view = [&](size_t offer) {
        return TensorView{offers[offer]->data + at, dtype, Shape{count}};
      };
      const TensorView inputs[] = {view(i), view(i + step)}, sum = view(2 * step >= ranks ? into : i);
      stream_.launch(kernel, inputs, {&sum, 1}, none, nullptr, nullptr);
    }
  }
}

void InMemoryCommunicator::start(const Collective& call) {
  const Place place = inner_.place(call.axis);
  const size_t others = static_cast<size_t>(place.ranks - 1);
  if (call.kind == CollectiveKind::kAllGather) {
    const Part own = call.parts().of(place.ranks, place.rank);
    const size_t at = static_cast<size_t>(own.begin) * size_of(call.dtype),
                 bytes = static_cast<size_t>(own.size) * size_of(call.dtype);
    bytes_ += bytes * others;
    const size_t rank = static_cast<size_t>(place.rank);
    return collective(call.axis, call.data, call.data, [=, this, data = call.data](Offers offers) {
      for (size_t i = 0; i < offers.size(); ++i) {
        if (i != rank) stream_.copy(offers[i]->data + at, data + at, bytes);
      }
    });
  }
  const bool everywhere = call.kind == CollectiveKind::kAllReduce;
  const Part own =
      everywhere ? share_of(call.count, place.rank, place.ranks) : call.parts().of(place.ranks, place.rank);
  const size_t at = static_cast<size_t>(own.begin) * size_of(call.dtype),
               bytes = static_cast<size_t>(own.size) * size_of(call.dtype);
  bytes_ += (everywhere ? 2 : 1) * bytes * others;
  const Kernel* const kernel = sums(call.dtype, call.reduction);
  if (!kernel) {
    staged_.start(call);
    under_way_.push_back({.data = call.data, .stage = Exchange::Stage::kStaged});
    return;
  }
  collective(call.axis, call.data, call.data, [=, this, dtype = call.dtype](Offers offers) {
    if (own.size == 0) return;
    add_up(*kernel, offers, everywhere ? 0 : static_cast<size_t>(place.rank), own.begin, own.size, dtype);
    for (size_t i = 1; everywhere && i < offers.size(); ++i)
      stream_.copy(offers[i]->data + at, offers[0]->data + at, bytes);
  });
}

// A rank takes its part from each of the others. Where that lies follows from its size, as all cut as many
// units.
void InMemoryCommunicator::all_to_all(const AllToAll& call) {
  const Place place = inner_.place(call.axis);
  const size_t width = size_of(call.dtype);
  const Part own_units = part_of(call.given.units, place.ranks, place.rank);
  bytes_ += call.given_bytes() - static_cast<size_t>(call.given.of(place.ranks, place.rank).size) * width;
  const auto take = [=, this, to = call.to, gotten = call.gotten](Offers offers) {
    for (size_t i = 0; i < offers.size(); ++i) {
      const Part part = gotten.of(place.ranks, static_cast<int64_t>(i));
      if (part.size == 0) continue;
      const auto from = static_cast<size_t>(part.size / own_units.size * own_units.begin) * width;
      stream_.copy(to + static_cast<size_t>(part.begin) * width, offers[i]->data + from,
                   static_cast<size_t>(part.size) * width);
    }
  };
  collective(call.axis, call.to, const_cast<std::byte*>(call.from), take);
  wait(call.to);
}

// The receiver does the copy.
void InMemoryCommunicator::start_send(int peer, const std::byte* data, int64_t bytes, int tag) {
  Offer* const own = offer(const_cast<std::byte*>(data), 2);
  const Exchange& exchange = begin(data, 1, own, nullptr);
  exchange.offers[0] = own;
  inner_.start_send(peer, exchange.key(), sizeof(Offer*), tag);
  bytes_ += static_cast<uint64_t>(bytes);
}
void InMemoryCommunicator::start_receive(int peer, std::byte* data, int64_t bytes, int tag) {
  const Exchange& exchange = begin(data, 1, nullptr, [=, this](Offers offers) {
    stream_.copy(data, offers[0]->data, static_cast<size_t>(bytes));
  });
  inner_.start_receive(peer, exchange.key(), sizeof(Offer*), tag);
}

void InMemoryCommunicator::advance(Exchange& exchange) {
  using Stage = Exchange::Stage;
  const auto& [_, memory, offers, own, share, stage] = exchange;
  if (stage == Stage::kThrough || stage == Stage::kStaged) return;
  const auto check_all = [&exchange] {
    for (const Offer* one : exchange.offers) {
      if (one->withdrawn.load(std::memory_order_acquire))
        throw comm::PeerError(comm::Failure::aborted, -1, "another rank on this device has failed");
    }
  };
  if (stage == Stage::kOffered && inner_.try_wait(exchange.key())) {
    check_all();
    if (share) {
      for (Offer* one : offers) {
        if (one != own) stream_.wait_for(*one->ready);
      }
      share(offers);
      Offer* const told = own ? own : offers[0];
      told->done = stream_.record();
      told->shared.store(true, std::memory_order_release);
    }
    exchange.stage = Stage::kShared;
  }
  if (stage != Stage::kShared) return;
  if (!std::ranges::all_of(offers,
                           [](const Offer* one) { return one->shared.load(std::memory_order_acquire); })) {
    check_all();
  } else {
    for (Offer* one : offers) {
      if (one != own || !share) stream_.wait_for(*one->done);
      one->drop();
    }
    exchange.stage = Stage::kThrough;
  }
}

void InMemoryCommunicator::advance() {
  for (Exchange& exchange : under_way_) advance(exchange);
}

bool InMemoryCommunicator::forget_if_through(const std::byte* data) {
  const auto found = std::ranges::find(under_way_, data, &Exchange::data);
  TRIREME_CHECK(found != under_way_.end());
  if (found->stage == Exchange::Stage::kStaged)
    staged_.wait(data);
  else if (found->stage != Exchange::Stage::kThrough)
    return false;
  under_way_.erase(found);
  return true;
}

// All that is under way goes on meanwhile: another rank may wait for that first.
template <typename Done>
void InMemoryCommunicator::until(const Done& done) {
  const Clock::time_point begin = Clock::now();
  for (advance(); !done(); advance()) {
    std::this_thread::yield();
    if (seconds_since(begin) > timeout_seconds())
      throw_error("another rank on this device has not taken part in an exchange for {:.0f} s",
                  timeout_seconds());
  }
  seconds_ += seconds_since(begin);
}

void InMemoryCommunicator::wait(const std::byte* data) {
  until([&] { return forget_if_through(data); });
}

bool InMemoryCommunicator::try_wait(const std::byte* data) {
  advance();
  return forget_if_through(data);
}

InMemoryCommunicator::Arrived InMemoryCommunicator::wait_any(std::span<const std::byte* const> data,
                                                             Silence) {
  size_t number = 0;
  until([&] {
    for (number = 0; number < data.size(); ++number) {
      if (forget_if_through(data[number])) return true;
    }
    return false;
  });
  return {.number = number};
}

double InMemoryCommunicator::take_seconds() {
  inner_.take_seconds();
  return std::exchange(seconds_, 0);
}
uint64_t InMemoryCommunicator::take_bytes() {
  inner_.take_bytes();
  return std::exchange(bytes_, 0);
}

}  // namespace trireme
