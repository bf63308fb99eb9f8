// What a run has learned, and how fast: learning per second is learning per record times records per second,
// where learning is how far the loss has come down, and a record a token or a sample. A change that doubles
// one factor and halves the other has won nothing.
//
// Losses of single steps are noisy: they are taken as the mean over a window, a twentieth of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trireme {

struct LearningStep {
  double step = 0, loss = 0;
  double seconds = 0;  // that it took
  double records = 0;  // that it learned from
};

struct Learning {
  double first_loss = 0, last_loss = 0;  // means over windows
  double records = 0, seconds = 0;       // between them

  double learned() const { return first_loss - last_loss; }
  double per_record() const { return records > 0 ? learned() / records : 0; }
  double records_per_second() const { return seconds > 0 ? records / seconds : 0; }
  double per_second() const { return per_record() * records_per_second(); }
};

// `steps` are in order; those with a non-finite loss are skipped. Throws Error where fewer than two are left.
Learning learning_of(std::span<const LearningStep> steps);
// The same of `parts` parts of the run with as many steps each: what they have learned adds up to the whole.
std::vector<Learning> learning_by_part(std::span<const LearningStep> steps, int parts);

struct Reached {
  double step = 0, seconds = 0, records = 0;  // from the start of the run
};
// When the mean over a window first came down to the target; none where it did not.
std::optional<Reached> reached(std::span<const LearningStep> steps, double target);

// Of repeated runs: the same settings with other seeds.
struct SampleSpread {
  double mean = 0, deviation = 0;  // of a sample: over n − 1; 0 for one run
  double least = 0, most = 0;
  int runs = 0;
};
SampleSpread spread_of(std::span<const double> values);  // at least one

}  // namespace trireme
