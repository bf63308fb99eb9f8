// See stage_update.h. A value can be made by the stages that have all states it is made of. A number that a
// stage needs and another one can make earlier is gathered; all else is made of its operands. Some numbers
// can only be made of gathered ones (a compressor's sums, which need the count of targets), so that there may
// be several rounds of gathering.
#include "trireme/passes/stage_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/ir/verify.h"
#include "trireme/mesh/mesh.h"

namespace trireme {
namespace {

class UpdateStager {
 public:
  UpdateStager(const Graph& graph, const StateStages& stages, int count, const OpTable& ops)
      : graph_(graph), stages_(stages), count_(count), ops_(ops) {
    find_rounds();
    find_needs();
  }

  StagedUpdate run(int stage) {
    stage_ = stage;
    copy_.emplace(graph_, ops_, graph_.name);
    borrowed_.clear();
    // Whoever gives inputs gives them to all stages alike.
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].kind == Value::Kind::kInput) had(static_cast<ValueId>(v));
    }
    for (int round = 0; round < rounds(); ++round) {
      add_nodes(needs_for(gathered_of(stage_, round)));
      gather(round);
    }
    add_nodes(needs_[stage_]);
    for (const Update& update : graph_.updates) {
      if (has(stage_, update.state)) builder().update(had(update.state), had(update.value));
    }
    for (const Output& output : graph_.outputs) builder().output(output.name, had(output.value), output.role);
    debug_verify(builder().graph());
    return {copy_->take(), {borrowed_.begin(), borrowed_.end()}};
  }

 private:
  // Of a value, per stage: how many rounds of gathering it can be made behind.
  using Rounds = std::vector<int>;
  static constexpr int kNever = std::numeric_limits<int>::max();

  Builder& builder() { return copy_->builder(); }

  const std::vector<int>& stages_of(ValueId state) const { return *stages_of_[state]; }
  const std::vector<int>& find_stages_of(const Value& value) const {
    auto found = stages_.find(value.name);
    if (found == stages_.end()) found = stages_.find(value.attrs.text("of", ""));
    if (found == stages_.end())
      throw_error("no stage of the pipeline has %{}, which the update reads", value.name);
    return found->second;
  }
  bool has(int stage, ValueId state) const { return std::ranges::binary_search(stages_of(state), stage); }

  // Stages have their own states, and are sent addends: of the gradients of the parameters that they have.
  void find_rounds() {
    rounds_.assign(graph_.values.size(), Rounds(count_, 0));
    stages_of_.resize(graph_.values.size());
    tellers_.resize(graph_.values.size());
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.kind != Value::Kind::kState) continue;
      stages_of_[v] = &find_stages_of(value);
      for (int s = 0; s < count_; ++s) rounds_[v][s] = has(s, static_cast<ValueId>(v)) ? 0 : kNever;
      if (value.role != Role::kGradient) continue;
      if (const auto of = stages_.find(value.attrs.text("of", "")); of != stages_.end()) {
        for (int s : of->second) rounds_[v][s] = 0;
      }
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) note_first(static_cast<ValueId>(v));
    for (const Node& node : graph_.nodes) {
      Rounds made(count_, 0);
      for (ValueId input : node.inputs) {
        const int told = is_number(input) && first_round(input) != kNever ? first_round(input) + 1 : kNever;
        for (int s = 0; s < count_; ++s) made[s] = std::max(made[s], std::min(rounds_[input][s], told));
      }
      for (ValueId output : node.outputs) {
        rounds_[output] = made;
        note_first(output);
      }
    }
  }

  bool is_number(ValueId value) const {
    const TensorType& type = graph_.values[value].type;
    return type.shape.elements() == 1 && type.dtype == DType::f32;
  }
  int first_round(ValueId value) const { return rounds_[value][static_cast<size_t>(tellers_[value])]; }
  // The stage that tells the others a number.
  int teller(ValueId value) const { return tellers_[value]; }
  void note_first(ValueId value) {
    tellers_[value] = static_cast<int>(std::ranges::min_element(rounds_[value]) - rounds_[value].begin());
  }
  // How many rounds there are.
  int rounds() const {
    int most = 0;
    for (ValueId value : gathered_) most = std::max(most, first_round(value) + 1);
    return most;
  }

  // Numbers that stages get from others may depend on numbers of still others.
  void find_needs() {
    size_t known = 0;
    do {
      known = gathered_.size();
      needs_.clear();
      for (int s = 0; s < count_; ++s) find_needs(s);
    } while (gathered_.size() > known);
  }

  // What a stage must be told by others: all numbers, or gradients.
  void find_needs(int stage) {
    std::vector<bool>& needed = needs_.emplace_back(graph_.values.size());
    const auto need = [&](ValueId value) {
      const Value& what = graph_.values[value];
      const int first = first_round(value);
      if (is_number(value) && first < rounds_[value][stage]) {
        gathered_.insert(value);
        return;
      }
      if (rounds_[value][stage] == kNever && what.kind == Value::Kind::kState && what.role != Role::kGradient)
        throw_error(
            "stage {} of the pipeline needs the {} %{} of stage {} in the update; it can have numbers and "
            "gradients of others alone",
            stage, name(what.role), what.name, teller(value));
      needed[value] = true;
    };
    for (const Update& update : graph_.updates) {
      if (has(stage, update.state)) need(update.value);
    }
    for (const Output& output : graph_.outputs) need(output.value);
    for (ValueId value : gathered_) {
      if (teller(value) == stage) need(value);
    }
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      if (std::ranges::any_of(node.outputs, [&](ValueId output) { return needed[output]; })) {
        for (ValueId input : node.inputs) need(input);
      }
    }
  }

  // The numbers that a stage sends to the others in a round.
  std::vector<ValueId> gathered_of(int stage, int round) const {
    std::vector<ValueId> result;
    for (ValueId value : gathered_) {
      if (teller(value) == stage && first_round(value) == round) result.push_back(value);
    }
    return result;
  }

  // What must be there for `values`, which this stage can make, and is not yet.
  std::vector<bool> needs_for(const std::vector<ValueId>& values) const {
    std::vector<bool> needed(graph_.values.size());
    for (ValueId value : values) needed[value] = true;
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      if (copy_->has(node.outputs[0]) ||
          std::ranges::none_of(node.outputs, [&](ValueId output) { return needed[output]; }))
        continue;
      for (ValueId input : node.inputs) needed[input] = true;
    }
    return needed;
  }

  void add_nodes(const std::vector<bool>& needed) {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (copy_->has(node.outputs[0])) continue;
      if (std::ranges::none_of(node.outputs, [&](ValueId output) { return needed[output]; })) continue;
      for (ValueId input : node.inputs) had(input);
      // What several stages add up, of a weight that they all have, must come out the same on all of them. In
      // one bucket with others it would lie at another place on each, and an algorithm may add in another
      // order there.
      Attrs attrs = node.attrs;
      if (node.op->collective && is_made_by_several(node.outputs[0]))
        attrs.set("alone", static_cast<int64_t>(n));
      const std::vector<ValueId> results = builder().copy(graph_, node, copy_->inputs_of(node), attrs);
      for (size_t o = 0; o < results.size(); ++o) {
        if (!copy_->has(node.outputs[o])) copy_->set(node.outputs[o], results[o]);  // else it was gathered
      }
    }
  }

  bool is_made_by_several(ValueId value) const {
    return std::ranges::count(rounds_[value], first_round(value)) > 1;
  }

  // Each stage's part has as many numbers, so that each begins at a known place.
  void gather(int round) {
    const std::string scope = round == 0 ? "of_stages" : fmt::format("of_stages.{}", round);
    std::vector<std::vector<ValueId>> of;
    for (int s = 0; s < count_; ++s) of.push_back(gathered_of(s, round));
    size_t most = 0;
    for (const auto& values : of) most = std::max(most, values.size());
    std::vector<ValueId> own;
    const auto flat = [&](ValueId local) {
      return builder().op("reshape", {local}, {{"shape", std::vector<int64_t>{1}}}, scope + "/number");
    };
    for (ValueId value : of[stage_]) own.push_back(flat(had(value)));
    if (own.empty()) own.push_back(flat(had(filler())));
    while (own.size() < most) own.push_back(own[0]);
    const int64_t all = static_cast<int64_t>(most) * count_;
    const ValueId mine =
        own.size() == 1 ? own[0] : builder().op("concat", own, {{"dim", int64_t{0}}}, scope + "/own");
    const ValueId gathered = builder().op("all_gather", {mine},
                                          {{"axis", std::string(kPipeAxis)},
                                           {"ways", int64_t{count_}},
                                           {"coordinate", int64_t{stage_}},
                                           {"dim", int64_t{0}},
                                           {"extent", all}},
                                          scope + "/all_gather");
    const std::vector<ValueId> numbers =
        builder().node("split", {gathered},
                       {{"dim", int64_t{0}}, {"sizes", std::vector<int64_t>(static_cast<size_t>(all), 1)}},
                       scope + "/split");
    for (int s = 0; s < count_; ++s) {
      for (size_t i = 0; i < of[s].size(); ++i) {
        const Shape& shape = graph_.type(of[s][i]).shape;
        copy_->set(of[s][i], builder().op("reshape", {numbers[s * most + i]},
                                          {{"shape", std::vector<int64_t>(shape.begin(), shape.end())}},
                                          graph_.values[of[s][i]].name + ".all_gather.pipe"));
      }
    }
  }

  // A number that every stage has; nobody reads it.
  ValueId filler() const {
    const auto found = std::ranges::find(graph_.values, Role::kScalar, &Value::role);
    TRIREME_CHECK(found != graph_.values.end());
    return static_cast<ValueId>(found - graph_.values.begin());
  }

  ValueId had(ValueId value) {
    if (copy_->has(value)) return (*copy_)[value];
    const Value& what = graph_.values[value];
    TRIREME_CHECK((what.kind != Value::Kind::kResult));
    if (what.kind == Value::Kind::kState && !has(stage_, value))
      borrowed_.insert({what.name, stages_of(value).front()});
    return copy_->declare(value);
  }

  const Graph& graph_;
  const StateStages& stages_;
  int count_, stage_ = 0;
  const OpTable& ops_;
  std::optional<GraphCopy> copy_;                   // of the stage under way
  std::vector<const std::vector<int>*> stages_of_;  // per value; of states alone
  std::vector<Rounds> rounds_;                      // per value
  std::vector<int> tellers_;                        // per value: the first stage that can make it
  std::vector<std::vector<bool>> needs_;            // per stage: values
  std::set<ValueId> gathered_;                      // by all stages, whoever needs them
  std::set<StagedUpdate::Borrowed> borrowed_;
};

}  // namespace

std::vector<StagedUpdate> stage_updates(const Graph& graph, const StateStages& stages, int count,
                                        const OpTable& ops) {
  UpdateStager stager(graph, stages, count, ops);
  std::vector<StagedUpdate> result;
  for (int stage = 0; stage < count; ++stage) result.push_back(stager.run(stage));
  return result;
}

}  // namespace trireme
