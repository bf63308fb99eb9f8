// `trireme export RUN --to DIR|FILE.onnx`: the model of a run as a Hugging Face folder, or as an ONNX file.
#include "trireme/run/export.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/step_flags.h"
#include "trireme/run/saved_run.h"

namespace trireme::cli {

int export_model(std::span<const std::string> given) {
  CLI::App app(
      "Writes the weights of a run as a folder that Hugging Face's transformers reads (gpt, llama), or as an ONNX file "
      "(onnx).",
      "trireme export");
  std::string run, folder;
  CheckpointChoice choice;
  bool averages = false;
  app.add_option("run", run, "the run's folder")->required();
  add_checkpoint_flag(app, choice);
  app.add_flag("--ema", averages, "the averages of the weights (train.ema)");
  app.add_option("--to", folder,
                 "a new folder for config.json and model.safetensors, or a new file FILE.onnx")
      ->type_name("DIR|FILE.onnx")
      ->required();
  if (const auto code = parse_arguments(app, {given.begin(), given.end()})) return *code;
  SavedRun saved = open_saved_run(run, choice);
  if (averages) take_averages(saved.checkpoint);
  for (const std::string& message : saved.checkpoint.messages) fmt::print(stderr, "{}\n", message);
  if (folder.ends_with(".onnx")) {
    export_onnx(saved.model.options, saved.checkpoint.model, folder);
    fmt::print("{}: {} of {}\n", folder, saved.model.options.path, saved.checkpoint.path);
    return kOk;
  }
  export_hugging_face(saved.model.options, saved.checkpoint.model, folder);
  const bool merged = saved.model.options.lora.rank > 0;
  fmt::print("{}: {} tensors of {} as a Hugging Face folder\n", folder,
             std::ranges::count_if(saved.checkpoint.model.tensors(),
                                   [](const auto& tensor) { return !is_adapter_name(tensor.name); }),
             saved.checkpoint.path);
  if (merged)
    fmt::print("adapters of rank {} are merged into their weights\n", saved.model.options.lora.rank);
  return kOk;
}

}  // namespace trireme::cli
