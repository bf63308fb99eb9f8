// Finds the collectives that add up gradients, lets the methods take turns (exchange/method.h), and copies
// the rest of the graph behind them.
#include "trireme/passes/exchange.h"

#include <algorithm>
#include <memory>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/part.h"
#include "trireme/exchange/choice.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

constexpr std::string_view kCount = "accumulated.count", kLossScale = "loss_scale", kStep = "step",
                           kScale = "scale";

// A sum of a gradient's addends that a method takes the place of.
struct Target {
  ValueId gradient = kNoValue;   // the state
  std::vector<int> adders = {};  // nodes between it and the sum: several stages share the weight
  int node = -1;
  std::string parameter;
  const ExchangeChoice* choice = nullptr;
  std::vector<int> stages = {};  // that have the parameter
  std::unique_ptr<Addend> addend = nullptr;
  NextMove next = {};
};

class Exchanger {
 public:
  Exchanger(const Graph& graph, const Graph& whole, const Plan& plan, const Pins& pins, int rank,
            const OpTable& ops, const StateStages& stages, int64_t until)
      : graph_(graph),
        whole_(whole),
        mesh_(plan.mesh),
        pins_(pins),
        stages_(stages),
        axis_name_(replica_axis(plan.mesh)),
        axis_(plan.mesh.find(axis_name_)),
        choices_(exchange_choices(plan.agreement)),
        copy_(graph, ops, until == 0 ? graph.name : fmt::format("{}_until_{}", graph.name, until)),
        b_(copy_.builder()) {
    common_.until = until;
    common_.ranks = mesh_.axes()[axis_].size;
    common_.rank = mesh_.coordinate(rank, axis_);
    members_ = mesh_.members(rank, axis_);
    find_targets();
  }

  bool has_work() const { return !targets_.empty(); }

  Graph run() {
    copy_.declare_all();
    for (const Target& target : targets_) {
      for (const int adder : target.adders) copy_.add(node(adder));
    }
    {
      const Builder::Scope scope(b_, "exchange");
      add_common();
      begin_turns();
      while (std::ranges::any_of(targets_, &Exchanger::is_open)) take_turns();
      agree();
    }
    copy_rest();
    for (const Target& target : targets_) {
      for (const Addend::Kept& one : target.addend->kept()) kept_[one.name] = together(target, one);
    }
    return b_.take();
  }

  const KeptStates& kept() const { return kept_; }

 private:
  const Node& node(int n) const { return graph_.nodes[n]; }
  // Whether a node adds something up over ranks; and over the replicas.
  bool sums(int n) const {
    const auto& collective = node(n).op->collective;
    return collective &&
           (collective->kind == CollectiveKind::kAllReduce ||
            collective->kind == CollectiveKind::kReduceScatter) &&
           node(n).attrs.text("reduction", "") == "sum";
  }
  bool sums_over_replicas(int n) const { return sums(n) && node(n).attrs.text("axis") == axis_name_; }

  void find_targets() {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& gradient = graph_.values[v];
      const std::string of(gradient.attrs.text("of", ""));
      if (gradient.role != Role::kGradient || of.empty() || gradient.attrs.has("addend_of")) continue;
      const ValueId parameter = graph_.find(of);
      TRIREME_CHECK(parameter != kNoValue);
      // Its whole shape does not matter to the choice, only how many dims it has.
      const ExchangeChoice* choice = choice_for(choices_, graph_.values[parameter], gradient.type.shape);
      if (!choice) continue;
      Target& target = targets_.emplace_back();
      target.gradient = static_cast<ValueId>(v);
      target.parameter = of;
      target.choice = choice;
      if (const auto holders = stages_.find(of); holders != stages_.end()) target.stages = holders->second;
      find_sum(target);
    }
    std::ranges::stable_sort(targets_, {}, &Target::node);
  }

  // The one node that adds up the gradient's addends.
  void find_sum(Target& target) const {
    const Value& value = graph_.values[target.gradient];
    const Layout rest = state_layout(pins_, value, mesh_).rest;
    for (size_t a = 0; a < rest.size(); ++a) {
      if (static_cast<int>(a) != axis_ && rest[a].is_partial())
        throw_error(
            "the plan has an exchange for {}, whose gradient is also added up over the axis {}; what a "
            "method leaves out of addends of addends is not kept yet. Name other parameters (\"for\"), or "
            "use another preset",
            value.attrs.text("of"), mesh_.axes()[a].name);
    }
    if (!rest[static_cast<size_t>(axis_)].is_partial())
      throw_error(
          "the plan has an exchange for {}, which its layout splits over the axis {}, so that ranks have "
          "no addends of its gradient to agree on. Name other parameters (\"for\"), or take the layout away",
          value.attrs.text("of"), axis_name_);
    const Shape& shape = whole_.type(whole_.find(value.name)).shape;
    if (local_shape(shape, rest, mesh_, 0) != local_shape(shape, rest, mesh_, mesh_.ranks() - 1))
      throw_error(
          "the plan has an exchange for {} {}, of which ranks have parts of different sizes under {}; what "
          "they keep would not be of one shape. Use sizes that divide evenly, or name other parameters "
          "(\"for\")",
          value.attrs.text("of"), to_string(shape), to_string(rest, mesh_));
    const auto readers = graph_.readers();
    ValueId addend = target.gradient;
    for (;; addend = node(target.adders.back()).outputs[0]) {
      TRIREME_CHECK((readers[addend].size() == 1));
      target.node = readers[addend][0];
      if (sums_over_replicas(target.node)) return;
      TRIREME_CHECK((value.attrs.has("addends")));
      target.adders.push_back(target.node);
    }
  }

  // What all methods read, first of all.
  void add_common() {
    const auto given = [&](std::string_view name) {
      const ValueId found = graph_.find(name);
      TRIREME_CHECK(found != kNoValue);
      return found;
    };
    ValueId count = given(kCount);  // and then its sum over one axis after the other
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (node(static_cast<int>(n)).inputs[0] != count || !sums(static_cast<int>(n))) continue;
      copy_.add(graph_.nodes[n]);
      count = graph_.nodes[n].outputs[0];
    }
    TRIREME_CHECK((count != given(kCount)));
    common_.count = copy_[count];
    common_.loss_scale = copy_[given(kLossScale)];
    common_.step = copy_[given(kStep)];
    common_.unit = b_.op("mul", {common_.count, common_.loss_scale}, {}, "exchange/unit");
    for (const Target& target : targets_) {
      const ValueId part = b_.op("sum_squares", {gradient_of(target)});
      common_.local_squares =
          common_.local_squares == kNoValue ? part : b_.op("add", {common_.local_squares, part});
    }
    // 0, or NaN where a gradient of any rank is not finite.
    finite_ = b_.op("affine", {summed(common_.local_squares)}, {{"scale", 0.0}}, "exchange/finite");
  }

  ValueId gradient_of(const Target& target) const { return copy_[node(target.node).inputs[0]]; }

  Attrs collective_attrs() const {
    return {{"axis", std::string(axis_name_)}, {"ways", common_.ranks}, {"coordinate", common_.rank}};
  }

  ValueId summed(ValueId value, std::string_view reduction = "sum") {
    Attrs attrs = collective_attrs();
    attrs.set("reduction", std::string(reduction));
    return b_.op("all_reduce", {value}, attrs);
  }

  void begin_turns() {
    for (Target& target : targets_) {
      const Builder::Scope scope(b_, target.parameter);
      target.addend = std::make_unique<Addend>(b_, common_, target.choice->settings, target.parameter,
                                               gradient_of(target));
      target.next = target.choice->method->begin(*target.addend);
    }
  }

  static bool is_open(const Target& target) { return target.next.agreed == kNoValue; }

  // What all have to send, and then what each does with what came back.
  void take_turns() {
    std::set<std::vector<int>> holders;
    for (const Target& target : targets_) holders.insert(target.stages);
    std::vector<std::vector<ValueId>> received(targets_.size());
    for (const Move move : {Move::kSum, Move::kMax, Move::kGather, Move::kDeal, Move::kShift}) {
      for (const std::vector<int>& stages : holders) {
        std::vector<std::vector<ValueId>*> to;
        std::vector<ValueId> sent;
        for (size_t t = 0; t < targets_.size(); ++t) {
          if (!is_open(targets_[t]) || targets_[t].next.move != move || targets_[t].stages != stages)
            continue;
          for (ValueId value : targets_[t].next.sent) {
            sent.push_back(value);
            to.push_back(&received[t]);
          }
        }
        const std::vector<ValueId> moved = this->moved(move, sent);
        for (size_t i = 0; i < moved.size(); ++i) to[i]->push_back(moved[i]);
      }
    }
    for (size_t t = 0; t < targets_.size(); ++t) {
      if (!is_open(targets_[t])) continue;
      const Builder::Scope scope(b_, targets_[t].parameter);
      targets_[t].next = targets_[t].next.then(received[t]);
    }
  }

  // In their order. Sums stand next to one another, and bucket joins them.
  std::vector<ValueId> moved(Move move, const std::vector<ValueId>& sent) {
    std::vector<ValueId> result(sent.size(), kNoValue);
    if (move == Move::kSum || move == Move::kMax) {
      for (size_t i = 0; i < sent.size(); ++i)
        result[i] = summed(sent[i], move == Move::kSum ? "sum" : "max");
      return result;
    }
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i32, DType::u8}) {
      std::vector<size_t> of_type;
      for (size_t i = 0; i < sent.size(); ++i) {
        if (b_.type(sent[i]).dtype == dtype) of_type.push_back(i);
      }
      if (!of_type.empty()) move_together(move, sent, of_type, result);
    }
    return result;
  }

  ValueId reshaped(ValueId value, const std::vector<int64_t>& shape) {
    return b_.op("reshape", {value}, {{"shape", shape}});
  }

  // Tensors of one type side by side, rows from the ranks or for them.
  void move_together(Move move, const std::vector<ValueId>& sent, const std::vector<size_t>& which,
                     std::vector<ValueId>& result) {
    const int64_t ranks = common_.ranks, rows = move == Move::kDeal ? ranks : 1;
    std::vector<ValueId> parts;
    std::vector<int64_t> sizes;
    int64_t total = 0;
    for (const size_t i : which) {
      sizes.push_back(b_.shape(sent[i]).elements() / rows);
      total += sizes.back();
      parts.push_back(move == Move::kDeal ? sent[i] : reshaped(sent[i], {1, sizes.back()}));
    }
    const ValueId joined = parts.size() == 1 ? parts[0] : b_.op("concat", parts, {{"dim", int64_t{1}}});
    Attrs attrs = collective_attrs();
    ValueId all = kNoValue;
    if (move == Move::kGather) {
      attrs.set("dim", int64_t{0});
      attrs.set("extent", ranks);
      all = b_.op("all_gather", {joined}, attrs);
    } else if (move == Move::kShift) {
      attrs.set("to", int64_t{members_[(common_.rank + 1) % ranks]});
      attrs.set("from", int64_t{members_[(common_.rank + ranks - 1) % ranks]});
      all = b_.op("shift", {joined}, attrs);
    } else {
      attrs.set("dim", int64_t{1});
      attrs.set("extent", ranks);
      attrs.set("to_dim", int64_t{0});
      all = reshaped(b_.op("all_to_all", {reshaped(joined, {ranks, 1, total})}, attrs), {ranks, total});
    }
    const std::vector<ValueId> apart = parts.size() == 1
                                           ? std::vector{all}
                                           : b_.node("split", {all}, {{"dim", int64_t{1}}, {"sizes", sizes}});
    for (size_t i = 0; i < which.size(); ++i)
      result[which[i]] = move == Move::kShift ? reshaped(apart[i], {sizes[i]}) : apart[i];
  }

  // The results take the places of the sums; the smallest of them carries whether all is finite.
  void agree() {
    const auto smallest = std::ranges::min_element(
        targets_, {}, [&](const Target& target) { return target.addend->elements(); });
    for (Target& target : targets_) {
      const Builder::Scope scope(b_, target.parameter);
      TRIREME_CHECK(b_.type(target.next.agreed) == b_.type(gradient_of(target)));
      ValueId sum = target.next.agreed;
      if (&target == &*smallest) sum = b_.op("add", {sum, finite_});
      copy_.set(node(target.node).outputs[0], own_part(target, sum));
    }
  }

  // Where the optimizer's states are split, the part of the sum that this rank updates with.
  ValueId own_part(const Target& target, ValueId sum) {
    const Attrs& attrs = node(target.node).attrs;
    if (node(target.node).op->collective->kind == CollectiveKind::kAllReduce) return sum;
    if (attrs.integer("blocks", 1) != 1)
      throw_error(
          "the exchange for {}: its gradient is split over data in blocks, which is not done yet; name other "
          "parameters (\"for\")",
          target.parameter);
    const int64_t dim = attrs.integer("dim"), unit = attrs.integer("unit", 1);
    const Part part = part_of(b_.shape(sum)[static_cast<int>(dim)] / unit, common_.ranks, common_.rank);
    return b_.op("slice", {sum}, {{"dim", dim}, {"start", part.begin * unit}, {"size", part.size * unit}});
  }

  void copy_rest() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!copy_.has(graph_.nodes[n].outputs[0])) copy_.add(graph_.nodes[n]);
    }
    copy_.finish();
    const auto scale = std::ranges::find(b_.graph().outputs, kScale, &Output::name);
    TRIREME_CHECK(scale != b_.graph().outputs.end());
    const ValueId skipped_by = scale->value;
    ValueId rest = kNoValue;  // squares
    const Builder::Scope scope(b_, "exchange");
    for (const Target& target : targets_) {
      const Builder::Scope inner(b_, target.parameter);
      for (const Addend::Kept& one : target.addend->kept()) {
        TRIREME_CHECK(one.next != kNoValue);
        const ValueId renewed = b_.op("renew", {one.state, one.next, skipped_by});
        b_.update(one.state, renewed);
        if (one.what != Addend::Kept::What::kRest) continue;
        const ValueId part = b_.op("sum_squares", {renewed});
        rest = rest == kNoValue ? part : b_.op("add", {rest, part});
      }
    }
    if (rest != kNoValue) b_.output(kResidualSquares, rest);
    debug_verify(b_.graph());
  }

  // One for each rank that has its own: along the replicas, and along the axes that split the gradient.
  KeptState together(const Target& target, const Addend::Kept& kept) const {
    const Layout gradient = state_layout(pins_, graph_.values[target.gradient], mesh_).rest;
    KeptState result{b_.shape(kept.state), replicated(mesh_)};
    int64_t owners = 1;
    for (size_t a = 0; a < gradient.size(); ++a) {
      const bool own = static_cast<int>(a) == axis_ ? kept.of == Addend::Kept::Of::kRank
                                                    : gradient[a].kind == Placement::Kind::kSplit;
      if (!own) continue;
      result.layout[a] = Placement::split(0);
      owners *= mesh_.axes()[a].size;
    }
    result.whole.set(0, owners);
    return result;
  }

  const Graph &graph_, &whole_;
  const Mesh& mesh_;
  const Pins& pins_;
  const StateStages& stages_;
  std::string_view axis_name_;
  int axis_;
  std::vector<int> members_;  // the ranks of the mesh along it
  std::vector<ExchangeChoice> choices_;
  GraphCopy copy_;
  Builder& b_;  // of the copy
  Addend::Common common_;
  std::vector<Target> targets_;  // in the order of the graph
  ValueId finite_ = kNoValue;
  KeptStates kept_;
};

}  // namespace

Graph exchange(const Graph& graph, const Graph& whole, const Plan& plan, const Pins& pins, int rank,
               const OpTable& ops, const StateStages& stages, KeptStates* kept, int64_t until) {
  if (plan.agreement.is_dense()) return graph;
  Exchanger exchanger(graph, whole, plan, pins, rank, ops, stages, until);
  if (!exchanger.has_work()) return graph;
  Graph result = exchanger.run();
  if (kept) kept->insert(exchanger.kept().begin(), exchanger.kept().end());
  return result;
}

}  // namespace trireme
