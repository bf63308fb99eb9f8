// Who started this process, and as which of how many ranks: read from the variables that launchers set.
// docs/launching.md has the table for people.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/collective/emulated_link.h"
#include "trireme/comm/engine/flight_record.h"
#include "trireme/comm/transport/device_links.h"

namespace trireme::comm {

enum class Launcher : uint8_t {
  none,      // one rank, alone
  local,     // `-n RANKS`: this command starts copies of itself
  mpi,       // mpirun of Open MPI or MPICH
  slurm,     // srun
  torchrun,  // torchrun, or anybody who sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
};
std::string_view name(Launcher launcher);
// "local", "mpi", … Throws Error with what is known.
Launcher parse_launcher(std::string_view text);

// --elastic: a job on this host that goes on with fewer ranks after a loss, and has all again later.
struct ElasticRanks {
  int fewest = 1, most = 2;
  double grow_after_seconds = 60;  // for which a job goes on with fewer than `most`
  // Whether the job can have so many, which is asked after a loss. Null: any number.
  std::function<bool(int ranks)> fits = nullptr;

  void validate() const;  // throws Error
};
// "2:4": the fewest and the most. Throws Error.
ElasticRanks parse_elastic(std::string_view text);

// What a person may say about launching on the command line.
struct LaunchOptions {
  int ranks = 0;  // -n; 0: not said
  std::optional<Launcher> launcher;
  std::string transport;  // "shm", "tcp", "mpi"; empty: chosen
  DeviceLinks device_links = DeviceLinks::through_host;
  double timeout_seconds = 120;  // of one operation; every other wait derives from it
  enum class Bind : uint8_t { processors, none } bind = Bind::processors;  // of ranks that -n starts
  std::optional<EmulatedLink> link;     // slower than the one that is there; none: as it is
  EmulatedLinks links = nullptr;        // in its place: by pairs of ranks, equal on all of them
  std::string secret_file;              // where no launcher hands the secret over, in place of TRIREME_SECRET
  int restarts = 0;                     // of all ranks that -n started, after one was lost (restarts.h)
  std::optional<ElasticRanks> elastic;  // of -n, whose number is `most`
  std::string memory;    // the folder of the job's memory (job_memory.h), for ranks that -n starts
  int needed_ranks = 0;  // those from here on may be lost, and the others go on; 0: all are needed
  std::vector<std::string> arguments = {};  // of ranks that -n starts, with the program's name; none: its own
  // Called by the launcher of -n after a rank was lost or stuck, with the last operations of each.
  std::function<void(const FlightRecord&)> on_loss = nullptr;

  void validate() const;  // throws Error
};

// What the local launcher hands to its ranks by inheritance. -1: nothing.
struct Inherited {
  int secret = -1;    // descriptors
  int listener = -1;  // where ranks meet; rank 0 alone has it
  int recorder = -1;  // memory of the flight recorder
};

// Why the ranks of a job were started again.
struct StartedAgain {
  double since = 0;  // when the launcher knew, in seconds since 1970
  std::string why;   // "rank 2 was killed by signal 9 (Killed)"
};

struct LaunchEnvironment {
  Launcher launcher = Launcher::none;
  bool starts_ranks = false;  // this process is not a rank: it is to start `ranks` of them
  int rank = 0;
  int ranks = 1;
  std::string address;  // host:port where the ranks meet; empty where MPI brings them together, and for one
  Inherited inherited;
  std::optional<std::string> secret;  // TRIREME_SECRET, for ranks that no launcher of ours started
  int processors = 0;                 // that the launcher has bound this rank to; 0: it is not bound
  std::string memory;                 // a folder of the job in memory (job_memory.h); "": it has none
  std::optional<StartedAgain> again;  // nothing for the first start
  std::string found;  // the variables that decided, for messages: "OMPI_COMM_WORLD_RANK=1, …"; may be empty

  // "trireme -n", "mpirun (Open MPI)", "srun", "torchrun's variables", "no launcher"
  std::string launched_by;
};

// The value of an environment variable. A function, so that detection can be tested.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
Variables process_variables();

// Pure. Variables that are set by half or contradict each other are refused, with what was found.
LaunchEnvironment detect(const Variables& variables, const LaunchOptions& options);

}  // namespace trireme::comm
