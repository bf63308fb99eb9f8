// Two steps. First it is decided which collectives belong together and in which slot each bucket starts and
// is waited for; slot i is the place before node i. Then the nodes are written anew with the starts and waits
// in their slots. Ranks can not block each other: all have the same starts and waits in the same slots.
#include "trireme/passes/bucket.h"

#include <algorithm>
#include <map>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/ir/packing.h"
#include "trireme/ir/verify.h"
#include "trireme/mesh/mesh.h"
#include "trireme/plan/agreement.h"

namespace trireme {
namespace {

using Tensors = OpRecord::InTime::Tensors;

// How a collective is taken apart in time.
class Forms {
 public:
  using InTime = OpRecord::InTime;
  Forms(const Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops) {}

  // By itself, without being packed; null where that can not be.
  const InTime* alone(const Node& node) const {
    const InTime& form = node.op->in_time;
    if (!is_call(node) || packs(form)) return nullptr;
    const bool allowed =
        !form.allows || form.allows({node.op->name, graph_.types_of(node.inputs), node.attrs});
    return allowed ? &form : nullptr;
  }
  // Together with others: in the same way, or in that of the start. Null where that can not be.
  const InTime* together(const Node& node) const {
    if (!is_call(node)) return nullptr;
    const InTime& form = node.op->in_time;
    if (form.tensors == Tensors::kMany) return &form;
    const InTime& several = ops_.at(form.start).in_time;
    return several.start.empty() ? nullptr : &several;
  }
  static bool is_call(const Node& node) {
    return !node.op->in_time.start.empty() &&
           node.op->collective->phase == OpRecord::Collective::Phase::kCall;
  }
  // Whether its start packs the parts of tensors in one (ir/packing.h): all that take several do but those
  // that work on them where they lie.
  bool packs(const InTime& form) const {
    return form.tensors == Tensors::kMany && ops_.at(form.start).in_place.empty();
  }

 private:
  const Graph& graph_;
  const OpTable& ops_;
};

// The nodes that only prepare a state or an input to be gathered, like a cast to 16 bits. They can be made
// whenever the first gathering starts. (Sums keep their company, on which their bits depend. Ranks along pipe
// and servers have other nodes, and would not use what they gather in the same order.)
std::vector<bool> find_prepared(const Graph& graph) {
  const std::vector<std::vector<int>> readers = graph.readers();
  std::vector<bool> is_kept(graph.values.size());
  for (const Update& update : graph.updates) is_kept[update.value] = true;
  for (const Output& output : graph.outputs) is_kept[output.value] = true;
  const auto gathers = [&](int n) {
    const Node& node = graph.nodes[n];
    if (!Forms::is_call(node) || node.attrs.has("reduction")) return false;
    const std::string_view axis = node.attrs.text("axis");
    return axis != kPipeAxis && axis != kServerAxis;
  };
  std::vector<bool> prepared(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    prepared[n] = !Forms::is_call(node) && node.inputs.size() == 1 && node.outputs.size() == 1 &&
                  graph.values[node.inputs[0]].node < 0 && !is_kept[node.outputs[0]] &&
                  std::ranges::all_of(readers[node.outputs[0]], gathers);
  }
  return prepared;
}

struct Bucket {
  std::vector<int> members;  // nodes of the graph
  int start = 0;             // slots
  int wait = 0;
  size_t bytes = 0;
};

class Decider {
 public:
  Decider(const Graph& graph, const OpTable& ops, const BucketOptions& options)
      : graph_(graph),
        forms_(graph, ops),
        options_(options),
        end_(static_cast<int>(graph.nodes.size())),
        prepared_(find_prepared(graph)) {}

  // In the order of their starts.
  std::vector<Bucket> run() {
    find_needs();
    std::vector<int> made, given;  // collectives of results; of states and inputs
    for (int n = 0; n < end_; ++n) {
      if (!may_start(n)) continue;
      (ready(n) > 0 || starts_here(n) ? made : given).push_back(n);
    }
    std::ranges::stable_sort(made, {}, [&](int n) { return ready(n); });
    for (int n : made) add(n, starts_here(n) ? n : ready(n));  // in the order in which they are ready
    limit_waits();
    std::erase_if(newest_,
                  [&](const auto& entry) { return !stays_in_place(buckets_[entry.second].members[0]); });
    find_dropped(given);
    add_given(given);
    std::erase_if(buckets_, [&](const Bucket& b) { return gains_nothing(b); });
    std::ranges::stable_sort(buckets_, {}, &Bucket::start);
    return std::move(buckets_);
  }

 private:
  const Node& node(int n) const { return graph_.nodes[n]; }

  bool may_start(int n) const { return forms_.together(node(n)) || forms_.alone(node(n)); }

  bool starts_here(int n) const { return node(n).op->in_time.tensors == Tensors::kOneHere; }

  // Whether several like it are one bucket without being copied.
  bool stays_in_place(int n) const {
    const OpRecord::InTime* together = forms_.together(node(n));
    return together && !forms_.packs(*together);
  }

  // Whether it may be in one bucket with others. What is as large as a bucket and need not be packed is not.
  bool takes_company(int n) const {
    if (!forms_.together(node(n)) || node(n).attrs.has("uneven")) return false;
    return stays_in_place(n) || !forms_.alone(node(n)) || bytes(n) < options_.bytes;
  }

  // The first slot in which a result of each node must be there.
  void find_needs() {
    needed_.assign(graph_.nodes.size(), end_);
    for (int n = end_ - 1; n >= 0; --n) {
      for (ValueId input : node(n).inputs) {
        if (const int maker = graph_.values[input].node; maker >= 0) needed_[maker] = n;
      }
    }
  }

  // The first slot in which a collective may start. What another collective makes is not there before that is
  // waited for.
  int ready(int n) const {
    int slot = 0;
    for (ValueId input : node(n).inputs) {
      const int maker = graph_.values[input].node;
      if (maker >= 0 && !prepared_[maker])
        slot = std::max(slot, may_start(maker) ? needed_[maker] : maker + 1);
    }
    return slot;
  }

  // The slot before which it is not started: what was gathered before, for the forward part, is dropped
  // before it is gathered again.
  int earliest(int n) const {
    const auto found = dropped_.find(n);
    return std::max(ready(n), found == dropped_.end() ? 0 : found->second);
  }

  void find_dropped(const std::vector<int>& nodes) {
    std::vector<int> last_read(graph_.values.size(), -1);
    for (int n = 0; n < end_; ++n) {
      for (ValueId input : node(n).inputs) last_read[input] = n;
    }
    std::map<ValueId, int> before;  // what is given -> the slot after the last reader of its latest gathering
    for (int n : nodes) {
      const int maker = graph_.values[node(n).inputs[0]].node;
      const ValueId gathered = maker >= 0 ? node(maker).inputs[0] : node(n).inputs[0];
      if (const auto found = before.find(gathered); found != before.end() && found->second <= n)
        dropped_[n] = found->second;
      before[gathered] = last_read[node(n).outputs[0]] + 1;
    }
  }

  // Of the whole tensor along the axis: equal on all ranks along it.
  size_t bytes(int n) const {
    return std::max(graph_.type(node(n).inputs[0]).bytes(), graph_.type(node(n).outputs[0]).bytes());
  }

  // One collective with no other node between its start and its wait.
  static bool gains_nothing(const Bucket& b) {
    const int n = b.members[0];
    return b.members.size() == 1 && b.start <= n && n <= b.wait && b.wait - b.start <= 1;
  }

  bool reads_from(int n, const Bucket& bucket) const {
    const int maker = graph_.values[node(n).inputs[0]].node;
    return std::ranges::find(bucket.members, maker) != bucket.members.end();
  }

  // The number of its kind, −1 where it may not be in one bucket with others. Those of a kind differ in how
  // their tensors are cut alone.
  int kind_of(int n) {
    if (!takes_company(n)) return -1;
    Kind kind{node(n).op, graph_.type(node(n).inputs[0]).dtype, node(n).attrs};
    for (const std::string_view name : kCutAttributes) kind.attrs.erase(name);
    const auto found = std::ranges::find(kinds_, kind);
    const int number = static_cast<int>(found - kinds_.begin());
    if (found == kinds_.end()) kinds_.push_back(std::move(kind));
    return number;
  }

  bool has_room_for(int n, const Bucket& bucket) const {
    return !reads_from(n, bucket) && bucket.bytes < options_.bytes &&
           bucket.members.size() < OpRecord::InTime::kMost &&
           std::max(bucket.start, earliest(n)) <= std::min(bucket.wait, needed_[n]);
  }

  // Into the newest bucket of its kind, or into a new one that is started in the slot `start`.
  void add(int n, int start) {
    const int kind = kind_of(n);
    if (const auto found = newest_.find(kind); found != newest_.end()) {
      if (Bucket& newest = buckets_[found->second]; has_room_for(n, newest)) {
        newest.members.push_back(n);
        newest.start = std::max(newest.start, earliest(n));
        newest.wait = std::min(newest.wait, needed_[n]);
        newest.bytes += bytes(n);
        return;
      }
    }
    if (kind >= 0) newest_[kind] = buckets_.size();
    buckets_.push_back({{n}, start, needed_[n], bytes(n)});
  }

  // What is copied to be sent takes memory until it is waited for; so that happens when two buckets more are
  // under way at the latest.
  void limit_waits() {
    std::vector<Bucket*> copied;
    for (Bucket& bucket : buckets_) {
      if (!stays_in_place(bucket.members[0])) copied.push_back(&bucket);
    }
    size_t end = 0, later = 0;  // bytes of those from i + 1 up to `end`
    for (size_t i = 0; i < copied.size(); ++i) {
      if (end > i)
        later -= copied[i]->bytes;
      else
        end = i + 1;
      while (end < copied.size() && later < 2 * options_.bytes) later += copied[end++]->bytes;
      if (later >= 2 * options_.bytes)
        copied[i]->wait = std::clamp(copied[end - 1]->start, copied[i]->start, copied[i]->wait);
    }
  }

  // In the order of their use. What is copied is started when the first of the bucketful before it is waited
  // for; what shares a bucket, when the first of its bucket is.
  void add_given(std::vector<int> nodes) {
    std::ranges::stable_sort(nodes, {}, [&](int n) { return needed_[n]; });
    int previous = 0, first = 0;  // slots of the first wait of the bucketful before, and of this one
    size_t total = options_.bytes;
    for (int n : nodes) {
      if (stays_in_place(n)) {
        add(n, ready(n));
        continue;
      }
      if (total >= options_.bytes) {
        previous = std::exchange(first, needed_[n]);
        total = 0;
      }
      total += bytes(n);
      add(n, std::max(previous, earliest(n)));
    }
  }

  const Graph& graph_;
  const Forms forms_;
  const BucketOptions& options_;
  const int end_;  // the slot after all nodes
  const std::vector<bool> prepared_;
  std::vector<int> needed_;  // per node, the first slot in which its results are read
  std::vector<Bucket> buckets_;
  struct Kind {
    const OpRecord* op;
    DType dtype;
    Attrs attrs;
    bool operator==(const Kind&) const = default;
  };
  std::map<int, int> dropped_;  // node -> the slot from which what it gathers is not there already
  std::vector<Kind> kinds_;
  std::map<int, size_t> newest_;  // kind -> its bucket that may take more
};

class BucketWriter {
 public:
  BucketWriter(const Graph& graph, const OpTable& ops)
      : graph_(graph), ops_(ops), forms_(graph, ops), result_(graph), prepared_(find_prepared(graph)) {}

  Graph run(const std::vector<Bucket>& buckets) {
    const int end = static_cast<int>(graph_.nodes.size());
    result_.nodes.clear();
    std::vector<bool> replaced(graph_.nodes.size());
    for (const Bucket& b : buckets) {
      for (int n : b.members) replaced[n] = true;
    }
    std::vector<std::vector<size_t>> starts(end + 1), waits(end + 1);  // per slot, buckets in their order
    for (size_t i = 0; i < buckets.size(); ++i) {
      starts[buckets[i].start].push_back(i);
      if (buckets[i].start < buckets[i].wait) waits[buckets[i].wait].push_back(i);
    }
    started_.resize(buckets.size());
    for (int slot = 0; slot <= end; ++slot) {
      for (size_t i : waits[slot]) add_wait(buckets[i], started_[i]);
      for (size_t i : starts[slot]) {
        for (const int n : buckets[i].members) {
          const int maker = graph_.values[node(n).inputs[0]].node;
          if (maker < slot || !prepared_[maker] || replaced[maker]) continue;
          replaced[maker] = true;
          append(node(maker));
        }
        started_[i] = add_start(buckets[i]);
        if (buckets[i].wait == slot) add_wait(buckets[i], started_[i]);
      }
      if (slot < end && !replaced[slot]) append(graph_.nodes[slot]);
    }
    debug_verify(result_);
    return std::move(result_);
  }

 private:
  const Node& node(int n) const { return graph_.nodes[n]; }

  void append(Node node) {
    for (ValueId output : node.outputs) result_.values[output].node = static_cast<int>(result_.nodes.size());
    result_.nodes.push_back(std::move(node));
  }

  ValueId add_value(ValueId result, const TensorType& type) {
    result_.values.push_back({.name = fmt::format("{}.started", graph_.values[result].name), .type = type});
    return static_cast<ValueId>(result_.values.size()) - 1;
  }

  const OpRecord::InTime& form_of(const Bucket& bucket) const {
    const Node& first = node(bucket.members[0]);
    const OpRecord::InTime* alone = bucket.members.size() == 1 ? forms_.alone(first) : nullptr;
    return alone ? *alone : *forms_.together(first);
  }

  // Of the start and of the wait.
  Attrs attrs_of(const Bucket& bucket) const {
    Attrs attrs = node(bucket.members[0]).attrs;
    if (!forms_.packs(form_of(bucket))) return attrs;
    for (const std::string_view name : kCutAttributes) attrs.erase(name);
    std::vector<CutTensor> tensors;
    for (int n : bucket.members) {
      const Attrs& cut = node(n).attrs;
      const bool gathers = cut.has("extent");
      const ValueId whole = gathers ? node(n).outputs[0] : node(n).inputs[0];
      tensors.push_back({graph_.type(whole).shape, static_cast<int>(cut.integer("dim")),
                         cut.integer("unit", 1), cut.integer("blocks", 1)});
    }
    set_packing(attrs, tensors);
    return attrs;
  }

  std::vector<ValueId> add_start(const Bucket& bucket) {
    Node start{&ops_.at(form_of(bucket).start), {}, {}, attrs_of(bucket)};
    for (int n : bucket.members) start.inputs.push_back(node(n).inputs[0]);
    const std::vector<TensorType> types = infer_types(*start.op, graph_.types_of(start.inputs), start.attrs);
    for (size_t i = 0; i < types.size(); ++i)
      start.outputs.push_back(add_value(node(bucket.members[i]).outputs[0], types[i]));
    append(start);
    return start.outputs;
  }

  void add_wait(const Bucket& bucket, const std::vector<ValueId>& started) {
    Node wait{&ops_.at(form_of(bucket).wait), started, {}, attrs_of(bucket)};
    for (int n : bucket.members) wait.outputs.push_back(node(n).outputs[0]);
    append(std::move(wait));
  }

  const Graph& graph_;
  const OpTable& ops_;
  const Forms forms_;
  Graph result_;
  const std::vector<bool> prepared_;
  std::vector<std::vector<ValueId>> started_;  // per bucket, what its start makes
};

bool same_nodes(const Graph& a, const Graph& b) {
  return std::ranges::equal(a.nodes, b.nodes, [](const Node& x, const Node& y) {
    return x.op == y.op && x.inputs == y.inputs && x.outputs == y.outputs;
  });
}

}  // namespace

Graph bucket(const Graph& graph, const Graph& leader, const OpTable& ops, const BucketOptions& options) {
  TRIREME_CHECK(same_nodes(graph, leader));
  return BucketWriter(graph, ops).run(Decider(leader, ops, options).run());
}

}  // namespace trireme
