// See stage_update.h. A value can be made by the stages that have all states it is made of. What a stage
// needs and can not make is gathered, if another stage can make it; else it is made of its operands.
#include "trireme/passes/stage_update.h"

#include <fmt/format.h>

#include <algorithm>
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
    find_makers();
    for (int s = 0; s < count; ++s) find_needs(s);
  }

  StagedUpdate run(int stage) {
    stage_ = stage;
    copy_.emplace(graph_, ops_, graph_.name);
    borrowed_.clear();
    // Whoever gives inputs gives them to all stages alike.
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].kind == Value::Kind::kInput) had(static_cast<ValueId>(v));
    }
    if (!gathered_.empty()) {
      add_nodes(needs_for(gathered_of(stage_)));
      gather();
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
  using Set = std::vector<bool>;  // of stages

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

  // Which stages can make each value of their own states, and of the addends that they are sent: of the
  // gradients of the parameters that they have.
  void find_makers() {
    makers_.assign(graph_.values.size(), Set(count_, true));
    stages_of_.resize(graph_.values.size());
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.kind != Value::Kind::kState) continue;
      stages_of_[v] = &find_stages_of(value);
      for (int s = 0; s < count_; ++s) makers_[v][s] = has(s, static_cast<ValueId>(v));
      if (value.role != Role::kGradient) continue;
      if (const auto of = stages_.find(value.attrs.text("of", "")); of != stages_.end()) {
        for (int s : of->second) makers_[v][s] = true;
      }
    }
    for (const Node& node : graph_.nodes) {
      for (ValueId output : node.outputs) {
        for (ValueId input : node.inputs) {
          for (int s = 0; s < count_; ++s) makers_[output][s] = makers_[output][s] && makers_[input][s];
        }
      }
    }
  }

  // The first stage that can make a value; −1 where none can alone.
  int maker(ValueId value) const {
    const auto found = std::ranges::find(makers_[value], true);
    return found == makers_[value].end() ? -1 : static_cast<int>(found - makers_[value].begin());
  }

  // What a stage must be told by others: all numbers, or gradients.
  void find_needs(int stage) {
    std::vector<bool>& needed = needs_.emplace_back(graph_.values.size());
    const auto need = [&](ValueId value) {
      const Value& what = graph_.values[value];
      const bool own = makers_[value][stage] || maker(value) < 0;
      if (!own && what.type.shape.elements() == 1 && what.type.dtype == DType::f32) {
        gathered_.insert(value);
        return;
      }
      if (!own && what.kind == Value::Kind::kState && what.role != Role::kGradient)
        throw_error(
            "stage {} of the pipeline needs the {} %{} of stage {} in the update; it can have numbers and "
            "gradients of others alone",
            stage, name(what.role), what.name, maker(value));
      needed[value] = true;
    };
    for (const Update& update : graph_.updates) {
      if (has(stage, update.state)) need(update.value);
    }
    for (const Output& output : graph_.outputs) need(output.value);
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      if (std::ranges::any_of(node.outputs, [&](ValueId output) { return needed[output]; })) {
        for (ValueId input : node.inputs) need(input);
      }
    }
  }

  // The numbers that others are told by a stage.
  std::vector<ValueId> gathered_of(int stage) const {
    std::vector<ValueId> result;
    for (ValueId value : gathered_) {
      if (maker(value) == stage) result.push_back(value);
    }
    return result;
  }

  // What must be there for `values`, which this stage can make.
  std::vector<bool> needs_for(const std::vector<ValueId>& values) const {
    std::vector<bool> needed(graph_.values.size());
    for (ValueId value : values) needed[value] = true;
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      if (std::ranges::none_of(node.outputs, [&](ValueId output) { return needed[output]; })) continue;
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
      if (node.op->collective && std::ranges::count(makers_[node.outputs[0]], true) > 1)
        attrs.set("alone", static_cast<int64_t>(n));
      const std::vector<ValueId> results = builder().copy(graph_, node, copy_->inputs_of(node), attrs);
      for (size_t o = 0; o < results.size(); ++o) {
        if (!copy_->has(node.outputs[o])) copy_->set(node.outputs[o], results[o]);  // else it was gathered
      }
    }
  }

  // Each stage's part has as many numbers, so that each begins at a known place.
  void gather() {
    std::vector<std::vector<ValueId>> of;
    for (int s = 0; s < count_; ++s) of.push_back(gathered_of(s));
    size_t most = 0;
    for (const auto& values : of) most = std::max(most, values.size());
    std::vector<ValueId> own;
    const auto flat = [&](ValueId local) {
      return builder().op("reshape", {local}, {{"shape", std::vector<int64_t>{1}}}, "of_stages/number");
    };
    for (ValueId value : of[stage_]) own.push_back(flat(had(value)));
    if (own.empty()) own.push_back(flat(had(filler())));
    while (own.size() < most) own.push_back(own[0]);
    const int64_t all = static_cast<int64_t>(most) * count_;
    const ValueId mine =
        own.size() == 1 ? own[0] : builder().op("concat", own, {{"dim", int64_t{0}}}, "of_stages/own");
    const ValueId gathered = builder().op("all_gather", {mine},
                                          {{"axis", std::string(kPipeAxis)},
                                           {"ways", int64_t{count_}},
                                           {"coordinate", int64_t{stage_}},
                                           {"dim", int64_t{0}},
                                           {"extent", all}},
                                          "of_stages/all_gather");
    const std::vector<ValueId> numbers =
        builder().node("split", {gathered},
                       {{"dim", int64_t{0}}, {"sizes", std::vector<int64_t>(static_cast<size_t>(all), 1)}},
                       "of_stages/split");
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
  std::vector<Set> makers_;                         // per value
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
