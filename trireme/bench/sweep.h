// Predictions of one step with other values in some places: settings, keys and axes of the plan, hosts. For
// scaling curves, and for "what if".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/line_chart.h"
#include "trireme/bench/prediction.h"

namespace trireme::bench {

// Keys that change together, and what they become.
struct Swept {
  std::vector<std::string> keys;
  std::vector<std::vector<std::string>> values;  // of each point as many as there are keys
};
// "data=8,16,32", or "data,train.batch=8:64,16:128" for keys that change together. A key with a dot is a
// setting; "hosts" are hosts; others are axes of the mesh or keys of the plan. Throws Error.
Swept parse_swept(const std::string& text);

struct SweepBase {
  StepSource source;
  Plan plan;
  Cluster cluster;
  sim::SimOptions options = {};
};

struct SweepPoint {
  std::vector<std::string> values = {};  // of all keys
  Plan plan = {};
  StepSetup setup = {};
  std::optional<Prediction> prediction = {};
  std::string refusal = {};  // why there is none; plan and setup may be missing then too

  // Of the device that has the least room.
  bool fits() const;
};

// All combinations, the last of `swept` changing fastest; `on_point` hears of each as soon as it is there.
// What a plan, the model or the cluster refuses is a point with the reason. Throws Error for a key that is no
// setting and not of the plan, or that comes twice.
std::vector<SweepPoint> sweep(const SweepBase& base, const std::vector<Swept>& swept,
                              const std::function<void(const SweepPoint&)>& on_point);

// What a chart shows of each point.
struct SweepFigure {
  const char* name;   // "step", "rate", "mfu", "memory"
  const char* label;  // of the axis; {} stands for the unit
  LineChart::Scale scale;
  std::string (*text)(double);
  double (*of)(const SweepPoint&);
};
const SweepFigure& sweep_figure(const std::string& name);  // throws Error
std::vector<std::string> sweep_figure_names();

// The figure over the first key's values, a line for each choice of the others.
LineChart sweep_chart(const std::vector<Swept>& swept, const std::vector<SweepPoint>& points,
                      const SweepFigure& figure);

}  // namespace trireme::bench
