// See runner.h. What a drill expects decides what is waited for after the strike.
#include "trireme/chaos/runner.h"

#include <signal.h>

#include <algorithm>
#include <charconv>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/base/text.h"
#include "trireme/chaos/resources.h"
#include "trireme/chaos/strike.h"

namespace trireme::chaos {
namespace {

constexpr double kStartSeconds = 120;     // for a job to make its first steps, on a busy machine
constexpr double kLongest = 60;           // beyond the timeout, for anything that has to come
constexpr int64_t kFirstSteps = 3;        // before a fault
constexpr int64_t kStepsAfter = 20;       // after the last fault, before the job is stopped
constexpr double kSpread = 0.3;           // seconds within which a moment is drawn
constexpr double kTroubleSeconds = 0.5;   // that a disk has no room
constexpr uint64_t kFileOperations = 60;  // of checkpoints, among which one is drawn
constexpr int kLossesBetweenRests = 10;   // of a soak
constexpr double kRestSeconds = 10;
constexpr double kRecovered = 0.95;  // the share of losses of which a time to the next step is promised
constexpr double kLeftSeconds = 5;   // in which the processes of a job have to be gone
constexpr int kStoppedInOrder = 3;   // the exit code

class DrillRun {
 public:
  DrillRun(const ChosenDrill& chosen, uint64_t seed, const SceneOptions& options, Result& result)
      : drill_(*chosen.drill),
        chosen_(chosen),
        key_{seed, stream_id(fmt::format("{} {}{}", chosen.drill->name, chosen.transport, chosen.plan))},
        result_(result),
        scene_(chosen, options) {}

  void play() {
    start();
    switch (drill_.expected) {
      case Expected::kNamed:
        be_named();
        break;
      case Expected::kGoesOn:
      case Expected::kRestarts:
        lose_ranks();
        end_in_order();
        break;
      case Expected::kUnharmed:
        suffer();
        end_in_order();
        break;
      case Expected::kRight:
        if (stay_right()) end_in_order();
        break;
      case Expected::kResumes:
        die_and_resume();
        end_in_order();
        break;
    }
  }
  // After play(): ends the job, and throws Error where something of it is left.
  void check_nothing_left() {
    const std::set<pid_t> processes = job().seen_processes();
    const std::set<std::string> folders = job().seen_folders();
    job().kill();
    std::string left;
    const Clock::time_point begin = Clock::now();
    do {
      left.clear();
      for (const pid_t process : processes) {
        if (kill(process, 0) == 0) left += fmt::format(" process {}", process);
      }
      for (const std::string& folder : folders) {
        if (std::filesystem::exists(folder)) left += " " + folder;
      }
      if (left.empty()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (seconds_since(begin) < kLeftSeconds);
    throw_error("the job left behind:{}", left);
  }

 private:
  double uniform_draw() { return uniform(key_, draws_++ * 4); }
  uint64_t integer_draw() { return random_words(key_, draws_++)[0]; }
  Job& job() { return scene_.job(); }

  void start() {
    scene_.start_job();
    if (drill_.fault == Fault::kStranger) refuse_stranger();
    job().wait_until("start of all ranks", kStartSeconds, [&] { return has_all_ranks(); });
  }

  bool has_all_ranks() { return std::ssize(job().rank_processes()) == drill_.ranks; }

  void await_steps(int64_t more) {
    const int64_t before = job().steps();
    job().wait_until(fmt::format("{} steps", more), kStartSeconds,
                     [&] { return job().steps() >= before + more; });
  }

  void await_phase() {
    if (drill_.phase != Phase::kStart) await_steps(kFirstSteps);
    job().watch_for(kSpread * uniform_draw());
    if (drill_.phase == Phase::kCheckpoint && drill_.expected == Expected::kNamed) {
      job().wait_until("checkpoint being written", kLongest, [&] {
        std::error_code error;
        for (const auto& one : std::filesystem::directory_iterator(scene_.run() / "checkpoints", error)) {
          if (one.path().filename().string().starts_with(".incoming-")) return true;
        }
        return false;
      });
    }
  }

  Strike strike_once() { return strike(scene_, drill_, integer_draw()); }

  // The job ends. A rank that is stopped can not, unless a launcher kills it.
  void be_named() {
    await_phase();
    const Strike strike = strike_once();
    await_name(strike);
    const bool stays = scene_.hosts() && drill_.fault == Fault::kStop;
    job().wait_until(
        "end of all ranks", drill_.timeout + kLongest,
        [&] {
          const std::map<int, pid_t> left = job().rank_processes();
          return stays && left.size() == 1 && left.contains(strike.rank);
        },
        Job::End::kMayCome);
  }

  // Waits until the fault is named, and holds it to its limit.
  void await_name(const Strike& strike) {
    const auto names_it = names_of_fault(drill_, strike, /*has_launcher=*/!scene_.hosts());
    const Line* line = nullptr;
    const auto find = [&] { return (line = job().find_line(strike.at, names_it)) != nullptr; };
    job().wait_until("word of the fault", drill_.timeout + kLongest, find, Job::End::kMayCome);
    if (!find())
      throw_error("the job ended, and did not name rank {}; it said last:\n{}", strike.rank,
                  job().last_lines(12));
    const double seconds = std::chrono::duration<double>(line->at - strike.at).count();
    result_.detections.push_back(seconds);
    if (seconds > drill_.detection)
      throw_error("rank {} was named after {:.2f} s, and {:g} s are promised", strike.rank, seconds,
                  drill_.detection);
  }

  // One fault after the other; after each the job continues, and has all ranks again.
  void lose_ranks() {
    const pid_t launcher = job().children().front()->pid();
    int descriptors = 0;
    const Clock::time_point begin = Clock::now();
    for (int fault = 0; fault < drill_.faults || seconds_since(begin) < chosen_.soak_seconds; ++fault) {
      await_phase();
      if (chosen_.soak_seconds > 0) watch_resources(fault);
      if (fault == 0) descriptors = resources_of(launcher).descriptors;
      const Strike strike = strike_once();
      if (drill_.detection > 0) await_name(strike);
      const Line* again = await_line(strike.at, "goes on after step");
      result_.steps_again = std::max(result_.steps_again, steps_again_in(again->text));
      await_recovery(strike);
      const std::string all = fmt::format("on {} ranks", drill_.ranks);
      job().wait_until("return of all ranks", kStartSeconds, [&] {
        return has_all_ranks() && job().find_line(strike.at, [&](const std::string& text) {
          return text.find("goes on after step") != std::string::npos && text.find(all) != std::string::npos;
        });
      });
      await_steps(kFirstSteps);
    }
    if (const int64_t most = steps_a_loss_may_cost(chosen_); result_.steps_again > most)
      throw_error("a loss cost {} steps, and at most {} are promised", result_.steps_again, most);
    if (const double seconds = percentile(result_.recoveries, kRecovered);
        drill_.recovery > 0 && seconds > drill_.recovery)
      throw_error("{:g} % of the next steps came after up to {:.2f} s, and {:g} s are promised",
                  100 * kRecovered, seconds, drill_.recovery);
    if (const std::string growth = growth_in(result_.resources); !growth.empty())
      throw_error("the job grows. {}", growth);
    if (const int more = resources_of(launcher).descriptors - descriptors; more > 0)
      throw_error("after {} losses the launcher has {} more open files", drill_.faults, more);
  }

  // A job that has all its ranks; now and then it is let alone, so that what grows with steps does.
  void watch_resources(int fault) {
    if (fault % kLossesBetweenRests == kLossesBetweenRests - 1) job().watch_for(kRestSeconds);
    std::vector<pid_t> ranks;
    for (const auto& [rank, process] : job().rank_processes()) ranks.push_back(process);
    result_.resources.push_back(resources_of_job(job().children().front()->pid(), ranks));
  }

  const Line* await_line(Clock::time_point since, std::string_view part) {
    const Line* line = nullptr;
    job().wait_until(fmt::format("line with '{}'", part), drill_.timeout + kLongest,
                     [&] { return (line = job().find_line(since, part)) != nullptr; });
    return line;
  }

  void await_recovery(const Strike& strike) {
    const Clock::time_point known = job().find_line(strike.at, "goes on after step")->at;
    Clock::time_point step;
    job().wait_until("step after the loss", kLongest,
                     [&] { return (step = job().time_of_step_from(known)) != Clock::time_point::max(); });
    const double seconds = std::chrono::duration<double>(step - strike.at).count();
    result_.recoveries.push_back(seconds);
    if (chosen_.soak_seconds > 0) return;  // of many, some may take longer
    if (drill_.recovery > 0 && seconds > drill_.recovery)
      throw_error("the next step came after {:.2f} s, and {:g} s are promised", seconds, drill_.recovery);
  }

  // "…; 3 steps are made again"; 0 where nothing is said of it.
  static int64_t steps_again_in(const std::string& line) {
    const size_t begin = line.rfind("; ");
    int64_t steps = 0;
    if (begin != std::string::npos && line.ends_with("made again"))
      std::from_chars(line.data() + begin + 2, line.data() + line.size(), steps);
    return steps;
  }

  void suffer() {
    const std::map<int, pid_t> before = job().rank_processes();
    await_phase();
    const Strike strike = strike_once();
    if (drill_.detection > 0) {
      await_name(strike);
      job().watch_for(kTroubleSeconds);
      scene_.disarm();
      await_line(Clock::now(), "saved ");
    }
    await_steps(std::max<int64_t>(1, std::min(drill_.steps, kStepsAfter)));
    if (job().rank_processes() != before)
      throw_error("a rank was lost; the job said last:\n{}", job().last_lines(12));
  }

  // What harms nobody need not be found: its numbers are compared at the end. Returns whether the job goes
  // on; where it does not, it has named a rank that was struck.
  bool stay_right() {
    for (int fault = 0; fault < drill_.faults; ++fault) {
      await_phase();
      const Strike strike = strike_once();
      ++result_.struck;
      const int64_t steps = job().steps() + kFirstSteps;
      const auto goes_on = [&] { return job().steps() >= steps; };
      job().wait_until("steps after a flip", kLongest, goes_on, Job::End::kMayCome);
      if (job().find_line(strike.at, names_of_fault(drill_, strike, /*has_launcher=*/true))) {
        ++result_.found;
        await_name(strike);
        if (!goes_on()) return false;
      } else if (!goes_on()) {
        throw_error("the job ended, and did not name rank {}; it said last:\n{}", strike.rank,
                    job().last_lines(12));
      }
    }
    return true;
  }

  void refuse_stranger() {
    Job stranger = scene_.start_stranger();
    if (stranger.wait_for_end(drill_.timeout + kLongest) == 0)
      throw_error("a process with another secret was let into the job");
    if (!stranger.find_line({}, "secret"))
      throw_error("a process with another secret was not told why it was refused; it said:\n{}",
                  stranger.last_lines(8));
    scene_.start_last_rank();
  }

  void die_and_resume() {
    await_line({}, "saved ");
    scene_.kill_at_file(1 + static_cast<int>(integer_draw() % kFileOperations));
    strike_once();
    job().wait_until(
        "file operation to be killed at", kLongest, [&] { return scene_.has_killed(); }, Job::End::kMayCome);
    const std::string saved = newest_saved();
    job().kill();
    scene_.disarm();
    scene_.start_job();
    job().wait_until("start of all ranks", kStartSeconds, [&] { return has_all_ranks(); });
    const Line* resumed = await_line({}, "resumes from ");
    const size_t at = resumed->text.find("step-");
    const std::string from = at == std::string::npos ? "" : resumed->text.substr(at, saved.size());
    if (from < saved) throw_error("the job had saved {}, and resumed from {}", saved, from);
  }

  // "step-00000040", the last one that was announced.
  std::string newest_saved() {
    std::string newest;
    for (const Line& line : job().children().front()->lines()) {
      const size_t at = line.text.find("/step-");
      if (line.text.starts_with("saved ") && at != std::string::npos) newest = line.text.substr(at + 1);
    }
    return newest;
  }

  // Stops the job after some more steps, and compares its numbers.
  void end_in_order() {
    await_steps(1);
    const int64_t made = job().steps();
    if (made < drill_.steps) await_steps(drill_.steps - made);
    for (const auto& child : job().children()) kill(child->pid(), SIGTERM);
    if (const int code = job().wait_for_end(drill_.timeout + kLongest); code != kStoppedInOrder)
      throw_error("the job was asked to stop and ended with exit code {}, not {}; it said last:\n{}", code,
                  kStoppedInOrder, job().last_lines(12));
    if (drill_.same_numbers) compare_losses();
  }

  void compare_losses() {
    const std::map<int64_t, double> losses = read_losses(scene_.run());
    if (losses.empty() || losses.rbegin()->first != std::ssize(losses))
      throw_error("metrics.jsonl has {} steps, the last of which is {}", losses.size(),
                  losses.empty() ? 0 : losses.rbegin()->first);
    const std::map<int64_t, double> expected = scene_.losses_without_faults(std::ssize(losses));
    for (const auto& [step, loss] : losses) {
      if (expected.at(step) != loss)
        throw_error("the loss of step {} is {}, and {} without the fault", step, loss, expected.at(step));
    }
  }

  const Drill& drill_;
  const ChosenDrill chosen_;
  const RngKey key_;
  uint64_t draws_ = 0;
  Result& result_;
  Scene scene_;
};

}  // namespace

Result run_drill(const ChosenDrill& drill, uint64_t seed, const SceneOptions& options) {
  Result result{.drill = drill, .seed = seed, .broken = {}};
  const Clock::time_point begin = Clock::now();
  DrillRun run(drill, seed, options, result);
  try {
    run.play();
    run.check_nothing_left();
  } catch (const Error& error) {
    result.broken = error.what();
  }
  result.seconds = seconds_since(begin);
  return result;
}

}  // namespace trireme::chaos
