// How long collectives take along the axes of a mesh, and over which links their bytes go. In two ways that
// agree on an idle network: closed forms (comm/collective/formula.h), and the Steps themselves against a
// clock (comm/collective/cost.h), message by message.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/collective/steps.h"
#include "trireme/ir/collective.h"
#include "trireme/mesh/device_map.h"

namespace trireme::sim {

enum class CollectiveModel {
  kClosedForms,
  kSteps,
  // The Steps that fixed rules choose (comm/collective/choice.h), in segments, with several collectives under
  // way together: as comm/ runs them where nothing was measured.
  kAsRun,
};

// Of an all_to_all: whether all ranks give all others as much.
enum class Parts { kEqual, kUnequal };

// By axis; automatic, and an axis that is not named, is the fastest by the closed forms, but of an all_to_all
// what runs where nothing was measured.
using Algorithms = std::map<std::string, comm::Algorithm, std::less<>>;

// Bytes, or seconds, by Reach.
using PerReach = std::array<double, 3>;

class CollectiveTimes {
 public:
  // The map must outlive it. Throws Error for an algorithm that there is no Steps for.
  CollectiveTimes(const DeviceMap& device_map, CollectiveModel model, Algorithms algorithms);

  // Groups whose members see the same paths are of one class; of the group of `rank` along an axis.
  int group_class(int rank, int axis);

  // Of a vector of so many bytes: what all_reduce and reduce_scatter are given, what all_gather makes, what
  // one rank gives to all_to_all. Unequal parts of an all_to_all can not be passed on in two levels.
  double seconds(int group_class, CollectiveKind kind, double bytes, Parts parts = Parts::kEqual);
  // How long one of which a rank sends so many bytes keeps those behind it from beginning.
  double busy_seconds(int group_class, CollectiveKind kind, double bytes, double sent);
  // Bytes that a rank sends beside its own part in the collective: what it passes on for others, in an
  // all_to_all of two levels.
  double passed_on_bytes(int group_class, CollectiveKind kind, double bytes, Parts parts = Parts::kEqual);
  // How `sent` bytes of a rank, on average over the group, go over links, and those that it passes on.
  PerReach reaches(int group_class, CollectiveKind kind, double bytes, double sent,
                   Parts parts = Parts::kEqual);
  double slowdown(int group_class) const { return groups_[group_class].slowdown; }

 private:
  struct Group {
    std::vector<int> members;
    std::vector<int> hosts, leaves;              // of members, numbered from 0
    std::vector<const HostClass*> host_classes;  // of members
    comm::Algorithm algorithm = comm::Algorithm::automatic;
    Path inside, widest;  // the slowest of the paths inside hosts, and of all
    int per_host = 1;     // members on each host; 0 where hosts have different numbers of them
    double slowdown = 0;
    PerReach edges = {};  // of a ring, by reach, as shares of one
    PerReach pairs = {};  // of all ranks with all others, likewise

    int ranks() const { return static_cast<int>(hosts.size()); }
    int host_count() const { return hosts.back() + 1; }
    bool has_levels() const { return per_host > 1 && host_count() > 1; }
    // Whether its all_reduces may be added up in the switches of its host.
    bool has_adding_switches() const {
      return widest.reach == Reach::kInside && inside.all_reduce_beta_seconds_per_byte > 0 &&
             algorithm == comm::Algorithm::automatic;
    }
    // Members of both have the same paths between them.
    bool is_like(const Group& other) const;
  };
  Group make_group(const std::vector<int>& members, int axis) const;
  std::vector<int> representatives(const Group& group) const;
  Path path(const Group& group, int from, int to) const {
    return map_.path(group.members[from], group.members[to]);
  }
  double closed_seconds(const Group& group, comm::Collective collective, comm::Algorithm algorithm,
                        double bytes) const;
  static double two_level_seconds(const Group& group, comm::Collective collective, double bytes,
                                  const Path& within, const Path& between);
  static double switch_seconds(const Group& group, double bytes);
  double steps_seconds(const Group& group, comm::Collective collective, comm::Algorithm algorithm,
                       double bytes) const;
  double run_seconds(const Group& group, comm::Collective collective, double bytes, Parts parts) const;
  std::vector<comm::Algorithm> candidates(const Group& group, comm::Collective collective) const;
  static std::optional<comm::Algorithm> named(const Group& group, comm::Collective collective, Parts parts);
  comm::Algorithm fastest(const Group& group, comm::Collective collective, double bytes, Parts parts) const;
  comm::Choice as_run(const Group& group, comm::Collective collective, double bytes, Parts parts) const;
  comm::Algorithm chosen(const Group& group, CollectiveKind kind, double bytes, Parts parts) const;
  bool has_two_levels(const Group& group, CollectiveKind kind, double bytes, Parts parts) const;

  const DeviceMap& map_;
  CollectiveModel model_;
  Algorithms algorithms_;
  std::vector<Group> groups_;
  std::map<std::pair<int, int>, int> class_of_;  // (first member, axis) -> group class
  std::map<std::tuple<int, CollectiveKind, double, Parts>, double> known_;
};

// A collective of a program in the words of comm/.
comm::Collective collective_of(CollectiveKind kind);

}  // namespace trireme::sim
