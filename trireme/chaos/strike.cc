// See strike.h.
#include "trireme/chaos/strike.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <regex>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/chaos/process_memory.h"
#include "trireme/checkpoint/safetensors.h"

namespace trireme::chaos {
namespace {

namespace fs = std::filesystem;

constexpr double kPauseShare = 1.0 / 3;  // of the timeout
constexpr size_t kPatternBytes = 256;
constexpr double kFindSeconds = 20;
constexpr uint64_t kMoments = 1000;      // among which one is drawn
constexpr double kChangeSeconds = 0.02;  // in which a small job makes some steps
constexpr int64_t kStepsToNotice = 3;

void send_signal(const Strike& to, int number) {
  if (kill(to.process, number) != 0)
    throw_error("rank {} (process {}) could not be sent signal {}: {}", to.rank, to.process, number,
                std::strerror(errno));
}

// Some numbers of the newest checkpoint, as they lie in memory, of files whose names begin so; nothing where
// it is just being removed.
std::vector<std::byte> saved_numbers(const fs::path& run, const std::string& files) {
  std::error_code error;
  fs::path newest;
  for (const auto& one : fs::directory_iterator(run / "checkpoints", error)) {
    if (one.path().filename().string().starts_with("step-")) newest = std::max(newest, one.path());
  }
  std::vector<std::byte> bytes;
  for (const auto& one : fs::directory_iterator(newest, error)) {
    const std::string file = one.path().filename();
    if (!file.starts_with(files) || !file.ends_with(".safetensors")) continue;
    try {
      const SafetensorsFile tensors(one.path().string());
      for (const StoredTensor& tensor : tensors.tensors()) {
        if (tensor.bytes() < 2 * kPatternBytes || !bytes.empty()) continue;
        bytes.resize(kPatternBytes);
        tensors.read(tensor, tensor.bytes() / 2 / 4 * 4, bytes.data(), bytes.size());
      }
    } catch (const Error&) {
      return {};
    }
  }
  return bytes;
}

// States are those of the newest checkpoint until the next update, so a moment is looked for at which they
// are. A flip that the update at hand has written over did no harm: another one is made.
void flip_state(Scene& scene, Strike& strike, const std::string& files) {
  Job& job = scene.job();
  const auto ends_or_makes = [&](int64_t steps) {
    job.wait_until(
        "step after a flip", kFindSeconds, [&] { return job.steps() >= steps; }, Job::End::kMayCome);
    return job.rank_processes().empty();
  };
  const Clock::time_point begin = Clock::now();
  while (seconds_since(begin) < kFindSeconds) {
    send_signal(strike, SIGSTOP);
    const std::vector<std::byte> numbers = saved_numbers(scene.run(), files);
    std::vector<uint64_t> flipped;
    if (!numbers.empty()) flipped = flip_bit_of(strike.process, numbers);
    strike.at = Clock::now();
    send_signal(strike, SIGCONT);
    const auto is_there = [&](uint64_t address) { return is_bit_set(strike.process, address); };
    if (!flipped.empty() &&
        (ends_or_makes(job.steps() + kStepsToNotice) || std::ranges::any_of(flipped, is_there)))
      return;
    job.watch_for(0.003);
  }
  throw_error("the {} of the newest checkpoint was not found in the memory of rank {}", files, strike.rank);
}

// Where the rank is then is chance: most such numbers are not read again.
void flip_number(Scene& scene, Strike& strike, uint64_t draw) {
  const Clock::time_point begin = Clock::now();
  std::vector<uint64_t> places;
  while (places.empty()) {  // on a busy machine it may stand still for a while
    if (seconds_since(begin) > kFindSeconds)
      throw_error("rank {} seems to compute nothing: no floats change in its memory", strike.rank);
    places = changing_floats(strike.process, [&] { scene.job().watch_for(kChangeSeconds); });
  }
  scene.job().watch_for(kChangeSeconds * static_cast<double>(draw % kMoments) / kMoments);
  send_signal(strike, SIGSTOP);
  strike.at = Clock::now();
  const bool flipped = flip_bit_at(strike.process, places[draw / kMoments / 32 % places.size()],
                                   static_cast<int>(draw / kMoments % 32));
  send_signal(strike, SIGCONT);
  if (!flipped) throw_error("the memory of rank {} could not be written", strike.rank);
}

// Several hosts have no hand on single messages; what the cable does is the fault.
bool strike_cable(Scene& scene, const Drill& drill, const Strike& strike) {
  if (!scene.hosts()) return false;
  if (drill.fault == Fault::kPartition)
    scene.hosts()->cut_cable();
  else if (drill.fault == Fault::kOneWay)
    scene.hosts()->lose_all_from(strike.rank * 2 / drill.ranks);
  else
    return false;
  return true;
}

}  // namespace

Strike strike(Scene& scene, const Drill& drill, uint64_t draw) {
  const std::map<int, pid_t> ranks = scene.job().rank_processes();
  if (ranks.empty())
    throw_error("there is no rank to be struck; the job said last:\n{}", scene.job().last_lines(8));
  const auto& [rank, process] = *std::next(ranks.begin(), static_cast<std::ptrdiff_t>(draw % ranks.size()));
  Strike strike{rank, process, Clock::now()};
  switch (drill.fault) {
    case Fault::kKill:
      send_signal(strike, SIGKILL);
      break;
    case Fault::kCrash:
      send_signal(strike, SIGSEGV);
      break;
    case Fault::kStop:
      send_signal(strike, SIGSTOP);
      break;
    case Fault::kPause:
      send_signal(strike, SIGSTOP);
      scene.job().watch_for(kPauseShare * drill.timeout);
      send_signal(strike, SIGCONT);
      break;
    case Fault::kFlipWeight:
      flip_state(scene, strike, "model");
      break;
    case Fault::kFlipOptimizer:
      flip_state(scene, strike, "optimizer");
      break;
    case Fault::kFlipNumber:
      flip_number(scene, strike, draw / ranks.size());
      break;
    case Fault::kPartition:
    case Fault::kOneWay:
    case Fault::kDiskFull:
    case Fault::kIoError:
    case Fault::kKillAtFile:
    case Fault::kFlipWire:
      if (!strike_cable(scene, drill, strike)) scene.arm(process);
      break;
    case Fault::kSlowLink:
    case Fault::kStranger:
      break;  // is there from the start
  }
  return strike;
}

std::function<bool(const std::string&)> names_of_fault(const Drill& drill, const Strike& strike,
                                                       bool has_launcher) {
  const auto all_of = [](const std::vector<std::string>& patterns) {
    const std::vector<std::regex> compiled(patterns.begin(), patterns.end());
    return [compiled](const std::string& line) {
      return std::ranges::all_of(compiled,
                                 [&](const std::regex& one) { return std::regex_search(line, one); });
    };
  };
  const std::string number = "number [0-9]+";  // of the call in its group
  switch (drill.fault) {
    case Fault::kKill:
    case Fault::kCrash:
      if (has_launcher) return all_of({fmt::format("rank {} was killed by signal", strike.rank)});
      return all_of({fmt::format("rank {} (at .*)?died", strike.rank)});
    case Fault::kStop:
      return all_of({number, fmt::format("(rank|ranks|gone:|silent:|not:)[ 0-9]*\\b{}\\b", strike.rank)});
    case Fault::kPartition:
    case Fault::kOneWay:  // each side may find out first, and names the other
      return all_of({number, "(rank|not:|silent:|gone:) *[0-9]+"});
    case Fault::kFlipWire:  // it was in the payload, or in the header
      return all_of(
          {number,
           fmt::format("got (other bytes than rank {0} sent|from rank {0} what is no frame)", strike.rank)});
    case Fault::kFlipWeight:
    case Fault::kFlipOptimizer:
      return all_of({"should have the same numbers do not",
                     fmt::format("on (rank|ranks)[ 0-9a-z,]*\\b{}\\b", strike.rank)});
    case Fault::kFlipNumber:  // before a sum, after it, at rest, or on its way over tcp
      return all_of({fmt::format(
          "made again and differed: .*(rank {0} in|its way)|memory of rank {0} is at fault|should have the same "
          "numbers do not.* on (rank|ranks)[ 0-9a-z,]*\\b{0}\\b|got other bytes than rank {0} sent",
          strike.rank)});
    case Fault::kDiskFull:
      return all_of({"warning: checkpoint .*No space left on device"});
    case Fault::kIoError:
      return all_of({"warning: checkpoint .*Input/output error"});
    default:
      throw_error("nothing is said of the fault '{}'", name(drill.fault));
  }
}

}  // namespace trireme::chaos
