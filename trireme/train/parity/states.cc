// See states.h.
#include "trireme/train/parity/states.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/train/parity/noise.h"
#include "trireme/train/state_reach.h"

namespace trireme::parity {
namespace {

// The nodes of all segments, one after another: when each state gets its first new value.
std::map<std::string, int> first_updates(const Program& program) {
  std::map<std::string, int> result;
  int before = 0;
  for (const Segment& segment : program.segments) {
    const Graph& graph = segment.graph;
    std::vector<int> maker(graph.values.size(), -1);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (ValueId output : graph.nodes[n].outputs) maker[output] = static_cast<int>(n);
    }
    for (const Update& update : graph.updates)
      result.emplace(graph.values[update.state].name, before + maker[update.value]);
    before += static_cast<int>(graph.nodes.size());
  }
  return result;
}

int coordinates_along(const std::vector<std::string>& axes, const Mesh& mesh, int rank) {
  int result = 0;
  for (const std::string& name : axes) {
    const int axis = mesh.axis(name);
    result = result * mesh.axes()[axis].size + mesh.coordinate(rank, axis);
  }
  return result;
}

// Whether the state is the rank's own, and not one that it gets from another stage.
bool has(const Mesh& mesh, int rank, const State& state) {
  const std::vector<int>& stages = state.part.stages;
  return stages.empty() ||
         std::ranges::find(stages, mesh.coordinate(rank, mesh.axis(kPipeAxis))) != stages.end();
}

}  // namespace

std::vector<std::string> states_of(const Program& program, StateGroup group) {
  const Graph& update = std::ranges::find(program.segments, SegmentKind::kUpdate, &Segment::kind)->graph;
  const std::map<std::string, int> order = first_updates(program);
  std::vector<std::pair<int, std::string>> found;
  for (const Value& value : update.values) {
    if (value.kind != Value::Kind::kState) continue;
    if (is_lasting(value.role) != (group == StateGroup::kLasting)) continue;
    const auto made = order.find(value.name);
    found.emplace_back(made == order.end() ? std::numeric_limits<int>::max() : made->second, value.name);
  }
  std::ranges::stable_sort(found, {}, &std::pair<int, std::string>::first);
  std::vector<std::string> names;
  for (auto& [when, name] : found) names.push_back(std::move(name));
  return names;
}

States read_states(Trainer& trainer, const std::vector<std::string>& names) {
  States states;
  for (const std::string& name : names)
    states[name] = read_numbers(trainer.executor(), *trainer.program().find_state(name));
  return states;
}

void write_states(Trainer& trainer, const States& states) {
  std::vector<float> local;
  for (const auto& [name, values] : states) {
    const State* slot = trainer.program().find_state(name);
    if (!slot) continue;  // another stage of a pipeline has it
    local.resize(slot->type.shape.elements());
    const std::vector<float>& whole = values;
    for_each_run(slot->part, [&](int64_t from, int64_t to, int64_t count) {
      std::copy_n(whole.begin() + from, count, local.begin() + to);
    });
    write_numbers(trainer.executor(), *slot, local);
  }
}

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return same(x, y); });
}

void Gathering::add(Trainer& trainer, const std::vector<std::string>& names, const Mesh& mesh, int rank) {
  for (const State& slot : trainer.program().states) {
    // Of a weight that several stages of a pipeline have, each adds up an addend of its own.
    const std::string name(slot.attrs.text("addend_of", slot.name));
    if (std::ranges::find(names, name) == names.end() || !has(mesh, rank, slot)) continue;
    const std::vector<float> local = read_numbers(trainer.executor(), slot);
    const size_t elements = static_cast<size_t>(slot.part.whole.elements());
    Addend& addend = states_[name][{slot.name, coordinates_along(slot.part.sums, mesh, rank)}];
    addend.unit = unit_in_last_place(slot.type.dtype);
    addend.values.resize(elements, std::numeric_limits<float>::quiet_NaN());
    addend.owner.resize(elements, -1);
    for_each_run(slot.part, [&](int64_t to, int64_t from, int64_t count) {
      for (int64_t i = 0; i < count; ++i) put(addend, to + i, local[from + i], rank, name);
    });
  }
}

void Gathering::add(const std::string& name, double value, int rank) {
  Addend& addend = states_[name][{name, 0}];
  addend.values.resize(1);
  addend.owner.resize(1, -1);
  put(addend, 0, static_cast<float>(value), rank, name);
}

void Gathering::put(Addend& addend, int64_t element, float value, int rank, const std::string& name) {
  float& known = addend.values[element];
  int& owner = addend.owner[element];
  if (owner >= 0 && !same(known, value) && disagreement_.empty()) {
    disagreement_ = fmt::format("rank {} has {} and rank {} has {} at element {} of {}", owner, known, rank,
                                value, element, name);
  }
  known = value;
  owner = rank;
}

States Gathering::whole() const {
  States result;
  for (const auto& [name, addends] : states_) {
    std::vector<double> sum(addends.begin()->second.values.size());
    for (const auto& [where, addend] : addends) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(addend.values[i]);
    }
    std::vector<float>& values = result[name];
    for (double value : sum) values.push_back(static_cast<float>(value));
    if (addends.size() == 1) values = addends.begin()->second.values;  // also keeps −0 what it is
  }
  return result;
}

States Gathering::reach() const {
  States result;
  for (const auto& [name, addends] : states_) {
    std::vector<float>& reach = result[name];
    reach.assign(addends.begin()->second.values.size(), 0);
    if (addends.size() == 1) continue;
    const double root = std::sqrt(static_cast<double>(addends.size()));
    for (const auto& [where, addend] : addends) {
      const auto factor = static_cast<float>(addend.unit * root);
      for (size_t i = 0; i < reach.size(); ++i) reach[i] += factor * std::abs(addend.values[i]);
    }
  }
  return result;
}

}  // namespace trireme::parity
