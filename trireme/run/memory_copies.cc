// See memory_copies.h.
#include "trireme/run/memory_copies.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/base/text.h"
#include "trireme/checkpoint/file_io.h"
#include "trireme/runtime/agree.h"
#include "trireme/train/rank_states.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCopies = 2;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// A name that is no checkpoint's; Checkpoints::clean_up() removes what has it.
fs::path hidden(const fs::path& folder, int64_t step) {
  return folder / (".incoming-" + checkpoint_name(step));
}

// To the disk, as all that is written of a checkpoint.
void write_copy(const fs::path& from, const fs::path& to) {
  const FileReader source(from);
  FileWriter target(to);
  std::vector<char> piece(1 << 20);
  for (uint64_t offset = 0; offset < source.bytes(); offset += piece.size()) {
    const size_t bytes = std::min<uint64_t>(piece.size(), source.bytes() - offset);
    source.read(offset, piece.data(), bytes);
    target.write(piece.data(), bytes);
  }
  target.finish();
}

}  // namespace

MemoryCopies::MemoryCopies(const std::string& folder, int64_t every, CheckpointPeers peers, Trainer& trainer,
                           const RankOptions& ranks)
    : every_(every),
      folder_(folder),
      peers_(peers),
      trainer_(trainer),
      ranks_(ranks),
      copies_(folder, kCopies, std::move(peers)) {}

std::string MemoryCopies::make(int64_t step, const std::function<TrainState()>& state) {
  if (fits_ == Fits::kUnknown) {
    const std::string problem = what_does_not_fit();
    fits_ = peers_.agree(problem.empty()) ? Fits::kYes : Fits::kNo;
    if (fits_ == Fits::kNo) {
      next_ = kNever;
      return problem.empty() ? "no copies in memory: another rank has no room for them" : problem;
    }
  }
  if (fits_ == Fits::kNo) return "no copy in memory: there is no room for it";
  const Clock::time_point begin = Clock::now();
  std::string problem;
  try {
    save(copies_, state(), trainer_, ranks_);
    retry_after_ = 0;
    next_ = step + steps_to_next(step, begin);
  } catch (const NotSaved& error) {
    problem = error.what();
    retry_after_ = std::max<int64_t>(1, 2 * retry_after_);
    next_ = step + retry_after_;
  }
  ended_ = Clock::now();
  counted_from_ = step;
  return problem;
}

// The same on all ranks: of what each would choose, the most.
int64_t MemoryCopies::steps_to_next(int64_t step, Clock::time_point began) const {
  if (every_ > 0) return every_ - step % every_;
  const double copy = seconds_since(began);
  const double of_a_step =
      seconds_between(ended_, began) / static_cast<double>(std::max<int64_t>(1, step - counted_from_));
  const double steps = std::ceil(copy / kShareOfTime / std::max(of_a_step, 1e-9));
  return agreed(ranks_.communicator, ranks_.plan.mesh, static_cast<int32_t>(std::clamp(steps, 1.0, 1e6)),
                Communicator::Reduction::kMax);
}

void MemoryCopies::rewound_to(int64_t step) {
  if (fits_ != Fits::kYes) return;
  const fs::path folder = copies_.path();
  std::error_code ignored;
  // The latest first, and each at once: whenever this rank is killed, what is left are copies to go on from.
  for (std::vector<int64_t> left = copies_.steps(); peers_.index == 0 && !left.empty() && left.back() > step;
       left.pop_back())
    fs::rename(folder / checkpoint_name(left.back()), hidden(folder, left.back()), ignored);
  if (peers_.index == 0) copies_.clean_up();
  next_ = step + 1;
  retry_after_ = 0;
  counted_from_ = step;
  ended_ = Clock::now();
}

// While a copy is made, there are the two before it as well. Linux ends a process that uses too much memory,
// so half of what is available is left, as for copies of checkpoints (parts_copy.h).
std::string MemoryCopies::what_does_not_fit() const {
  const RankStates share = states_to_write(trainer_, ranks_);
  const size_t needed = (bytes_of(share.model) + bytes_of(share.optimizer)) * (kCopies + 1);
  std::error_code error;
  const fs::space_info space = fs::space(folder_, error);
  const size_t there = std::min<size_t>(error ? 0 : space.available, available_memory_bytes() / 2);
  if (needed <= there / static_cast<size_t>(peers_.here)) return "";
  return fmt::format(
      "no copies in memory: {} of them take {} on each of {} ranks here, and {} may have {} in all. A loss "
      "costs the steps since the last checkpoint on disk",
      kCopies + 1, format_bytes(needed), peers_.here, folder_, format_bytes(there));
}

std::optional<LoadedCheckpoint> MemoryCopies::load_after(int64_t step) const {
  const std::vector<int64_t> steps = copies_.steps();
  if (steps.empty() || steps.back() <= step) return std::nullopt;
  try {
    std::optional<LoadedCheckpoint> copy = copies_.load_latest();
    if (copy && copy->state.step > step) return copy;
  } catch (const Error&) {  // none is whole: what is on disk counts
  }
  return std::nullopt;
}

std::string rescue_copy(const std::string& memory, const std::string& run_dir) {
  const Checkpoints copies(memory, kCopies), saved(run_dir, kCopies);
  const std::vector<int64_t> steps = saved.steps();
  for (std::vector<int64_t> found = copies.steps(); !found.empty(); found.pop_back()) {
    if (!steps.empty() && steps.back() >= found.back()) return "";
    const std::string name = checkpoint_name(found.back());
    const fs::path from = fs::path(copies.path()) / name, folder(saved.path());
    const fs::path incoming = hidden(folder, found.back());
    try {
      open_checkpoint(from);
    } catch (const Error&) {
      continue;  // the one before
    }
    try {
      fs::create_directories(folder);
      fs::remove_all(incoming);
      fs::create_directory(incoming);
      for (const fs::directory_entry& file : fs::directory_iterator(from))
        write_copy(file.path(), incoming / file.path().filename());
      sync_directory(incoming);
      fs::rename(incoming, folder / name);
      sync_directory(folder);
    } catch (const fs::filesystem_error& error) {
      throw_error("{}: the copy of step {} in memory could not be saved: {}", folder.string(), found.back(),
                  error.code().message());
    }
    return folder / name;
  }
  return "";
}

}  // namespace trireme
