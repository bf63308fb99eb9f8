// How a rank becomes part of its job: it meets the others, learns who is on which host, agrees on a
// transport and sets it up. See context.h.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/output.h"
#include "trireme/base/text.h"
#include "trireme/comm/context.h"
#include "trireme/comm/launch/local_launcher.h"
#include "trireme/comm/launch/transport_choice.h"
#include "trireme/comm/transport/emulated/emulated.h"
#include "trireme/comm/transport/inproc/inproc.h"
#include "trireme/comm/transport/mpi/mpi.h"
#include "trireme/comm/transport/shm/shm_transport.h"
#include "trireme/comm/transport/tcp/tcp.h"
#include "trireme/comm/wire/secret.h"
#include "trireme/comm/wire/tcp_rendezvous.h"

namespace trireme::comm {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 256> target{};
  const ssize_t size = readlink(path, target.data(), target.size());
  return size < 0 ? "" : std::string(target.data(), static_cast<size_t>(size));
}

// Ranks with the same text can share memory and reach each other at 127.0.0.1. Containers of one machine have
// its boot id, but names and namespaces of their own.
std::string host_identity() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return fmt::format("{} {} {} {}", first_line("/proc/sys/kernel/random/boot_id"), name.data(),
                     link_target("/proc/self/ns/net"), link_target("/proc/self/ns/pid"));
}

// Hosts are numbered in the order of their first rank.
std::vector<int> number_hosts(const std::vector<std::string>& identities) {
  std::vector<int> hosts;
  std::vector<std::string> known;
  for (const std::string& identity : identities) {
    const auto found = std::ranges::find(known, identity);
    hosts.push_back(static_cast<int>(found - known.begin()));
    if (found == known.end()) known.push_back(identity);
  }
  return hosts;
}

// The launcher's, where there is one; else this rank's own, in which it sees itself alone.
std::shared_ptr<void> map_recorder(int descriptor, size_t bytes) {
  const bool own = descriptor < 0;
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (own ? MAP_ANONYMOUS : 0), descriptor, 0);
  if (!own) close(descriptor);
  if (data == MAP_FAILED)
    throw_error("no memory for the flight recorder ({} bytes): {}", bytes, std::strerror(errno));
  return {data, [bytes](void* memory) { munmap(memory, bytes); }};
}

void add_recorder(Context::Parts& parts, int descriptor, int rank, int ranks) {
  const size_t bytes = Recorder::bytes_for(ranks);
  parts.memory = map_recorder(descriptor, bytes);
  parts.recorder =
      std::make_unique<Recorder>(std::span(static_cast<std::byte*>(parts.memory.get()), bytes), rank, ranks);
}

// Processes of a job start at different times, which has nothing to do with how long an operation may take.
constexpr double kStartSeconds = 20;

double meeting_seconds(const LaunchOptions& options) {
  return kStartSeconds + options.timeout_seconds;
}

// What a rank has until its transport is up.
struct Meeting {
  std::shared_ptr<MpiSession> mpi;  // or null
  std::unique_ptr<Rendezvous> rendezvous;
  std::string host = "127.0.0.1";  // this one's address, as the others reach it
  std::optional<Secret> secret;
};

Secret read_secret(const LaunchEnvironment& environment, const LaunchOptions& options) {
  if (environment.inherited.secret >= 0) return Secret::from_descriptor(environment.inherited.secret);
  if (!options.secret_file.empty()) return Secret::from_file(options.secret_file);
  if (environment.secret)
    return Secret::from_text(*environment.secret, "the environment variable TRIREME_SECRET");
  throw_error(
      "the {} ranks that {} started have no secret by which to know each other. Set the same one for all of them, "
      "export TRIREME_SECRET=$(head -c 32 /dev/urandom | base64), or name a file that only you can read with "
      "--secret-file",
      environment.ranks, environment.launched_by);
}

// MPI's launcher vouches for its ranks, so rank 0 may make a secret and hand it to them through MPI.
Secret exchange_secret(Rendezvous& rendezvous) {
  const std::string mine = rendezvous.rank() == 0 ? Secret::generate().to_text() : "";
  return Secret::from_text(rendezvous.exchange("secret", mine).front(), "what rank 0 sent");
}

Meeting meet(const LaunchEnvironment& environment, const LaunchOptions& options) {
  Meeting meeting;
  if (environment.address.empty()) {
    meeting.mpi = start_mpi();
    if (meeting.mpi->ranks() != environment.ranks || meeting.mpi->rank() != environment.rank) {
      throw_error(
          "{} says rank {} of {} ({}), but {} is rank {} of {}. This trireme was built with another MPI than "
          "the mpirun that started it: use the mpirun of {}",
          environment.launched_by, environment.rank, environment.ranks, environment.found,
          meeting.mpi->library(), meeting.mpi->rank(), meeting.mpi->ranks(), meeting.mpi->library());
    }
    meeting.rendezvous = meeting.mpi->rendezvous(meeting_seconds(options));
    return meeting;
  }
  meeting.secret = read_secret(environment, options);
  TcpRendezvousOptions at{.secret = *meeting.secret};
  at.membership.rank = environment.rank;
  at.membership.ranks = environment.ranks;
  at.address = environment.address;
  at.listener = environment.inherited.listener;
  at.timeout_seconds = meeting_seconds(options);
  auto rendezvous = std::make_unique<TcpRendezvous>(std::move(at));
  meeting.host = rendezvous->host();
  meeting.rendezvous = std::move(rendezvous);
  return meeting;
}

std::unique_ptr<Transport> make_transport(TransportKind kind, Meeting& meeting,
                                          const LaunchOptions& options) {
  switch (kind) {
    case TransportKind::inproc:
      return std::make_unique<InprocTransport>(std::make_shared<InprocHub>(1), 0);
    case TransportKind::shm:
      return make_shm_transport(*meeting.rendezvous);
    case TransportKind::mpi:
      return meeting.mpi->transport();
    case TransportKind::tcp:
      break;
  }
  if (!meeting.secret) meeting.secret = exchange_secret(*meeting.rendezvous);
  return std::make_unique<TcpTransport>(
      *meeting.rendezvous,
      TcpOptions{
          .secret = *meeting.secret, .host = meeting.host, .timeout_seconds = options.timeout_seconds});
}

// Moments of one rank's clock mean something to the others on one host alone, and MPI has no idle() that
// wakes up at one.
void check_link(TransportKind kind, DeviceLinks device_links, int hosts) {
  if (device_links == DeviceLinks::nccl)
    throw_error("--link emulates a link over shm and tcp, and not what NCCL sends; leave one of them out");
  if (kind == TransportKind::mpi)
    throw_error("--link emulates a link over shm and tcp, and the transport is mpi; say --transport shm");
  if (hosts > 1)
    throw_error(
        "--link emulates a link between ranks of one host, whose clocks are one, and these are on {} hosts; "
        "leave it out, or start all ranks on one host",
        hosts);
}

// Every message of a rank with --link has a moment in front of it that a rank without knows nothing of.
// Throws the same Error on all ranks where they were not given the same.
void require_same_link(Rendezvous& rendezvous, std::optional<EmulatedLink> link) {
  if (link) link->name.clear();  // the same numbers may have been given otherwise
  const std::vector<std::string> links =
      rendezvous.exchange("emulated links", link ? to_text(*link) : "not given");
  std::vector<std::string> said;
  for (size_t rank = 0; rank < links.size(); ++rank) {
    if (rank == 0 || links[rank] != links[0])
      said.push_back(fmt::format("{} on rank {}", printable(links[rank]), rank));
  }
  if (said.size() == 1) return;
  constexpr size_t kListed = 8;
  const size_t more = said.size() - std::min(said.size(), kListed);
  said.resize(said.size() - more);
  throw_error("--link is not the same on all ranks: {}{}. Give it to all of them, or to none",
              trireme::join(said, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

Context join(const LaunchEnvironment& environment, const LaunchOptions& options) {
  if (environment.starts_ranks)
    throw_error(
        "join() is for a rank, and this process is to start {} of them (-n); run_launched() does what either "
        "needs",
        environment.ranks);
  Context::Parts parts{.launched_by = environment.launched_by,
                       .processors = environment.processors,
                       .timeout_seconds = options.timeout_seconds,
                       .device_links = options.device_links};
  // The memory of another process is out of reach.
  if (parts.device_links == DeviceLinks::in_memory) parts.device_links = DeviceLinks::through_host;
  Meeting meeting;
  TransportQuestion question{
      .wanted = options.transport, .ranks = environment.ranks, .launched_by = environment.launched_by};
  const bool alone = environment.launcher == Launcher::none;
  if (alone) {
    parts.hosts = {0};
  } else {
    meeting = meet(environment, options);
    parts.hosts = number_hosts(meeting.rendezvous->exchange("hosts", host_identity()));
    question.hosts = *std::ranges::max_element(parts.hosts) + 1;
    question.under_mpi = meeting.mpi != nullptr;
    if (!options.links) require_same_link(*meeting.rendezvous, options.link);
  }
  const TransportKind kind = choose_transport(question);
  if (alone && kind != TransportKind::inproc)
    throw_error("--transport {} needs ranks, and there is one alone; -n RANKS starts local ones",
                options.transport);
  add_recorder(parts, environment.inherited.recorder, environment.rank, environment.ranks);
  if (options.link || options.links) check_link(kind, options.device_links, question.hosts);
  parts.transport = make_transport(kind, meeting, options);
  if (options.links) {
    parts.link = "one for each pair of ranks";
    parts.transport = std::make_unique<EmulatedTransport>(std::move(parts.transport), options.links);
  } else if (options.link) {
    parts.link = to_text(*options.link);
    parts.transport = std::make_unique<EmulatedTransport>(std::move(parts.transport), *options.link);
  }
  parts.session = meeting.mpi;
  return Context(std::move(parts));
}

int run_launched(const LaunchOptions& options, const std::function<int(Context&)>& program) {
  const LaunchEnvironment environment = detect(process_variables(), options);
  const auto run = [&](Context& context) {
    if (context.rank() == 0 && environment.launcher != Launcher::none) {
      say("{}\n", context.summary());
      std::fflush(stdout);
    }
    return program(context);
  };
  if (environment.starts_ranks && options.device_links == DeviceLinks::in_memory) {
    int code = 0;  // rank 0's
    run_rank_threads(
        environment.ranks,
        [&](Context& context) {
          const int result = run(context);
          if (context.rank() == 0) code = result;
        },
        options.timeout_seconds);
    return code;
  }
  if (environment.starts_ranks)
    return launch_local({.ranks = environment.ranks,
                         .needed_ranks = options.needed_ranks,
                         .restarts = options.restarts,
                         .elastic = options.elastic,
                         .memory = options.memory,
                         .on_loss = options.on_loss,
                         .timeout_seconds = options.timeout_seconds,
                         .bind = options.bind,
                         .arguments = options.arguments});
  Context context = join(environment, options);
  return run(context);
}

}  // namespace trireme::comm
