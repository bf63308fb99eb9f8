// See calibrate.h; how it is measured is in measurement.cc.
#include "trireme/comm/calibrate/calibrate.h"

#include "trireme/base/error.h"
#include "trireme/comm/calibrate/combine.h"
#include "trireme/comm/calibrate/measurement.h"
#include "trireme/comm/calibrate/share.h"

namespace trireme::comm {

LinkModel measure_links(Context& context, const CalibrationOptions& options) {
  if (context.ranks() < 2)
    throw_error("links are measured between ranks, and there is one alone; -n RANKS starts some");
  Measurement measurement(context, options);
  LinkModel model = combine_links(context, measurement.run());
  if (options.thoroughness == Thoroughness::full) measurement.hold_contests(model);
  return model;
}

LinkModel combine_links(Context& context, std::span<const LinkModel> passes) {
  const LinkModel model = median_of(passes);
  return parse_link_models(text_of_rank_0(context, to_json({&model, 1})), "the links that rank 0 measured")
      .front();
}

LinkModel read_links(Context& context, const std::string& path, MemoryKind memory) {
  std::string text, problem;
  if (context.rank() == 0) {
    try {
      const std::vector<LinkModel> models = read_link_models(path);
      const LinkModel* model = find_link_model(models, context.transport().name(), context.ranks(), memory);
      if (model == nullptr) {
        throw_error(
            "{}: nothing was measured of {} with {} memory; measure it with: trireme bench collectives "
            "-n {} --transport {} --calibrate {}",
            path, context.transport().name(), name(memory), context.ranks(), context.transport().name(),
            path);
      }
      text = to_json({model, 1});
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  // All learn of it, so that all end with the reason rather than by the death of rank 0.
  problem = text_of_rank_0(context, problem);
  if (!problem.empty()) throw Error(problem);
  return parse_link_models(text_of_rank_0(context, text), path).front();
}

}  // namespace trireme::comm
