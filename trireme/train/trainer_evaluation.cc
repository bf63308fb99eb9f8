// The loss over held-out rows, and how many of them are predicted right.
#include <algorithm>
#include <array>

#include "trireme/passes/pins.h"
#include "trireme/runtime/agree.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

// Of a model with logits, which has two inputs: the second.
const std::string& targets_name(const Graph& graph) {
  const auto last = std::ranges::find(graph.values.rbegin(), graph.values.rend(), Role::kBatch, &Value::role);
  return last->name;
}

}  // namespace

void Trainer::evaluate(Batch& batch, Evaluation& total, const OnRow& on_row) {
  std::array<double, 3> sums = {};  // loss, count, correct
  const auto before = [&](const Runner::Turn& turn) {
    if (program().segments[turn.segment].takes(Role::kBatch))
      load_rows(turn.segment, evaluation_list_, turn.action->microbatch, batch);
  };
  const auto after = [&](const Runner::Turn& turn) {
    if (!program().segments[turn.segment].graph.has_output("loss")) return;
    sums[0] += executor_.scalar_output(turn.segment, "loss");
    sums[1] += executor_.scalar_output(turn.segment, "count");
    sums[2] += count_correct(turn.segment, turn.action->microbatch, batch, on_row);
  };
  runner_.run(runner_.turns(evaluation_list_), before, after);
  if (const std::string axis = ranks_.plan.parts_axis_name();
      !axis.empty())  // one stage, or server, has them
    agree(ranks_.communicator, axis, std::span(sums), Communicator::Reduction::kSum);
  total.loss = (total.loss * total.count + sums[0]) / std::max(1.0, total.count + sums[1]);
  total.count += sums[1];
  total.correct += sums[2];
}

double Trainer::count_correct(int segment, int64_t microbatch, Batch& batch, const OnRow& on_row) {
  double total = 0;
  const Graph& graph = program().segments[segment].graph;
  for (const Output& output : graph.outputs) {
    if (output.role != OutputRole::kRows) continue;
    const Shape& shape = graph.type(output.value).shape;
    logits_.resize(shape.elements());
    executor_.read_output(segment, output.name, logits_.data(), logits_.size() * sizeof(float));
    const std::span<int32_t> targets = batch.at(targets_name(graph)).values<int32_t>();
    const int64_t width = shape.back(), rows = evaluation_list_.own.size;
    const int64_t first =
        batch.place_of(microbatch * evaluation_list_.rows + evaluation_list_.own.begin, rows) *
        (shape.elements() / width / rows);
    double correct = 0;
    for (int64_t row = 0; row * width < shape.elements(); ++row) {
      if (targets[first + row] < 0) continue;
      const float* logit = logits_.data() + row * width;
      correct += std::max_element(logit, logit + width) - logit == targets[first + row];
      if (on_row) on_row(first + row, {logit, static_cast<size_t>(width)});
    }
    for (const int axis : batch_axes(ranks_.plan))  // the other ranks have the rest
      correct = agreed(ranks_.communicator, ranks_.plan.mesh.axes()[axis].name, correct,
                       Communicator::Reduction::kSum);
    total += correct;
  }
  return total;
}

}  // namespace trireme
