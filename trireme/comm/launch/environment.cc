// See environment.h. One function for each launcher says whether its variables are there; the innermost
// launcher wins: a local rank over mpirun, mpirun over torchrun's variables, those over srun, in whose
// allocations the others run.
#include "trireme/comm/launch/environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "trireme/base/enum_name.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::comm {
namespace {

constexpr EnumNames<5> kLauncherNames = {"none", "local", "mpi", "slurm", "torchrun"};

// The variables of one launcher that are set, as they were found.
class Found {
 public:
  Found(const Variables& variables, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const std::optional<std::string> value = variables(name);
      if (!value) {
        missing_.emplace_back(name);
        continue;
      }
      values_.push_back(*value);
      set_.push_back(fmt::format("{}={}", name, printable(*value)));
      names_.emplace_back(name);
    }
  }
  bool any() const { return !set_.empty(); }
  std::string text() const { return trireme::join(set_, ", "); }

  // All must be there, when one is.
  void check_complete(std::string_view launcher) const {
    if (missing_.empty()) return;
    throw_error(
        "only some of the variables of {} are set: found {}, but not {}. Start the ranks with it, or say "
        "--launcher=none to ignore these variables",
        launcher, text(), trireme::join(missing_, ", "));
  }
  const std::string& value(std::string_view name) const {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return values_[i];
    }
    throw_error("{} is not set", name);
  }
  int number(std::string_view name) const {
    const std::string& digits = value(name);
    int result = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result);
    if (error != std::errc() || end != digits.data() + digits.size() || result < 0) {
      throw_error(
          "{} is '{}', which is not a whole number from 0; did another program set it? --launcher=none "
          "ignores it",
          name, printable(digits));
    }
    return result;
  }

 private:
  std::vector<std::string> names_, values_, set_, missing_;
};

void check_rank(const LaunchEnvironment& environment) {
  if (environment.ranks >= 1 && environment.rank < environment.ranks) return;
  throw_error("rank {} of {} ranks was found ({}); ranks count from 0 to one less than their number",
              environment.rank, environment.ranks, environment.found);
}

LaunchEnvironment joined(Launcher launcher, std::string launched_by, const Found& found, const char* rank,
                         const char* ranks) {
  found.check_complete(launched_by);
  LaunchEnvironment environment{.launcher = launcher,
                                .rank = found.number(rank),
                                .ranks = found.number(ranks),
                                .found = found.text(),
                                .launched_by = std::move(launched_by)};
  check_rank(environment);
  return environment;
}

std::optional<LaunchEnvironment> local_rank(const Variables& variables) {
  const Found found(variables, {"TRIREME_RANK", "TRIREME_RANKS", "TRIREME_RENDEZVOUS", "TRIREME_SECRET_FD",
                                "TRIREME_RECORDER_FD"});
  if (!found.any()) return std::nullopt;
  LaunchEnvironment environment =
      joined(Launcher::local, "trireme -n", found, "TRIREME_RANK", "TRIREME_RANKS");
  environment.address = found.value("TRIREME_RENDEZVOUS");
  environment.inherited.secret = found.number("TRIREME_SECRET_FD");
  environment.inherited.recorder = found.number("TRIREME_RECORDER_FD");
  const Found listener(variables, {"TRIREME_LISTEN_FD"});
  if (listener.any()) environment.inherited.listener = listener.number("TRIREME_LISTEN_FD");
  const Found bound(variables, {"TRIREME_PROCESSORS"});
  if (bound.any()) environment.processors = bound.number("TRIREME_PROCESSORS");
  environment.memory = variables("TRIREME_MEMORY").value_or("");
  const Found again(variables, {"TRIREME_AGAIN_SINCE", "TRIREME_AGAIN_BECAUSE"});
  if (again.any()) {
    again.check_complete("trireme -n");
    environment.again = {std::strtod(again.value("TRIREME_AGAIN_SINCE").c_str(), nullptr),
                         again.value("TRIREME_AGAIN_BECAUSE")};
  }
  return environment;
}

std::optional<LaunchEnvironment> open_mpi_rank(const Variables& variables) {
  const Found found(variables, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  if (!found.any()) return std::nullopt;
  return joined(Launcher::mpi, "mpirun (Open MPI)", found, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
}

std::optional<LaunchEnvironment> mpich_rank(const Variables& variables) {
  const Found found(variables, {"PMI_RANK", "PMI_SIZE"});
  if (!found.any()) return std::nullopt;
  return joined(Launcher::mpi, "mpirun (MPICH)", found, "PMI_RANK", "PMI_SIZE");
}

// Where the ranks meet: host:port of MASTER_ADDR and MASTER_PORT.
std::string master_address(const Variables& variables, const Found& found) {
  int port = found.number("MASTER_PORT");
  // torchrun's agent listens at MASTER_PORT itself when it says so; the next one is ours.
  if (variables("TORCHELASTIC_USE_AGENT_STORE") == "True") ++port;
  if (port < 1 || port > 65535) throw_error("MASTER_PORT gives port {}; ports are 1 to 65535", port);
  const std::string& host = found.value("MASTER_ADDR");
  return fmt::format(fmt::runtime(host.find(':') == std::string::npos ? "{}:{}" : "[{}]:{}"), host, port);
}

std::optional<LaunchEnvironment> torchrun_rank(const Variables& variables) {
  const Found found(variables, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  // MASTER_ADDR alone is set by many a login script; a rank or a number of ranks means ranks.
  if (!variables("RANK") && !variables("WORLD_SIZE")) return std::nullopt;
  LaunchEnvironment environment =
      joined(Launcher::torchrun, "torchrun's variables", found, "RANK", "WORLD_SIZE");
  environment.address = master_address(variables, found);
  return environment;
}

std::optional<LaunchEnvironment> slurm_rank(const Variables& variables) {
  // A batch script and its allocation have SLURM_NTASKS and SLURM_PROCID=0 as well; only srun's tasks have a
  // step with a number of tasks, or a PMI.
  const bool in_step = variables("SLURM_STEP_NUM_TASKS") || variables("PMI_RANK") || variables("PMIX_RANK");
  if (!variables("SLURM_PROCID") || !in_step) return std::nullopt;
  const char* ranks = variables("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  const Found found(variables, {"SLURM_PROCID", ranks});
  LaunchEnvironment environment = joined(Launcher::slurm, "srun", found, "SLURM_PROCID", ranks);
  const Found master(variables, {"MASTER_ADDR", "MASTER_PORT"});
  if (variables("PMI_RANK") || variables("PMIX_RANK")) return environment;  // MPI brings them together
  if (!master.any() && environment.ranks > 1) {
    throw_error(
        "srun started {} ranks ({}) but gives them no way to meet: use srun --mpi=pmix (or pmi2), or set "
        "MASTER_ADDR, MASTER_PORT and TRIREME_SECRET",
        environment.ranks, environment.found);
  }
  if (master.any()) {
    master.check_complete("a meeting place");
    environment.address = master_address(variables, master);
  }
  return environment;
}

LaunchEnvironment alone() {
  return {.launched_by = "no launcher"};
}

LaunchEnvironment starter(int ranks) {
  return {.launcher = Launcher::local, .starts_ranks = true, .ranks = ranks, .launched_by = "trireme -n"};
}

std::optional<LaunchEnvironment> mpi_rank(const Variables& variables) {
  std::optional<LaunchEnvironment> open_mpi = open_mpi_rank(variables);
  return open_mpi ? open_mpi : mpich_rank(variables);
}

std::optional<LaunchEnvironment> find_any(const Variables& variables) {
  std::optional<LaunchEnvironment> open_mpi = open_mpi_rank(variables);
  std::optional<LaunchEnvironment> torchrun = torchrun_rank(variables);
  if (open_mpi && torchrun && (open_mpi->rank != torchrun->rank || open_mpi->ranks != torchrun->ranks)) {
    throw_error(
        "two launchers contradict each other: {} ({}) and {} ({}); say --launcher=mpi or "
        "--launcher=torchrun",
        open_mpi->launched_by, open_mpi->found, torchrun->launched_by, torchrun->found);
  }
  if (open_mpi) return open_mpi;
  if (torchrun) return torchrun;
  if (std::optional<LaunchEnvironment> slurm = slurm_rank(variables)) return slurm;
  return mpich_rank(variables);
}

LaunchEnvironment asked_for(Launcher launcher, const Variables& variables, int ranks) {
  std::optional<LaunchEnvironment> found;
  std::string_view wanted;
  switch (launcher) {
    case Launcher::none:
      if (ranks > 1) throw_error("--launcher=none is one rank, but -n asks for {}", ranks);
      return alone();
    case Launcher::local:
      if (ranks < 1) throw_error("--launcher=local needs the number of ranks: -n RANKS");
      return starter(ranks);
    case Launcher::mpi:
      found = mpi_rank(variables);
      wanted = "OMPI_COMM_WORLD_RANK (Open MPI) nor PMI_RANK (MPICH)";
      break;
    case Launcher::slurm:
      found = slurm_rank(variables);
      wanted = "SLURM_PROCID of a step nor a PMI (srun)";
      break;
    case Launcher::torchrun:
      found = torchrun_rank(variables);
      wanted = "RANK nor WORLD_SIZE";
      break;
  }
  if (!found) {
    throw_error(
        "--launcher={} was said, but neither {} is set; start the ranks with it, or leave --launcher out",
        name(launcher), wanted);
  }
  return *found;
}

}  // namespace

std::string_view name(Launcher launcher) {
  return kLauncherNames[static_cast<size_t>(launcher)];
}

Launcher parse_launcher(std::string_view text) {
  if (const auto known = enum_named<Launcher>(kLauncherNames, text)) return *known;
  const std::vector<std::string> names(kLauncherNames.begin(), kLauncherNames.end());
  throw_error("there is no launcher '{}'; known are {}", text, trireme::join(names, ", "));
}

void ElasticRanks::validate() const {
  if (fewest < 1 || most <= fewest)
    throw_error("--elastic is {}:{}; expected the fewest and the most ranks, such as 2:4", fewest, most);
  if (!std::isfinite(grow_after_seconds) || grow_after_seconds < 0)
    throw_error("--grow-after is {}; it is a number of seconds, at least 0", grow_after_seconds);
}

ElasticRanks parse_elastic(std::string_view text) {
  ElasticRanks elastic;
  const char* const end = text.data() + text.size();
  const auto fewest = std::from_chars(text.data(), end, elastic.fewest);
  const bool both = fewest.ec == std::errc() && fewest.ptr != end && *fewest.ptr == ':';
  const auto most = both ? std::from_chars(fewest.ptr + 1, end, elastic.most) : fewest;
  if (!both || most.ec != std::errc() || most.ptr != end)
    throw_error("'{}' is not the fewest and the most ranks; expected two numbers, such as 2:4",
                printable(text));
  elastic.validate();
  return elastic;
}

void LaunchOptions::validate() const {
  if (ranks < 0 || ranks > 4096) throw_error("-n is {}; it is the number of ranks, 1 to 4096", ranks);
  if (restarts < 0) throw_error("--restarts is {}; it is a number of restarts, at least 0", restarts);
  if (elastic) {
    elastic->validate();
    if (ranks != elastic->most)
      throw_error("--elastic {}:{} starts {} ranks, but -n is {}; give the same number to both",
                  elastic->fewest, elastic->most, elastic->most, ranks);
  }
  if (!std::isfinite(timeout_seconds) || timeout_seconds <= 0 || timeout_seconds > 1e6)
    throw_error("--timeout is {}; it is a number of seconds above 0 and up to 1000000", timeout_seconds);
}

Variables process_variables() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

LaunchEnvironment detect(const Variables& variables, const LaunchOptions& options) {
  options.validate();
  // A rank of the local launcher has the launcher's own command line, with its -n and --launcher.
  std::optional<LaunchEnvironment> found = local_rank(variables);
  if (!found && options.launcher) found = asked_for(*options.launcher, variables, options.ranks);
  if (!found) found = find_any(variables);
  if (!found) return options.ranks > 0 ? starter(options.ranks) : alone();
  const bool fewer = options.elastic && found->launcher == Launcher::local && found->ranks < options.ranks;
  if (options.ranks > 0 && found->ranks != options.ranks && !fewer) {
    throw_error(
        "-n asks for {} ranks, but {} has started {} ({}). Leave -n out to join them; --launcher=local "
        "starts local ranks instead",
        options.ranks, found->launched_by, found->ranks, found->found);
  }
  found->secret = variables("TRIREME_SECRET");
  return *found;
}

}  // namespace trireme::comm
