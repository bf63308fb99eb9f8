// What an executor can show of a run, at the price of speed: every result, the time of every node, and where
// the first number that is not finite comes from. See executor.h.
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/runtime/executor.h"

namespace trireme {
namespace {

bool all_finite(const TensorView& view) {
  const auto check = [&](auto* data) {
    for (int64_t i = 0; i < view.elements(); ++i) {
      if (!std::isfinite(static_cast<float>(data[i]))) return false;
    }
    return true;
  };
  switch (view.dtype) {
    case DType::f64:
      return check(view.as<double>());
    case DType::f32:
      return check(view.as<float>());
    case DType::f16:
      return check(view.as<F16>());
    case DType::bf16:
      return check(view.as<Bf16>());
    default:
      return true;
  }
}

}  // namespace

void Executor::launch_observed(const Prepared& prepared) {
  for (const Launch& one : prepared.launches) {
    launch(prepared, one);
    show(prepared, one);
  }
  finish(prepared);
}

void Executor::show(const Prepared& prepared, const Launch& one) {
  std::vector<std::byte> host;
  for (int i = 0; i < one.outputs; ++i) {
    const TensorView& result = prepared.views[one.first_output + i];
    host.resize(result.bytes());
    stream_->download(host.data(), static_cast<const std::byte*>(result.data), host.size());
    observer_(prepared.segment, one.node, i, {host.data(), result.dtype, result.shape});
    stream_->upload(static_cast<std::byte*>(result.data), host.data(), host.size());
  }
}

// Noted down with its marks where the device takes that: launched one by one, nodes that take less than the
// host needs for a launch would all take as long as that.
void Executor::launch_timed(const Prepared& prepared, int first_group, Piece& piece) {
  const auto launch = [&] {
    piece.marks.clear();
    launch_groups(prepared, first_group, piece.group_end, &piece.marks);
  };
  const bool set_up = prepared.runs > 1;  // see launch_pieces()
  if (set_up && piece.kind == Piece::Kind::kCompute && !piece.timed_replay)
    piece.timed_replay = stream_->capture(std::ref(launch));
  piece.timed_replay ? piece.timed_replay->launch() : launch();
  stream_->synchronize();
  int n = first_group == 0 ? 0 : prepared.group_ends[first_group - 1];
  for (int group = first_group; group < piece.group_end; ++group) {
    const size_t mark = static_cast<size_t>(group - first_group);
    const int end = prepared.group_ends[group];
    const double seconds = piece.marks[mark + 1]->seconds_since(*piece.marks[mark]) / (end - n);
    for (; n < end; ++n) timer_(prepared.segment, prepared.launches[n].node, seconds);
  }
}

std::string Executor::find_non_finite(int segment) {
  const Prepared& prepared = last(segment);
  const Graph& graph = program_.segments[segment].graph;
  std::vector<std::byte> host;
  const auto finite = [&](const TensorView& view) {
    host.resize(view.bytes());
    stream_->download(host.data(), static_cast<const std::byte*>(view.data), view.bytes());
    return all_finite({host.data(), view.dtype, view.shape});
  };
  for (const Launch& one : prepared.launches) {
    const Node& node = graph.nodes[one.node];
    std::string source = "finite inputs";
    for (int i = 0; i < one.inputs && source == "finite inputs"; ++i) {
      if (!finite(prepared.views[one.first_input + i]))
        source = fmt::format("%{}, which was not finite already", graph.values[node.inputs[i]].name);
    }
    launch(prepared, one);
    stream_->synchronize();
    for (int i = 0; i < one.outputs; ++i) {
      if (finite(prepared.views[one.first_output + i])) continue;
      const Value& value = graph.values[node.outputs[i]];
      return fmt::format("{} makes %{}: {} ({}), from {}", node.op->name, value.name, to_string(value.type),
                         graph.name, source);
    }
  }
  return "";
}

}  // namespace trireme
