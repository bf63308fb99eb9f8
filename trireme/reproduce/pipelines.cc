// See pipelines.h.
#include "trireme/reproduce/pipelines.h"

#include <algorithm>

#include "trireme/schedule/pipeline_table.h"
#include "trireme/schedule/verify_pipeline.h"

namespace trireme::reproduce {

Timeline timeline_of(std::string_view schedule, const PipelineShape& shape) {
  const Pipeline pipeline = make_pipeline(find_schedule(schedule), shape);
  return timeline(pipeline, {.chunks = {per_chunk({1, 1, 1}, pipeline)}});
}

double most_kept(std::string_view schedule, const PipelineShape& shape) {
  const Pipeline pipeline = make_pipeline(find_schedule(schedule), shape);
  const double of_chunks = static_cast<double>(std::ranges::max(verify(pipeline).live));
  return of_chunks * pipeline.stages() / pipeline.chunks;
}

double messages_of(std::string_view schedule, const PipelineShape& shape) {
  const Pipeline pipeline = make_pipeline(find_schedule(schedule), shape);
  const auto holder = [&](int chunk) {
    return std::ranges::find_if(pipeline.holds, [&](const std::vector<int>& chunks) {
      return std::ranges::find(chunks, chunk) != chunks.end();
    });
  };
  double boundaries = 0;
  for (int chunk = 0; chunk + 1 < pipeline.chunks; ++chunk) boundaries += holder(chunk) != holder(chunk + 1);
  return 2 * boundaries * static_cast<double>(pipeline.microbatches);
}

}  // namespace trireme::reproduce
