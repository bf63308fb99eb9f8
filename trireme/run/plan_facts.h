// plan_facts.json of a run's folder: what the plan makes of the model. The mesh, which ranks do the same (a
// stage of a pipeline, a server, the workers), what one rank of each has, keeps and sends, and how parameters
// lie. Reckoned from Programs, so that it is what runs. docs/run_folder.md describes the fields.
#pragma once

#include <functional>
#include <string>

#include "trireme/passes/cut.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"

namespace trireme {

inline constexpr const char* kPlanFactsFile = "plan_facts.json";

// `cut`: of the model, where the plan cuts it. `program` builds that of a rank; it is asked for one rank of
// each stage.
std::string plan_facts_json(const Plan& plan, const Cut& cut,
                            const std::function<Program(int rank)>& program);
// Throws Error where the file can not be written.
void write_plan_facts(const std::string& folder, const Plan& plan, const Cut& cut,
                      const std::function<Program(int rank)>& program);

}  // namespace trireme
