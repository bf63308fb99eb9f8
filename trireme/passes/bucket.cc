// Two steps. First it is decided which collectives belong together and in which slot each bucket starts and
// is waited for; slot i is the place before node i. Then the nodes are written anew with the starts and waits
// in their slots. Ranks can not block each other: all have the same starts and waits in the same slots.
#include "trireme/passes/bucket.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

using Tensors = OpRecord::InTime::Tensors;

struct Bucket {
  std::vector<int> members;  // nodes of the graph
  int start = 0;             // slots
  int wait = 0;
  size_t bytes = 0;
};

class Decider {
 public:
  Decider(const Graph& graph, const BucketOptions& options)
      : graph_(graph), options_(options), end_(static_cast<int>(graph.nodes.size())) {}

  // In the order of their starts.
  std::vector<Bucket> run() {
    find_needs();
    std::vector<int> made, given;  // collectives of results; of states and inputs
    for (int n = 0; n < end_; ++n) {
      if (!may_start(n)) continue;
      (ready(n) > 0 ? made : given).push_back(n);
    }
    std::ranges::stable_sort(made, {}, [&](int n) { return ready(n); });
    for (int n : made) add_made(n);
    limit_waits();
    add_given(given);
    std::erase_if(buckets_, [&](const Bucket& b) { return gains_nothing(b); });
    std::ranges::stable_sort(buckets_, {}, &Bucket::start);
    return std::move(buckets_);
  }

 private:
  const Node& node(int n) const { return graph_.nodes[n]; }

  bool may_start(int n) const {
    const OpRecord& op = *node(n).op;
    if (op.in_time.start.empty()) return false;
    return !op.in_time.allows || op.in_time.allows({op.name, graph_.types_of(node(n).inputs), node(n).attrs});
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
      if (maker >= 0) slot = std::max(slot, may_start(maker) ? needed_[maker] : maker + 1);
    }
    return slot;
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

  bool belongs(const Bucket& bucket, int n) const {
    const Node &first = node(bucket.members[0]), &other = node(n);
    return first.op == other.op && first.attrs == other.attrs && !first.attrs.has("uneven") &&
           first.op->in_time.tensors == Tensors::kMany &&
           graph_.type(first.inputs[0]).dtype == graph_.type(other.inputs[0]).dtype &&
           !reads_from(n, bucket) && bucket.bytes < options_.bytes &&
           bucket.members.size() < OpRecord::InTime::kMost &&
           std::max(bucket.start, ready(n)) <= std::min(bucket.wait, needed_[n]);
  }

  // In the order in which they are ready, into the newest bucket of their kind.
  void add_made(int n) {
    const auto same_kind = [&](const Bucket& b) {
      return node(b.members[0]).op == node(n).op && node(b.members[0]).attrs == node(n).attrs;
    };
    const auto newest = std::find_if(buckets_.rbegin(), buckets_.rend(), same_kind);
    if (newest == buckets_.rend() || !belongs(*newest, n)) {
      buckets_.push_back({{n}, ready(n), needed_[n], bytes(n)});
      return;
    }
    newest->members.push_back(n);
    newest->start = std::max(newest->start, ready(n));
    newest->wait = std::min(newest->wait, needed_[n]);
    newest->bytes += bytes(n);
  }

  // What is copied to be sent takes memory until it is waited for; so that happens when two buckets more are
  // under way at the latest.
  void limit_waits() {
    std::vector<Bucket*> copied;
    for (Bucket& bucket : buckets_) {
      if (tensors(bucket) == Tensors::kOne) copied.push_back(&bucket);
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
  Tensors tensors(const Bucket& bucket) const { return node(bucket.members[0]).op->in_time.tensors; }

  // In the order of their use: reductions into buckets, the others one by one but started together, when the
  // first of those before them is waited for.
  void add_given(std::vector<int> nodes) {
    std::ranges::stable_sort(nodes, {}, [&](int n) { return needed_[n]; });
    int previous = 0, first = 0;  // slots of the first wait of the group before, and of this one
    size_t total = options_.bytes;
    for (int n : nodes) {
      if (node(n).op->in_time.tensors == Tensors::kMany) {
        add_made(n);
        continue;
      }
      if (total >= options_.bytes) {
        previous = std::exchange(first, needed_[n]);
        total = 0;
      }
      total += bytes(n);
      buckets_.push_back({{n}, previous, needed_[n], bytes(n)});
    }
  }

  const Graph& graph_;
  const BucketOptions& options_;
  const int end_;            // the slot after all nodes
  std::vector<int> needed_;  // per node, the first slot in which its results are read
  std::vector<Bucket> buckets_;
};

class BucketWriter {
 public:
  BucketWriter(const Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops), result_(graph) {}

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

  std::vector<ValueId> add_start(const Bucket& bucket) {
    const Node& first = node(bucket.members[0]);
    Node start{&ops_.at(first.op->in_time.start), {}, {}, first.attrs};
    for (int n : bucket.members) start.inputs.push_back(node(n).inputs[0]);
    const std::vector<TensorType> types = infer_types(*start.op, graph_.types_of(start.inputs), start.attrs);
    TRIREME_CHECK(types.size() == bucket.members.size());
    for (size_t i = 0; i < types.size(); ++i)
      start.outputs.push_back(add_value(node(bucket.members[i]).outputs[0], types[i]));
    append(start);
    return start.outputs;
  }

  void add_wait(const Bucket& bucket, const std::vector<ValueId>& started) {
    const Node& first = node(bucket.members[0]);
    Node wait{&ops_.at(first.op->in_time.wait), started, {}, first.attrs};
    const Shape& shape = graph_.type(first.inputs[0]).shape;
    wait.attrs.set("shape", std::vector<int64_t>(shape.begin(), shape.end()));
    for (int n : bucket.members) wait.outputs.push_back(node(n).outputs[0]);
    append(std::move(wait));
  }

  const Graph& graph_;
  const OpTable& ops_;
  Graph result_;
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
  return BucketWriter(graph, ops).run(Decider(leader, options).run());
}

}  // namespace trireme
