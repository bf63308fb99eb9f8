// What a workflow asks of a variant, measured of a trained run: how long one item takes, how large its output
// is, and how accurate the model is on its held-out data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trireme/place/workflow.h"

namespace trireme::placed {

struct ProfileQuestion {
  std::string run, default_text;
  std::vector<std::pair<std::string, double>>
      workers;                 // classes, and how many times slower than this machine
  int tokens = 0;              // of a text
  int items = 100;             // that are timed
  int64_t batches = 0;         // that accuracy is measured on; 0: all
  std::vector<double> inputs;  // the accuracies of its inputs that are ops, for which the measured one holds
};

struct InferenceProfile {
  std::string name, run, weights, family;
  double median = 0, p90 = 0;  // seconds of an item
  double kilobytes = 0;        // of a message of its output
  double image_kilobytes = 0;  // of an image that it takes; 0: it takes none
  double accuracy = 0;
  int items = 0;
  int64_t samples = 0;
};
InferenceProfile profile_inference(const ProfileQuestion& question);

// A [[op.variant]] of a workflow's file, with the median of an item's times: what else the machine does comes
// and goes. A workflow's `load` leaves room for what takes longer.
std::string to_toml(const ProfileQuestion& question, const InferenceProfile& profile);

}  // namespace trireme::placed
