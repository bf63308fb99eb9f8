// `trireme dashboard [FOLDER…]`: a page with the runs in some folders, until it is stopped.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/output.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/serving.h"
#include "trireme/dashboard/site.h"
#include "trireme/http/http_server.h"

namespace trireme::cli {
std::vector<std::string> folders_or_runs(std::vector<std::string> folders) {
  if (!folders.empty()) return folders;
  if (!std::filesystem::is_directory("runs"))
    throw_error("there is no folder 'runs' here; name a run's folder, or one that holds the folders of runs");
  return {"runs"};
}

int dashboard(std::span<const std::string> arguments) {
  std::vector<std::string> folders, hosts;
  std::string token_file;
  http::ServerOptions server;
  CLI::App app(
      "Serves a page with the runs in some folders: curves, settings, speed, memory, ranks and events, while they "
      "train and after. Ctrl-C ends it.",
      "trireme dashboard");
  app.add_option("folder", folders, "a run's folder, or one that holds the folders of runs; default runs");
  app.add_option("--port", server.port, "default: any that is free")
      ->check(CLI::Range(0, 65535))
      ->type_name("N");
  app.add_option("--bind", server.address,
                 "the address to listen on; others than this machine's own can then reach it")
      ->capture_default_str()
      ->type_name("ADDRESS");
  app.add_option("--allow-host", hosts, "a name that browsers may call this machine by, beside localhost")
      ->type_name("NAME");
  app.add_option("--token-file", token_file,
                 "a file with the token, of 16 characters or more; default: a new one at every start")
      ->type_name("FILE");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  folders = folders_or_runs(folders);
  const std::string token = token_file.empty() ? http::new_token() : http::read_token(token_file);
  dashboard::Site site({.folders = folders}, dashboard::Guard(token, hosts));
  const size_t runs = site.count_runs();
  // Before the server's thread starts, so that they come to this one.
  const sigset_t signals = block_ending_signals();
  const http::HttpServer http(
      server, [&](const http::Request& request, int port) { return site.answer(request, port); });
  say("runs     {} in {}\n", runs, fmt::join(folders, ", "));
  say("page     http://{}:{}/?token={}\n", host_in_address(server.address), http.port(), token);
  say("         who has this address may see the runs; Ctrl-C ends it\n");
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  return kOk;
}

}  // namespace trireme::cli
