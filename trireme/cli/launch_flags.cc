// See launch_flags.h.
#include "trireme/cli/launch_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::cli {

void add_link_flag(CLI::App& app, std::optional<comm::EmulatedLink>& link) {
  std::vector<std::string> names;
  for (const comm::EmulatedLink& preset : comm::emulated_links()) names.push_back(preset.name);
  app.add_option_function<std::string>(
         "--link",
         [&link](const std::string& text) {
           try {
             link = comm::parse_emulated_link(text);
           } catch (const Error& error) {
             throw CLI::ValidationError("--link", error.what());
           }
         },
         fmt::format("emulate a slower link between ranks: {}, or latency=50ms,bandwidth=100Mbit,jitter=5ms",
                     join(names, ", ")))
      ->type_name("LINK");
}

void add_launch_flags(CLI::App& app, comm::LaunchOptions& options) {
  app.add_option("-n,--ranks", options.ranks, "start this many ranks on this host")
      ->type_name("RANKS")
      ->check(CLI::Range(1, 4096));
  app.add_option_function<std::string>(
         "--launcher",
         [&options](const std::string& text) {
           try {
             options.launcher = comm::parse_launcher(text);
           } catch (const Error& error) {
             throw CLI::ValidationError("--launcher", error.what());
           }
         },
         "override the detected launcher: local, mpi, slurm, torchrun, none")
      ->type_name("WHO");
  app.add_option_function<std::string>(
         "--bind",
         [&options](const std::string& text) {
           if (text != "processors" && text != "none")
             throw CLI::ValidationError("--bind", "'" + text + "' is neither 'processors' nor 'none'");
           options.bind =
               text == "none" ? comm::LaunchOptions::Bind::none : comm::LaunchOptions::Bind::processors;
         },
         "bind each rank of -n to its share of the processors: processors (the default), none")
      ->type_name("TO");
  app.add_option(
         "--transport", options.transport,
         "shm, tcp, mpi, or nccl for training on GPUs; default: the fastest one that reaches all ranks")
      ->type_name("NAME");
  add_link_flag(app, options.link);
  app.add_option("--timeout", options.timeout_seconds, "an operation without progress for this long fails")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option(
         "--secret-file", options.secret_file,
         "shared secret of ranks on several hosts, in place of TRIREME_SECRET: 32 bytes or more, readable only by you")
      ->type_name("FILE");
}

void add_restarts_flag(CLI::App& app, comm::LaunchOptions& options) {
  app.add_option(
         "--restarts", options.restarts,
         "when a rank of -n was killed or is stuck, start all ranks again from the newest checkpoint, up to so "
         "many times in a row; needs run.dir")
      ->type_name("N")
      ->check(CLI::Range(0, 1000));
  app.add_option_function<std::string>(
         "--elastic",
         [&options](const std::string& text) {
           try {
             options.elastic = comm::parse_elastic(text);
             if (options.ranks == 0) options.ranks = options.elastic->most;
           } catch (const Error& error) {
             throw CLI::ValidationError("--elastic", error.what());
           }
         },
         "start the larger number of ranks; after a loss go on with those that are left, from a copy in memory, and "
         "start all again later; needs run.dir")
      ->type_name("MIN:MAX");
  app.add_option_function<double>(
         "--grow-after",
         [&options](double seconds) {
           if (options.elastic) options.elastic->grow_after_seconds = seconds;
         },
         "with --elastic: seconds with fewer ranks before all are started again (60)")
      ->type_name("SECONDS")
      ->needs("--elastic");
}

void take_device_links(comm::LaunchOptions& options, bool on_one_gpu) {
  if (options.transport == "nccl") {
    options.transport.clear();
    options.device_links = comm::DeviceLinks::nccl;
  } else if (on_one_gpu && options.transport.empty() && !options.link) {
    options.device_links = comm::DeviceLinks::in_memory;
  }
}

}  // namespace trireme::cli
