// See parity_table.h. One rank's run is made once for each model, column and number of microbatches, and all
// plans are held against it.
#include "trireme/cli/parity_table.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/bench/step_setup.h"
#include "trireme/models/random_batch.h"
#include "trireme/schedule/pipeline_table.h"

namespace trireme::cli {
namespace {

constexpr int kSteps = 2;
constexpr int kRows = 8;  // of a microbatch: enough for 8 ranks, uneven for 3

std::vector<ParityModel> models() {
  return {
      {"mlp",
       "1x6x6",
       {"model.family=mlp", "model.layers=3", "model.hidden=24", "model.classes=5", "model.dropout=0.1"}},
      {"resnet-20", "3x8x8", {"model.family=resnet", "model.layers=20", "model.classes=5"}},
      {"lstm",
       "",
       {"model.family=lstm", "model.layers=2", "model.hidden=16", "model.vocab=29", "model.seq=6",
        "model.dropout=0.1"}},
      {"gpt-2",
       "",
       {"model.family=gpt", "model.layers=2", "model.heads=4", "model.hidden=16", "model.vocab=32",
        "model.seq=8", "model.dropout=0.1"}},
      {"llama",
       "",
       {"model.family=llama", "model.layers=2", "model.heads=8", "model.kv_heads=4", "model.hidden=32",
        "model.feed_forward=24", "model.vocab=32", "model.seq=8"}},
  };
}

std::vector<ParityPlan> plans() {
  const auto plan = [](std::string name, std::string_view mesh, std::string_view preset) {
    return ParityPlan{std::move(name), fmt::format(R"({{"mesh": "{}", "preset": "{}"}})", mesh, preset)};
  };
  return {
      plan("data 2", "data:2", "data"),
      plan("data 3", "data:3", "data"),
      plan("data 4", "data:4", "data"),
      plan("data 8", "data:8", "data"),
      plan("tensor 2", "tensor:2", "megatron"),
      plan("tensor 4", "tensor:4", "megatron"),
      plan("sequence 2", "tensor:2", "megatron+sequence"),
      plan("sequence 4", "tensor:4", "megatron+sequence"),
      plan("zero1 3", "data:3", "zero1"),
      plan("zero2 3", "data:3", "zero2"),
      plan("zero3 3", "data:3", "zero3"),
      plan("zero3 4", "data:4", "zero3"),
      plan("data 2 × tensor 2", "data:2 tensor:2", "megatron"),
      plan("data 2 × tensor 2 × zero1", "data:2 tensor:2", "megatron+zero1"),
      plan("data 2 × tensor 2 × zero3", "data:2 tensor:2", "megatron+zero3"),
      plan("data 2 × sequence 2 × zero3", "data:2 tensor:2", "megatron+sequence+zero3"),
      plan("hybrid_cnn 2", "tensor:2", "hybrid_cnn"),
      plan("data 2 × hybrid_cnn 2", "data:2 tensor:2", "hybrid_cnn"),
  };
}

std::string rate_of(const std::string& optimizer) {
  return optimizer == "momentum" ? "0.1" : optimizer == "lamb" ? "0.01" : "0.001";
}

// Every model has units enough for four stages of two chunks.
std::vector<ParityModel> deep_models() {
  return {
      {"resnet-20", "3x8x8", {"model.family=resnet", "model.layers=20", "model.classes=5"}},
      {"lstm",
       "",
       {"model.family=lstm", "model.layers=8", "model.hidden=8", "model.vocab=29", "model.seq=4",
        "model.dropout=0.1"}},
      {"gpt-2",
       "",
       {"model.family=gpt", "model.layers=8", "model.heads=2", "model.hidden=16", "model.vocab=32",
        "model.seq=8", "model.dropout=0.1"}},
      {"llama",
       "",
       {"model.family=llama", "model.layers=8", "model.heads=4", "model.kv_heads=2", "model.hidden=16",
        "model.feed_forward=24", "model.vocab=32", "model.seq=8"}},
  };
}

std::vector<ParityPlan> pipelines() {
  std::vector<ParityPlan> plans;
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    if (schedule.updates != PipelineSchedule::Updates::kAfterStep) continue;
    for (const int stages : {2, 3, 4}) {
      for (const int microbatches : {stages, 2 * stages}) {
        for (const char* recompute : {"none", "full", "selective"})
          plans.push_back(
              {fmt::format("{} p {} m {} recompute {}", schedule.name, stages, microbatches, recompute),
               fmt::format(R"({{"mesh": "pipe:{}", "schedule": "{}", "recompute": "{}"}})", stages,
                           schedule.name, recompute),
               microbatches});
      }
    }
  }
  for (const char* preset :
       {"zero1+megatron", "zero2+megatron", "megatron+sequence", "zero1+megatron+sequence"})
    plans.push_back({fmt::format("1f1b p 2 m 4 × data 2 × tensor 2, {}", preset),
                     fmt::format(R"({{"mesh": "pipe:2 data:2 tensor:2", "preset": "{}"}})", preset), 4});
  return plans;
}

parity::Training training_of(const ParityModel& model, const ParityColumn& column) {
  bench::StepSource source{.config_path = "", .preset = "", .image = model.image, .settings = model.settings};
  const std::vector<std::string> more = {
      "train.precision=" + column.precision, "train.accumulate=" + std::to_string(column.accumulate),
      "train.batch=" + std::to_string(kRows * column.accumulate), "optim.kind=" + column.optimizer,
      "optim.lr=" + rate_of(column.optimizer)};
  source.settings.insert(source.settings.end(), more.begin(), more.end());
  const bench::StepSetup setup = bench::set_up_step(source);
  parity::Training training{setup.config.model, setup.config.train, setup.config.optim, setup.shape, {}, {}};
  for (int step = 0; step < kSteps; ++step) {
    ignore_some_targets(
        training.batches.emplace_back(bench::random_batch(setup, static_cast<uint64_t>(step))));
    training.rates.push_back(setup.config.optim.lr);
  }
  return training;
}

parity::Result verify_plan(parity::Reference& reference, const ParityPlan& text) {
  Plan plan;
  try {
    plan = parse_plan(text.json, "the plan");
  } catch (const Error& error) {
    return {.verdict = parity::Verdict::kRefused, .reason = error.what()};
  }
  try {
    return parity::verify(reference, plan);
  } catch (const Error& error) {  // of ranks on their way: nobody refused
    return {.verdict = parity::Verdict::kBug, .reason = error.what()};
  }
}

}  // namespace

ParityTable pipeline_table() {
  return {deep_models(), pipelines(), {{"f32", 0, "adamw"}, {"bf16", 0, "adamw"}}};
}

ParityTable layout_table() {
  ParityTable table{models(), plans(), {}};
  for (const char* precision : {"f32", "bf16"}) {
    for (const int accumulate : {1, 4}) {
      for (const char* optimizer : {"adamw", "lamb", "momentum"})
        table.columns.push_back({precision, accumulate, optimizer});
    }
  }
  return table;
}

void fill(const ParityTable& table, const std::string& filter,
          const std::function<void(const ParityCell&)>& report) {
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t unit = next++; unit < table.models.size() * table.columns.size(); unit = next++) {
      const size_t model = unit / table.columns.size(), column = unit % table.columns.size();
      std::map<int, parity::Reference> references;  // by the number of microbatches
      for (size_t plan = 0; plan < table.plans.size(); ++plan) {
        const std::string name = table.models[model].name + " " + table.plans[plan].name;
        if (name.find(filter) == name.npos) continue;
        ParityColumn with = table.columns[column];
        if (const int own = table.plans[plan].accumulate; own > 0) with.accumulate = own;
        auto reference = references.find(with.accumulate);
        if (reference == references.end())
          reference = references.try_emplace(with.accumulate, training_of(table.models[model], with)).first;
        const ParityCell cell{model, plan, column, verify_plan(reference->second, table.plans[plan])};
        const std::lock_guard lock(mutex);
        report(cell);
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

std::string to_markdown(const ParityTable& table, const std::vector<ParityCell>& cells) {
  std::map<std::pair<size_t, size_t>, std::vector<const ParityCell*>> rows;
  for (const ParityCell& cell : cells) {
    auto& row = rows[{cell.model, cell.plan}];
    row.resize(table.columns.size());
    row[cell.column] = &cell;
  }
  std::string head = "| model | plan |", rule = "|---|---|", body;
  for (const ParityColumn& column : table.columns) {
    head += column.accumulate > 0
                ? fmt::format(" {} ×{} {} |", column.precision, column.accumulate, column.optimizer)
                : fmt::format(" {} {} |", column.precision, column.optimizer);
    rule += "---|";
  }
  std::vector<std::string> notes;
  std::map<parity::Verdict, int> counts;
  for (const auto& [where, row] : rows) {
    body += fmt::format("| {} | {} |", table.models[where.first].name, table.plans[where.second].name);
    double worst = 0;
    for (const ParityCell* cell : row) {
      if (!cell) {
        body += " |";
        continue;
      }
      const parity::Result& result = cell->result;
      ++counts[result.verdict];
      worst = std::max(worst, result.worst);
      body += fmt::format(" {}", parity::name(result.verdict));
      if (!result.reason.empty()) {
        auto note = std::ranges::find(notes, result.reason);
        if (note == notes.end()) note = notes.insert(notes.end(), result.reason);
        body += fmt::format(" ({})", note - notes.begin() + 1);
      }
      body += " |";
    }
    body += fmt::format(" {:.2f} |\n", worst);
  }
  std::string text = fmt::format("{} worst |\n{}---|\n{}\n", head, rule, body);
  for (size_t i = 0; i < notes.size(); ++i) text += fmt::format("{}. {}\n", i + 1, notes[i]);
  text += notes.empty() ? "" : "\n";
  std::string sum;
  for (const auto& [verdict, count] : counts)
    sum += fmt::format("{}{} {}", sum.empty() ? "" : ", ", count, parity::name(verdict));
  return text + fmt::format("{} cells: {}.\n", cells.size(), sum);
}

}  // namespace trireme::cli
