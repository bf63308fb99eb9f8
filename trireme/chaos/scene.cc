// See scene.h.
#include "trireme/chaos/scene.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/base/rng.h"
#include "trireme/chaos/process_memory.h"

namespace trireme::chaos {
namespace {

namespace fs = std::filesystem;

constexpr double kReferenceSeconds = 120, kReferenceEndSeconds = 60;
constexpr double kStrangerTimeout = 1;
constexpr std::string_view kSlow = "1mbit";

fs::path new_folder() {
  std::string path = (fs::temp_directory_path() / "trireme-chaos-XXXXXX").string();
  if (!mkdtemp(path.data())) throw_error("cannot make a folder {}: {}", path, std::strerror(errno));
  return path;
}

void write_text(const fs::path& path) {
  constexpr std::array kWords = {"oar", "mast", "keel", "bank", "row", "pull"};
  std::ofstream file(path);
  for (uint64_t i = 0; i < 4000; ++i) file << kWords[uniform_integer({1, 2}, i, kWords.size())] << ' ';
  if (!file.flush()) throw_error("{} could not be written", path.string());
}

std::string new_secret() {
  std::array<unsigned char, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw_error("no random bytes for a secret: {}", std::strerror(errno));
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// Nobody listens there at the moment.
std::string free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(probe);
  if (!found) throw_error("no free port on 127.0.0.1: {}", std::strerror(errno));
  return std::to_string(ntohs(address.sin_port));
}

bool is_of_checkpoints(const std::string& path) {
  return path.find("/checkpoints/") != std::string::npos;
}

}  // namespace

std::map<int64_t, double> read_losses(const fs::path& run) {
  const fs::path path = run / "metrics.jsonl";
  std::ifstream file(path);
  std::map<int64_t, double> losses;
  for (std::string text; std::getline(file, text);) {
    const auto line = parse_json(text, path.string());
    if (line.is_object() && line.contains("loss") && line.contains("step"))
      losses[line["step"].get<int64_t>()] = line["loss"].get<double>();
  }
  return losses;
}

Scene::Scene(const ChosenDrill& drill, const SceneOptions& options)
    : drill_(*drill.drill),
      transport_(drill.transport),
      plan_(drill.plan),
      options_(options),
      folder_(new_folder()) {
  // Not by this link itself: a rank of another host is started by another program.
  if (options_.executable.empty()) options_.executable = fs::read_symlink("/proc/self/exe");
  write_text(folder_ / "text.txt");
  if (drill.hosts > 1) hosts_.emplace();
  if (hosts_ && drill_.fault == Fault::kSlowLink) hosts_->limit_rate(std::string(kSlow));
}

Scene::~Scene() {
  job_.reset();
  calls_.clear();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::vector<std::string> Scene::command(const fs::path& run, double timeout) const {
  std::vector<std::string> result = {options_.executable,
                                     "train",
                                     fmt::format("--timeout={}", timeout),
                                     fmt::format("--data.path={}", (folder_ / "text.txt").string()),
                                     fmt::format("--run.dir={}", run.string()),
                                     "--model.layers=1",
                                     "--model.heads=2",
                                     "--model.hidden=32",
                                     "--model.seq=16",
                                     "--model.dropout=0.1",
                                     "--train.batch=8",
                                     "--train.threads=1",
                                     "--train.steps=100000000",  // a signal ends it
                                     "--train.eval_every=0",
                                     "--train.log_every=1",
                                     "--run.sample_tokens=0"};
  if (!plan_.empty()) result.push_back("--plan=" + plan_);
  result.insert(result.end(), drill_.arguments.begin(), drill_.arguments.end());
  return result;
}

bool Scene::starts_ranks_by_hand() const {
  return hosts_ || drill_.fault == Fault::kStranger;
}

std::map<std::string, std::string> Scene::variables_of(int rank, const std::string& secret) const {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(drill_.ranks)},
          {"MASTER_ADDR", hosts_ ? TwoHosts::address(0) : "127.0.0.1"},
          {"MASTER_PORT", port_},
          {"TRIREME_SECRET", secret}};
}

void Scene::start_rank(int rank) {
  std::vector<std::string> all =
      hosts_ ? hosts_->prefix(rank * 2 / drill_.ranks) : std::vector<std::string>();
  for (const std::string& part : command(run(), drill_.timeout)) all.push_back(part);
  all.push_back("--transport=tcp");
  job_->start(all, variables_of(rank, secret_));
}

Job& Scene::start_job() {
  job_ = std::make_unique<Job>(starts_ranks_by_hand() ? drill_.ranks : 1);
  calls_.clear();
  if (starts_ranks_by_hand()) {
    secret_ = new_secret();
    port_ = hosts_ ? "29500" : free_port();
    const int now = drill_.ranks - (drill_.fault == Fault::kStranger);
    for (int rank = 0; rank < now; ++rank) start_rank(rank);
    return *job_;
  }
  std::vector<std::string> all = command(run(), drill_.timeout);
  all.push_back(fmt::format("--ranks={}", drill_.ranks));
  all.push_back("--transport=" + transport_);
  if (drill_.fault == Fault::kSlowLink) all.push_back("--link=latency=1ms,bandwidth=1Mbit");
  watch_system_calls();
  job_->start(all, {}, calls_.empty() ? nullptr : calls_.back().get());
  return *job_;
}

std::map<int64_t, double> Scene::losses_without_faults(int64_t steps) {
  const fs::path run = folder_ / "reference";
  Job job(1);
  std::vector<std::string> all = command(run, drill_.timeout);
  all.push_back(fmt::format("--ranks={}", drill_.ranks));
  all.push_back("--transport=shm");
  all.push_back("--train.log_every=50");
  all.push_back("--run.checkpoint_every=0");  // which would take longest
  const Child& launcher = job.start(all);
  job.wait_until("steps without faults", kReferenceSeconds + static_cast<double>(steps),
                 [&] { return std::ssize(read_losses(run)) >= steps; });
  kill(launcher.pid(), SIGTERM);
  job.wait_for_end(kReferenceEndSeconds);
  return read_losses(run);
}

Job Scene::start_stranger() const {
  const int last = drill_.ranks - 1;
  std::vector<std::string> all = hosts_ ? hosts_->prefix(1) : std::vector<std::string>();
  for (const std::string& part : command(folder_ / "stranger", kStrangerTimeout)) all.push_back(part);
  all.push_back("--transport=tcp");
  Job stranger(1);
  stranger.start(all, variables_of(last, new_secret()));
  return stranger;
}

void Scene::start_last_rank() {
  start_rank(drill_.ranks - 1);
}

void Scene::arm(int victim) {
  victim_ = victim;
  operations_ = 0;
  armed_ = true;
}

void Scene::watch_system_calls() {
  const auto watch = [&](SystemCalls::Watched watched) {
    calls_.push_back(std::make_unique<SystemCalls>(
        watched, [this](const SystemCalls::Call& call) { return answer(call); }));
  };
  switch (drill_.fault) {
    case Fault::kDiskFull:
    case Fault::kIoError:
    case Fault::kKillAtFile:
      return watch(SystemCalls::Watched::kFileChanges);
    case Fault::kPartition:
    case Fault::kOneWay:
    case Fault::kFlipWire:
      return watch(SystemCalls::Watched::kMessages);
    default:
      return;
  }
}

// On the thread of a SystemCalls.
SystemCalls::Answer Scene::answer(const SystemCalls::Call& call) {
  using What = SystemCalls::Answer::What;
  if (!armed_) return {};
  switch (drill_.fault) {
    case Fault::kDiskFull:
    case Fault::kIoError:
      if (!is_of_checkpoints(call.path) || call.removes) return {};
      return {What::kFails, drill_.fault == Fault::kDiskFull ? ENOSPC : EIO};
    case Fault::kKillAtFile:
      if (!is_of_checkpoints(call.path) || ++operations_ != fatal_operation_) return {};
      kill(process_of(call.thread), SIGKILL);
      has_killed_ = true;
      return {};
    case Fault::kPartition:
      return {What::kVanishes};
    case Fault::kOneWay:
      return process_of(call.thread) == victim_ ? SystemCalls::Answer{What::kVanishes}
                                                : SystemCalls::Answer{};
    case Fault::kFlipWire:
      if (process_of(call.thread) != victim_ || call.bytes < 1024) return {};
      armed_ = false;  // once
      return {What::kIsFlipped};
    default:
      return {};
  }
}

}  // namespace trireme::chaos
