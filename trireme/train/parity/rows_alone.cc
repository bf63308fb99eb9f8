// See rows_alone.h.
#include "trireme/train/parity/rows_alone.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/passes/pins.h"

namespace trireme::parity {
namespace {

constexpr int32_t kIgnoredTarget = -1;

}  // namespace

void RowsAlone::note(size_t replica, const std::vector<Part>& own) {
  std::vector<std::set<int64_t>>& rows = rows_[replica];
  rows.resize(std::max(rows.size(), own.size()));
  for (size_t m = 0; m < own.size(); ++m) {
    for (int64_t row = own[m].begin; row < own[m].end(); ++row) rows[m].insert(row);
  }
}

Batch RowsAlone::batch_of(size_t replica, Batch batch, Others others) const {
  HostTensor& targets = batch.tensors.back().second;
  const std::span<int32_t> all = targets.values<int32_t>();
  const int64_t row = targets.shape.elements() / targets.shape[0];
  std::vector<bool> is_own(static_cast<size_t>(targets.shape[0]));
  for (const std::set<int64_t>& rows : rows_[replica]) {
    for (const int64_t own : rows) is_own[static_cast<size_t>(own)] = true;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (!is_own[i / static_cast<size_t>(row)]) all[i] = kIgnoredTarget;
  }
  if (others == Others::kAlike) spread(batch, replica);
  return batch;
}

void RowsAlone::spread(Batch& batch, size_t replica) const {
  HostTensor& input = batch.tensors.front().second;
  const size_t row = input.bytes.size() / static_cast<size_t>(input.shape[0]);
  const auto at = [&](int64_t number) { return input.bytes.begin() + number * static_cast<int64_t>(row); };
  for (size_t m = 0; m < rows_[replica].size(); ++m) {
    const std::set<int64_t>& own = rows_[replica][m];
    for (size_t other = 0; other < rows_.size(); ++other) {
      if (other == replica) continue;
      TRIREME_CHECK(rows_[other][m].size() == own.size());
      auto from = own.begin();
      for (const int64_t to : rows_[other][m]) std::copy_n(at(*from++), row, at(to));
    }
  }
}

Training with_own_groups(Training training, const Plan& plan) {
  int64_t& groups = training.model.options.batch_norm_groups;
  if (groups == 1) groups = batch_parts(plan);
  return training;
}

// Of buffers, those that steps renew: others are constants.
RowsAlone::Others others_for(const Reference& reference) {
  for (const std::string& name : states_of(reference.program(), StateGroup::kLasting)) {
    if (reference.program().find_state(name)->role == Role::kBuffer) return RowsAlone::Others::kAlike;
  }
  return RowsAlone::Others::kEmpty;
}

// Where other rows are dropped out, those that stand for them have other statistics.
std::vector<std::string> left_alone(const Reference& reference) {
  std::vector<std::string> names = states_of(reference.program(), StateGroup::kLeft);
  if (reference.training().model.options.dropout > 0)
    std::erase_if(names, [&](const std::string& name) {
      return reference.program().find_state(name)->role == Role::kPending;
    });
  return names;
}

}  // namespace trireme::parity
