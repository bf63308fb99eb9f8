// Elimination: a node's factors (its own costs, its edges, tables of nodes before it) become one table over
// the nodes that it meets, of what it costs at least. Where that table would be too large, the factors are
// dealt to several, which is less than the truth and still a bound. Then ways are chosen in the opposite
// order, best first; without a bound on use and with whole tables the first descent is the solution. With
// one, costs plus a price on use give a second bound (Lagrange), whose price is found by bisection.
#include "trireme/planner/intra.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "trireme/base/error.h"

namespace trireme::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kLargestTable = 1 << 20;
constexpr double kSame = 1e-12;  // shares of a cost below which two are one: sums are rounded

// A table over the ways of some nodes, the last the fastest.
struct Factor {
  std::vector<int> nodes;
  std::vector<double> cost;
};

class Elimination {
 public:
  Elimination(const IntraProblem& problem, const std::vector<int>& order, double price)
      : problem_(problem), place_(order.size()), buckets_(order.size()), made_(order.size()) {
    for (size_t i = 0; i < order.size(); ++i) place_[order[i]] = static_cast<int>(i);
    for (size_t n = 0; n < problem.nodes.size(); ++n) {
      const IntraProblem::Node& node = problem.nodes[n];
      Factor own{{static_cast<int>(n)}, node.cost};
      for (size_t k = 0; k < node.use.size(); ++k) own.cost[k] += price * static_cast<double>(node.use[k]);
      put(std::move(own), -1);
    }
    for (const IntraProblem::Edge& edge : problem.edges) put({{edge.from, edge.to}, edge.cost}, -1);
    for (const int node : order) eliminate(node);
  }

  double least() const { return least_; }
  // What all of a node's factors say of a way, given the ways of nodes that are eliminated after it; and what
  // was counted for the node before it was chosen.
  double value(int node, int way, std::vector<int>& ways) const {
    ways[node] = way;
    double sum = 0;
    for (const int f : buckets_[node]) sum += at(factors_[f], ways);
    return sum;
  }
  double counted(int node, const std::vector<int>& ways) const {
    double sum = 0;
    for (const int f : made_[node]) sum += at(factors_[f], ways);
    return sum;
  }

 private:
  int ways_of(int node) const { return static_cast<int>(problem_.nodes[node].cost.size()); }

  void put(Factor factor, int maker) {
    if (factor.nodes.empty()) {
      least_ += factor.cost[0];
      if (maker >= 0) {
        made_[maker].push_back(static_cast<int>(factors_.size()));
        factors_.push_back(std::move(factor));
      }
      return;
    }
    const int first = *std::ranges::min_element(factor.nodes, {}, [&](int node) { return place_[node]; });
    buckets_[first].push_back(static_cast<int>(factors_.size()));
    if (maker >= 0) made_[maker].push_back(static_cast<int>(factors_.size()));
    factors_.push_back(std::move(factor));
  }

  double at(const Factor& factor, const std::vector<int>& ways) const {
    size_t index = 0;
    for (const int node : factor.nodes)
      index = index * static_cast<size_t>(ways_of(node)) + static_cast<size_t>(ways[node]);
    return factor.cost[index];
  }

  size_t table_size(const std::set<int>& nodes) const {
    size_t size = 1;
    for (const int node : nodes)
      size = std::min(kLargestTable + 1, size * static_cast<size_t>(ways_of(node)));
    return size;
  }

  void eliminate(int node) {
    std::vector<std::pair<std::set<int>, std::vector<int>>> groups;  // nodes, factors
    for (const int f : buckets_[node]) {
      const auto joined = [&](std::set<int> nodes) {
        nodes.insert(factors_[f].nodes.begin(), factors_[f].nodes.end());
        return nodes;
      };
      const auto room = std::ranges::find_if(
          groups, [&](const auto& group) { return table_size(joined(group.first)) <= kLargestTable; });
      if (room == groups.end()) {
        groups.push_back({joined({}), {f}});
      } else {
        room->first = joined(room->first);
        room->second.push_back(f);
      }
    }
    std::vector<int> ways(problem_.nodes.size());
    for (const auto& [nodes, factors] : groups) {
      Factor made;
      size_t size = 1;
      for (const int other : nodes) {
        if (other == node) continue;
        made.nodes.push_back(other);
        size *= static_cast<size_t>(ways_of(other));
      }
      made.cost.assign(size, kNever);
      for (const int other : made.nodes) ways[other] = 0;
      for (double& cost : made.cost) {
        for (ways[node] = 0; ways[node] < ways_of(node); ++ways[node]) {
          double sum = 0;
          for (const int f : factors) sum += at(factors_[f], ways);
          cost = std::min(cost, sum);
        }
        for (size_t i = made.nodes.size(); i-- > 0;) {  // the next ways
          if (++ways[made.nodes[i]] < ways_of(made.nodes[i])) break;
          ways[made.nodes[i]] = 0;
        }
      }
      put(std::move(made), node);
    }
  }

  const IntraProblem& problem_;
  std::vector<int> place_;  // by node, in the order
  std::vector<Factor> factors_;
  std::vector<std::vector<int>> buckets_, made_;  // by node: factors that are its, and those made of them
  double least_ = 0;
};

// The node that meets the fewest others goes next; its neighbours then meet one another.
std::vector<int> elimination_order(const IntraProblem& problem) {
  std::vector<std::set<int>> meets(problem.nodes.size());
  for (const IntraProblem::Edge& edge : problem.edges) {
    meets[edge.from].insert(edge.to);
    meets[edge.to].insert(edge.from);
  }
  std::set<std::pair<size_t, int>> waiting;
  for (size_t n = 0; n < meets.size(); ++n) waiting.emplace(meets[n].size(), static_cast<int>(n));
  std::vector<int> order;
  while (!waiting.empty()) {
    const int node = waiting.begin()->second;
    waiting.erase(waiting.begin());
    order.push_back(node);
    for (const int a : meets[node]) {
      waiting.erase({meets[a].size(), a});
      meets[a].erase(node);
      for (const int b : meets[node]) {
        if (a != b) meets[a].insert(b);
      }
      waiting.emplace(meets[a].size(), a);
    }
  }
  return order;
}

void check(const IntraProblem& problem) {
  const int nodes = static_cast<int>(problem.nodes.size());
  for (const IntraProblem::Node& node : problem.nodes) {
    if (node.cost.empty()) throw_error("a node has no ways; one or more expected");
    if (!node.use.empty() && node.use.size() != node.cost.size())
      throw_error("a node has {} ways and the use of {}", node.cost.size(), node.use.size());
  }
  for (const IntraProblem::Edge& edge : problem.edges) {
    if (edge.from < 0 || edge.from >= nodes || edge.to < 0 || edge.to >= nodes || edge.from == edge.to)
      throw_error("an edge joins {} and {}; two of {} nodes expected", edge.from, edge.to, nodes);
    const size_t pairs = problem.nodes[edge.from].cost.size() * problem.nodes[edge.to].cost.size();
    if (edge.cost.size() != pairs) throw_error("an edge has {} costs; {} expected", edge.cost.size(), pairs);
  }
}

int64_t use_of(const IntraProblem::Node& node, int way) {
  return node.use.empty() ? 0 : node.use[way];
}

// Of all ways; kNever where some do not go together.
double cost_of(const IntraProblem& problem, const std::vector<int>& ways) {
  double cost = 0;
  for (size_t n = 0; n < ways.size(); ++n) cost += problem.nodes[n].cost[ways[n]];
  for (const IntraProblem::Edge& edge : problem.edges)
    cost += edge.cost[static_cast<size_t>(ways[edge.from]) * problem.nodes[edge.to].cost.size() +
                      static_cast<size_t>(ways[edge.to])];
  return cost;
}

int64_t use_of(const IntraProblem& problem, const std::vector<int>& ways) {
  int64_t use = 0;
  for (size_t n = 0; n < ways.size(); ++n) use += use_of(problem.nodes[n], ways[n]);
  return use;
}

class Descent {
 public:
  Descent(const IntraProblem& problem, const IntraOptions& options)
      : problem_(problem), options_(options), order_(elimination_order(problem)), free_(problem, order_, 0) {
    for (const IntraProblem::Node& node : problem.nodes)
      least_use_.push_back(node.use.empty() ? 0 : std::ranges::min(node.use));
    std::reverse(order_.begin(), order_.end());
    ways_.resize(problem.nodes.size());
  }

  std::optional<IntraSolution> run() {
    remaining_use_ = std::accumulate(least_use_.begin(), least_use_.end(), int64_t{0});
    if (free_.least() == kNever || (problem_.bound && remaining_use_ > *problem_.bound)) return std::nullopt;
    double least = free_.least();
    if (problem_.bound) {
      find_price();
      if (priced_) least = std::max(least, priced_->least() - price_ * static_cast<double>(*problem_.bound));
    }
    go(0, free_.least(), priced_ ? priced_->least() : 0);
    if (!best_) return std::nullopt;
    best_->least_cost = steps_ < options_.most_steps ? best_->cost : std::min(best_->cost, least);
    return best_;
  }

 private:
  // Use is too high without a price, and low enough with a high one; between them the bound is best where use
  // is about as much as is allowed.
  void find_price() {
    std::vector<int> forward(order_.rbegin(), order_.rend());
    const double bound = static_cast<double>(*problem_.bound);
    double low = 0, high = 1e-12, best = free_.least();
    const auto dual = [&](double price) {
      Elimination priced(problem_, forward, price);
      const double value = priced.least() - price * bound;
      if (value > best) {
        best = value;
        price_ = price;
        priced_.emplace(std::move(priced));
      }
      return value;
    };
    // The dual is concave: it rises, then falls.
    double before = free_.least();
    for (int i = 0; i < 80; ++i, low = high / 4, high *= 2) {
      const double value = dual(high);
      if (value < before) break;
      before = value;
    }
    for (int i = 0; i < 40; ++i) {
      const double a = low + (high - low) / 3, b = high - (high - low) / 3;
      if (dual(a) < dual(b)) {
        low = a;
      } else {
        high = b;
      }
    }
  }

  bool is_beaten(double cost) const { return best_ && cost >= best_->cost * (1 - kSame); }

  void go(size_t depth, double cost, double priced_cost) {
    if (++steps_ > options_.most_steps) return;
    if (depth == order_.size()) {
      const double whole = cost_of(problem_, ways_);
      if (whole < kNever && (!best_ || whole < best_->cost))
        best_ = IntraSolution{ways_, whole, use_of(problem_, ways_), whole};
      return;
    }
    const int node = order_[depth];
    const IntraProblem::Node& of = problem_.nodes[node];
    const double without = cost - free_.counted(node, ways_);
    const double priced_without = priced_ ? priced_cost - priced_->counted(node, ways_) : 0;
    struct Next {
      double guide, cost, priced_cost;
      int way;
    };
    std::vector<Next> next;
    for (int k = 0; k < static_cast<int>(of.cost.size()); ++k) {
      const double with = without + free_.value(node, k, ways_);
      if (with == kNever) continue;
      const double priced_with = priced_ ? priced_without + priced_->value(node, k, ways_) : 0;
      next.push_back({priced_ ? priced_with : with, with, priced_with, k});
    }
    std::ranges::stable_sort(next, {}, &Next::guide);
    for (const Next& one : next) {
      if (is_beaten(one.cost)) continue;
      if (priced_ && is_beaten(one.priced_cost - price_ * static_cast<double>(*problem_.bound))) continue;
      const int64_t more = use_of(of, one.way) - least_use_[node];
      if (problem_.bound && remaining_use_ + more > *problem_.bound) continue;
      ways_[node] = one.way;
      remaining_use_ += more;
      go(depth + 1, one.cost, one.priced_cost);
      remaining_use_ -= more;
    }
  }

  const IntraProblem& problem_;
  const IntraOptions& options_;
  std::vector<int> order_;  // in which ways are chosen
  Elimination free_;
  std::optional<Elimination> priced_;
  double price_ = 0;
  std::vector<int64_t> least_use_;  // by node
  int64_t remaining_use_ = 0;       // of what is chosen, and the least of what is not
  std::vector<int> ways_;
  std::optional<IntraSolution> best_;
  int64_t steps_ = 0;
};

}  // namespace

std::optional<IntraSolution> solve(const IntraProblem& problem, const IntraOptions& options) {
  check(problem);
  return Descent(problem, options).run();
}

std::optional<IntraSolution> solve_by_enumeration(const IntraProblem& problem) {
  check(problem);
  std::optional<IntraSolution> best;
  std::vector<int> ways(problem.nodes.size());
  while (true) {
    const double cost = cost_of(problem, ways);
    const int64_t use = use_of(problem, ways);
    if (cost < kNever && (!problem.bound || use <= *problem.bound) && (!best || cost < best->cost))
      best = IntraSolution{ways, cost, use, cost};
    size_t n = ways.size();
    while (n > 0 && ++ways[n - 1] == static_cast<int>(problem.nodes[n - 1].cost.size())) ways[--n] = 0;
    if (n == 0) return best;
  }
}

}  // namespace trireme::planner
