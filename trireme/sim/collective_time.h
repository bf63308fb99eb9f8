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

// By axis; automatic, and an axis that is not named, is the fastest by the closed forms.
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
  // one rank gives to all_to_all.
  double seconds(int group_class, CollectiveKind kind, double bytes);
  // How long one of which a rank sends so many bytes keeps those behind it from beginning.
  double busy_seconds(int group_class, CollectiveKind kind, double bytes, double sent);
  // How `sent` bytes of a rank, on average over the group, go over links.
  PerReach reaches(int group_class, CollectiveKind kind, double bytes, double sent);
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
  double run_seconds(const Group& group, comm::Collective collective, double bytes) const;
  std::vector<comm::Algorithm> candidates(const Group& group, comm::Collective collective) const;
  static std::optional<comm::Algorithm> named(const Group& group, comm::Collective collective);
  comm::Algorithm fastest(const Group& group, comm::Collective collective, double bytes) const;

  const DeviceMap& map_;
  CollectiveModel model_;
  Algorithms algorithms_;
  std::vector<Group> groups_;
  std::map<std::pair<int, int>, int> class_of_;  // (first member, axis) -> group class
  std::map<std::tuple<int, CollectiveKind, double>, double> known_;
};

// A collective of a program in the words of comm/.
comm::Collective collective_of(CollectiveKind kind);

}  // namespace trireme::sim
