// Context: this rank's place in a job, and what the job runs on. Made once, from what launched the process;
// groups come from it. Nothing here is global: functions that need a context are given it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/collective/link_table.h"
#include "trireme/comm/engine/recorder.h"
#include "trireme/comm/group.h"
#include "trireme/comm/launch/environment.h"
#include "trireme/comm/transport/device_links.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

class Context {
 public:
  // What the launch made; see join() and run_rank_threads().
  struct Parts {
    std::shared_ptr<void> session;  // outlives the transport: MPI's
    std::shared_ptr<void> memory;   // of the recorder, which outlives it
    std::unique_ptr<Recorder> recorder;
    std::unique_ptr<Transport> transport;
    std::vector<int> hosts;  // number of each rank's host, from 0 in order of rank
    std::string launched_by;
    int processors = 0;  // that this rank is bound to, as the others are to as many; 0: not bound
    double timeout_seconds = 120;
    std::string link = {};  // that is emulated, for people; "": none
    DeviceLinks device_links = DeviceLinks::through_host;
  };
  explicit Context(Parts parts) : parts_(std::move(parts)) {}

  int rank() const { return parts_.transport->rank(); }
  int ranks() const { return parts_.transport->ranks(); }
  const std::vector<int>& hosts() const { return parts_.hosts; }
  int rank_here() const;  // its number among the ranks of its host, from 0
  Transport& transport() { return *parts_.transport; }
  Recorder& recorder() { return *parts_.recorder; }
  double timeout_seconds() const { return parts_.timeout_seconds; }
  DeviceLinks device_links() const { return parts_.device_links; }

  // What all groups made from here on choose and predict by. Equal on all ranks: see calibrate.h.
  void set_links(LinkTable links) { links_ = std::move(links); }

  // Collective over all ranks, and over the members. The order of members is that of the ranks in the group.
  // Groups with the same name and members may be made again: all members do so, equally often.
  Group world();
  Group group(const std::string& name, const std::vector<int>& members);
  // The number that tells a group from all others, for callers that make the group themselves. Called equally
  // often on all ranks.
  uint32_t number_group(const std::string& name, const std::vector<int>& members);

  // "4 ranks on 1 host, transport shm, launched by trireme -n, 2 processors each"
  std::string summary() const;

 private:
  Parts parts_;
  std::optional<LinkTable> links_;
  std::map<uint32_t, std::string> groups_;  // number -> what it was made from
  std::map<std::string, int> made_;         // how often
};

// As what this process was launched. Collective over all ranks of the job: returns when all have come and
// are connected. `environment` is a rank's.
Context join(const LaunchEnvironment& environment, const LaunchOptions& options);

// Runs `program` as what this process was launched: as a rank, with its context, or, for `-n RANKS`, as the
// launcher of copies of this process, or of threads where ranks exchange in the memory of one device. Returns
// an exit code. Rank 0 prints what was chosen.
int run_launched(const LaunchOptions& options, const std::function<int(Context&)>& program);

// Runs `program` on `ranks` threads with a context each, over a link that is emulated where one is
// given. Throws the first error, with its rank, when all have ended.
void run_rank_threads(int ranks, const std::function<void(Context&)>& program, double timeout_seconds = 60,
                      const std::optional<EmulatedLink>& link = {});

}  // namespace trireme::comm
