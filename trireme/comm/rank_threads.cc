// Ranks as threads of one process: for ranks that share a GPU, and for tests. See context.h.
#include <fmt/format.h>
#include <sys/mman.h>

#include <mutex>
#include <optional>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/comm/context.h"
#include "trireme/comm/transport/emulated/emulated.h"
#include "trireme/comm/transport/inproc/inproc.h"

namespace trireme::comm {

void run_rank_threads(int ranks, const std::function<void(Context&)>& program, double timeout_seconds,
                      const std::optional<EmulatedLink>& link) {
  if (ranks < 1) throw_error("a job of {} ranks; 1 or more expected", ranks);
  const auto hub = std::make_shared<InprocHub>(ranks);
  const size_t bytes = Recorder::bytes_for(ranks);
  // One memory for all, as a launcher would give them.
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  const auto memory = std::make_shared<std::vector<Line>>(bytes / sizeof(Line));
  std::mutex mutex;
  // What a rank says first; what others say of a rank that has failed only where that one says nothing.
  std::optional<std::string> failure, of_peer;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        std::unique_ptr<Transport> transport = std::make_unique<InprocTransport>(hub, rank);
        if (link) transport = std::make_unique<EmulatedTransport>(std::move(transport), *link);
        Context context(
            {.session = nullptr,
             .memory = memory,
             .recorder = std::make_unique<Recorder>(std::as_writable_bytes(std::span(*memory)), rank, ranks),
             .transport = std::move(transport),
             .hosts = std::vector<int>(static_cast<size_t>(ranks), 0),
             .launched_by = "this process, as threads",
             .timeout_seconds = timeout_seconds,
             .device_links = DeviceLinks::in_memory});
        program(context);
      } catch (const PeerError& error) {
        const std::lock_guard lock(mutex);
        if (!of_peer) of_peer = fmt::format("rank {}: {}", rank, error.what());
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = fmt::format("rank {}: {}", rank, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!failure) failure = of_peer;
  if (failure) throw Error(*failure);
}

}  // namespace trireme::comm
