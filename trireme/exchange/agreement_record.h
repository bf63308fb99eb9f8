// What each kind of agreement (plan/agreement.h) makes of a rank's step: one record a kind, as method.h has
// one a method.
//
// Where ranks go on by themselves, they have different weights, running statistics and states of the
// optimizer. Whoever wants one model of them (a checkpoint, an evaluation) runs the list for `asked meet`,
// which keeps a rank's own aside and puts the means in their places, and afterwards the one for `asked part`,
// which puts them back. That for `asked begin` is for after the weights were set.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trireme/exchange/arrival_policy.h"
#include "trireme/ir/builder.h"
#include "trireme/mesh/layout.h"
#include "trireme/plan/agreement.h"
#include "trireme/schedule/action_list.h"
#include "trireme/schedule/step_segment.h"

namespace trireme {

// A state that is kept from step to step, as all ranks have it together: [replicas, …] where each replica has
// its own.
struct KeptState {
  Shape whole;
  Layout layout;
  std::string of = {};  // the state that it is kept beside, if one
};
using KeptStates = std::map<std::string, KeptState, std::less<>>;

// What a rank runs because of how ranks agree. The bytes that go with it are those of its lists.
struct AgreedSteps {
  std::optional<Graph> update = {};              // in the place of the rank's own
  std::vector<StepSegment> segments = {};        // besides
  std::vector<ActionList> lists = {};            // in the order in which those of one step are run
  std::optional<std::vector<Action>> step = {};  // of a server, which has no microbatches
  KeptStates kept = {};
  std::map<std::string, int, std::less<>> slots = {};  // of states that have several
};

struct AgreeingRank {
  const Agreement& agreement;
  std::span<const Graph> updates;  // the rank's own; where servers have it, the whole one of each server
  const Mesh& mesh;                // of the ranks of one stage, where there is a pipeline
  int rank;                        // there
  const OpTable& ops;
  // Where ranks have weights of their own. The ranks of the job that have the same parts as this one, in the
  // order of the replicas; how the states of its update lie; and those that another stage has too.
  std::vector<int> members = {};
  KeptStates states = {};
  std::set<std::string, std::less<>> shared = {};
};

struct AgreementRecord {
  Agreement::Kind kind;
  // Who has the states that last, and so what is in a checkpoint.
  enum class States {
    kAlike,   // all ranks have the same, or parts of the same: those, once
    kOwn,     // each rank has its own: the means (`asked meet`), and what each rank has kept aside
    kServed,  // servers have them, each those of some parameters; workers have none: the servers' alone
  } states;
  // Null: all that is added are nodes of the update (passes/exchange.h).
  AgreedSteps (*steps)(const AgreeingRank& rank);
  // For ranks that go by arrivals; null where none does.
  std::unique_ptr<ArrivalPolicy> (*policy)(const PolicyPlace& place, ListDriver& driver) = nullptr;
};

const AgreementRecord& record_of(const Agreement& agreement);

// What of a step a rank makes: a worker gradients, a server the update, everybody else both.
enum class StepHalf { kBoth, kGradients, kUpdate };
StepHalf step_half(const Agreement& agreement, int rank);
// Whether messages decide which list the rank runs next (arrival_policy.h).
bool goes_by_arrivals(const Agreement& agreement, int rank);
// The ranks that have all states that last, each some of them; none where every rank has some.
std::vector<int> keepers(const Agreement& agreement);
// The ranks that a job can lose and continue, where the transport supports that.
std::vector<int> dispensable_ranks(const Agreement& agreement);

AgreementRecord averaged_record();  // averaged.cc
AgreementRecord mixed_record();     // averaged.cc, with mixed.h
AgreementRecord served_record();    // served.cc

}  // namespace trireme
