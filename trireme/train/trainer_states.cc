// Starting values of states, and states by their names in checkpoints.
#include <algorithm>

#include "trireme/base/rng.h"
#include "trireme/ir/trained.h"
#include "trireme/onnx/open_model.h"
#include "trireme/train/state_reach.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

float initial_value(std::string_view kind, double scale, RngKey key, uint64_t element) {
  if (kind == "ones") return 1;
  if (kind == "normal") return static_cast<float>(scale) * normal(key, element);
  if (kind == "uniform") return static_cast<float>(scale) * (2 * uniform(key, element) - 1);
  return 0;
}

}  // namespace

void initialise_states(Executor& executor, uint64_t seed) {
  std::vector<float> values;
  for (const State& slot : executor.program().states) {
    if (slot.role == Role::kStash) continue;
    const std::string_view kind = slot.attrs.text("init", "zeros");
    const double scale = slot.attrs.real("scale", 0);
    const std::string name = saved_name(slot.name, slot.role, slot.attrs);
    const RngKey key{seed, stream_id(slot.attrs.text(kStartsAs, name))};
    values.resize(slot.type.shape.elements());
    const std::shared_ptr<onnx::OpenModel> file =
        kind == onnx::kInFile ? onnx::open_model(slot.attrs.text("file")) : nullptr;
    for_each_run(slot.part, [&](int64_t whole, int64_t local, int64_t count) {
      if (file) return file->read(slot.attrs.text("tensor"), whole, std::span(values).subspan(local, count));
      for (int64_t i = 0; i < count; ++i) values[local + i] = initial_value(kind, scale, key, whole + i);
    });
    write_numbers(executor, slot, values);
  }
}

void Trainer::initialise(uint64_t seed) {
  initialise_states(executor_, seed);
  begin_loss_scale();
  skipped_in_a_row = 0;
  begin_from_weights();
}

std::vector<NamedTensor> Trainer::tensors(const std::vector<Role>& roles) {
  std::vector<NamedTensor> result;
  for (const State& slot : program().states) {
    if (std::ranges::find(roles, slot.role) == roles.end() || has_master(slot.role, slot.type)) continue;
    TensorReach reach = reach_of(executor_, slot.name);
    if (slot.role == Role::kMaster) {
      const State& weight = *program().find_state(slot.attrs.text("of"));
      TRIREME_CHECK(weight.type.shape == slot.type.shape);
      reach.write = [both = reach.write, rounding = rounding_reach(executor_, weight)](
                        size_t offset, const void* from, size_t bytes) {
        both(offset, from, bytes);
        rounding.write(offset, from, bytes);
      };
    }
    result.push_back({saved_name(slot.name, slot.role, slot.attrs), view_of(slot), std::move(reach)});
  }
  return result;
}

}  // namespace trireme
