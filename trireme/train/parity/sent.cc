// See sent.h. Every call that a node makes of the transport, in the words of comm/.
#include "trireme/train/parity/sent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/check.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/kernels/cut_dim.h"
#include "trireme/train/parity/plan_ranks.h"

namespace trireme::parity {
namespace {

class StepBytes {
 public:
  StepBytes(const Program& program, const AxisAlgorithms& algorithms)
      : program_(program), algorithms_(algorithms) {}

  uint64_t of(const ActionList& list) const {
    uint64_t bytes = 0;
    for (const Action& action : list.actions) {
      if (action.kind == Action::Kind::kRun)
        bytes += of(program_.segments[static_cast<size_t>(program_.segment(action.what))]);
      else if (action.kind == Action::Kind::kSend)
        bytes += state_bytes(action);
      else if (action.kind == Action::Kind::kReduce)
        bytes += by_steps(comm::Collective::all_reduce, std::string(replica_axis(program_.mesh)),
                          program_.find_state(action.what)->type.dtype, state_bytes(action), 1);
    }
    return bytes;
  }

 private:
  size_t state_bytes(const Action& action) const { return program_.find_state(action.what)->type.bytes(); }

  uint64_t of(const Segment& segment) const {
    uint64_t bytes = 0;
    for (size_t n = 0; n < segment.graph.nodes.size(); ++n) {
      const Node& node = segment.graph.nodes[n];
      if (node.op->collective && node.op->collective->sends()) bytes += of(segment, static_cast<int>(n));
    }
    return bytes;
  }

  uint64_t of(const Segment& segment, int number) const {
    const Node& node = segment.graph.nodes[static_cast<size_t>(number)];
    const TensorType &given = segment.graph.type(node.inputs[0]), &made = segment.graph.type(node.outputs[0]);
    const CollectiveKind kind = node.op->collective->kind;
    if (kind == CollectiveKind::kShift) return given.bytes();
    if (kind == CollectiveKind::kAllToAll) {
      const CutDim cut(given.shape, given.dtype, node.attrs, "to_");
      return given.bytes() - cut.bytes(node.attrs.integer("coordinate"));
    }
    int64_t unit = 1;
    const bool in_parts = kind != CollectiveKind::kAllReduce &&
                          node.op->collective->phase == OpRecord::Collective::Phase::kCall;
    if (in_parts) {
      const TensorType& whole = kind == CollectiveKind::kAllGather ? made : given;
      unit = std::max<int64_t>(1, CutDim(whole.shape, whole.dtype, node.attrs, "").unit_elements());
    }
    uint64_t bytes = 0;
    for (const double call : call_bytes(segment, number))
      bytes += by_steps(*comm::parse_collective(name(kind)), node.attrs.text("axis"), made.dtype,
                        static_cast<size_t>(call), unit);
    return bytes;
  }

  // As MeshCommunicator and the engine choose.
  uint64_t by_steps(comm::Collective collective, const std::string& axis, DType dtype, size_t bytes,
                    int64_t unit) const {
    const int number = program_.mesh.axis(axis), ranks = program_.mesh.axes()[number].size;
    const size_t width = static_cast<size_t>(unit) * size_of(dtype);
    const comm::Call call{
        .collective = collective, .dtype = dtype, .count = static_cast<int64_t>(bytes / size_of(dtype))};
    const auto named = algorithms_.find(axis);
    comm::Algorithm algorithm = named == algorithms_.end() ? comm::Algorithm::automatic : named->second;
    const std::vector<comm::Algorithm> known = comm::algorithms_of(collective);
    if (std::ranges::find(known, algorithm) == known.end()) algorithm = comm::Algorithm::automatic;
    if (algorithm == comm::Algorithm::automatic)
      algorithm = comm::fixed_choice(call, /*native_offered=*/false, {}).algorithm;
    const std::vector<int> one_host(static_cast<size_t>(ranks));
    const comm::Steps steps = comm::make_steps(collective, algorithm, ranks, 0, one_host);
    std::vector<size_t> chunks;
    for (int chunk = 0; chunk < steps.chunks(); ++chunk) {
      const Part part = part_of(static_cast<int64_t>(bytes / width), steps.chunks(), chunk);
      chunks.push_back(static_cast<size_t>(part.size) * width);
    }
    return comm::bytes_sent(steps,
                            chunks)[static_cast<size_t>(program_.mesh.coordinate(program_.rank, number))];
  }

  const Program& program_;
  const AxisAlgorithms& algorithms_;
};

}  // namespace

uint64_t bytes_by_steps(const Program& program, const ActionList& list, const AxisAlgorithms& algorithms) {
  return StepBytes(program, algorithms).of(list);
}

std::string promise_problem(std::span<const Program> programs, int64_t step) {
  double promised = 0;
  uint64_t sent = 0;
  for (const Program& program : programs) {
    const ActionList& list = program.step_list(step);
    promised += bytes_sent(program, list);
    sent += bytes_by_steps(program, list, rings(program.mesh));
  }
  constexpr double kHalfAByte = 0.5;  // shares of ranks are no whole numbers
  if (std::abs(promised - static_cast<double>(sent)) <= kHalfAByte) return "";
  return fmt::format("step {}: ranks send {} bytes by rings, and their programs promise {}", step, sent,
                     promised);
}

}  // namespace trireme::parity
