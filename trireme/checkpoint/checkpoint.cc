// Writing, finding and verifying checkpoints; see checkpoint.h for what is promised. Names that begin with
// a point are on their way in or out, and no reader looks at them.
#include "trireme/checkpoint/checkpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr const char* kIncoming = ".incoming-";
constexpr const char* kOutgoing = ".outgoing-";

// Takes the name away at once, so that no folder under a checkpoint's name is ever partly removed; clean_up()
// removes the contents. Failing to do so costs room, not correctness.
void discard(const fs::path& path) {
  const fs::path outgoing = path.parent_path() / (kOutgoing + path.filename().string());
  std::error_code ignored;
  fs::remove_all(outgoing, ignored);
  fs::rename(path, outgoing, ignored);
}

// `incoming` gets the name, and what had it before the other one: no moment at which a kill leaves neither.
void take_place(const fs::path& incoming, const fs::path& final) {
  if (::renameat2(AT_FDCWD, incoming.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0) return;
  if (fs::exists(final)) discard(final);  // a file system that does not exchange
  fs::rename(incoming, final);
}

// Names, sizes and times of a checkpoint's files: what changes when somebody writes to one.
uint64_t looks_of(const fs::path& folder) {
  std::vector<std::string> looks;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    looks.push_back(fmt::format("{} {} {}", entry.path().filename().string(), entry.file_size(ignored),
                                entry.last_write_time(ignored).time_since_epoch().count()));
  }
  std::ranges::sort(looks);
  const std::string text = join(looks, "\n");
  return hash_of(text.data(), text.size());
}

void verify(const std::string& path, const FileDigest& expected) {
  const FileDigest found = digest_of(FileReader(path));
  if (found.bytes != expected.bytes) {
    throw_error("{}: {} bytes, expected {}", path, found.bytes, expected.bytes);
  }
  if (found.xxh64 != expected.xxh64) {
    throw_error("{}: its checksum is {:016x}, expected {:016x}", path, found.xxh64, expected.xxh64);
  }
}

std::string free_space(const fs::path& path) {
  std::error_code error;
  const fs::space_info space = fs::space(path, error);
  return error ? "an unknown amount" : format_bytes(space.available);
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

std::optional<int64_t> parse_checkpoint_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  int64_t step = 0;
  std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  // Compared with what we would write, which settles digits, leading zeros, signs and overflow at once.
  return step >= 0 && checkpoint_name(step) == name ? std::optional(step) : std::nullopt;
}

Checkpoints::Checkpoints(const std::string& run_dir, int64_t keep, CheckpointPeers peers)
    : path_(fs::path(run_dir) / "checkpoints"), keep_(keep), peers_(std::move(peers)) {
  if (keep < 1) throw_error("{} checkpoints are to be kept; 1 or more expected", keep);
}

std::vector<int64_t> Checkpoints::steps() const {
  std::vector<int64_t> steps;
  try {
    if (!fs::exists(path_)) return steps;
    for (const auto& entry : fs::directory_iterator(path_)) {
      const auto step = parse_checkpoint_name(entry.path().filename().string());
      if (step && entry.is_directory()) steps.push_back(*step);
    }
  } catch (const fs::filesystem_error& error) {
    throw_error("{}: cannot list the checkpoints: {}", path_, error.code().message());
  }
  std::ranges::sort(steps);
  return steps;
}

// In a thread, or at once; poll() says what went wrong.
void Checkpoints::start(Phase phase, Pace pace, const std::function<void()>& body) {
  saving_.phase = phase;
  const auto guarded = [body]() -> std::string {
    try {
      body();
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  };
  if (pace == Pace::kInBackground) {
    job_ = std::async(std::launch::async, guarded);
  } else {
    std::promise<std::string> done;
    done.set_value(guarded());
    job_ = done.get_future();
  }
}

void Checkpoints::begin(const TrainState& state, const CheckpointShare& share, Pace pace) {
  TRIREME_CHECK(!is_under_way());
  const fs::path folder(path_);
  const std::string name = checkpoint_name(state.step);
  saving_ = {state, folder / (kIncoming + name), folder / name,
             bytes_of(share.model) + bytes_of(share.optimizer)};
  start(Phase::kPrepare, Pace::kAtOnce, [this, folder] {
    if (!leads()) return;
    fs::create_directories(folder);
    clean_up();
    fs::create_directory(saving_.incoming);
  });
  end_phase();
  start(Phase::kWrite, pace, [this, share] { write_share(saving_.incoming, share); });
}

std::string Checkpoints::save(const TrainState& state, std::span<const PartView> model,
                              std::span<const PartView> optimizer) {
  begin(state, {peers_.index, peers_.count, model, optimizer}, Pace::kAtOnce);
  return settle();
}

void Checkpoints::begin(const TrainState& state, std::span<const PartView> model,
                        std::span<const PartView> optimizer) {
  if (copy_.take(model, optimizer, peers_.here))
    begin(state, {peers_.index, peers_.count, copy_.model(), copy_.optimizer()}, Pace::kInBackground);
  else
    begin(state, {peers_.index, peers_.count, model, optimizer}, Pace::kAtOnce);
}

std::optional<std::string> Checkpoints::poll() {
  TRIREME_CHECK(is_under_way());
  const bool done = job_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (!peers_.agree(done)) return std::nullopt;
  end_phase();
  if (saving_.phase == Phase::kJoin) return saving_.final;
  start(Phase::kJoin, leads() ? Pace::kInBackground : Pace::kAtOnce, [this] { publish(); });
  return std::nullopt;
}

std::string Checkpoints::settle() {
  for (;;) {
    job_.wait();
    if (const std::optional<std::string> path = poll()) return *path;
  }
}

// The leading peer's work when all shares are there.
void Checkpoints::publish() {
  if (!leads()) return;
  join_shares(saving_.incoming, peers_.count, render_state(saving_.state));
  sync_directory(saving_.incoming);
  take_place(saving_.incoming, saving_.final);
  sync_directory(path_);
  whole_[saving_.state.step] = looks_of(saving_.final);
  try {
    remove_surplus(saving_.state.step);
    clean_up();
  } catch (const Error&) {  // older ones stay, which costs room; this one is there
  }
}

// Of all peers: throws NotSaved when one of them failed.
void Checkpoints::end_phase() {
  const std::string problem = job_.get();
  if (peers_.agree(problem.empty())) return;
  const std::string room = free_space(path_);
  std::error_code ignored;
  if (leads()) fs::remove_all(saving_.incoming, ignored);
  if (problem.empty())
    throw NotSaved(
        fmt::format("checkpoint {} was not written: another rank failed, and says why", saving_.final),
        NotSaved::Where::kOnAnotherRank);
  std::vector<int64_t> left;
  try {
    left = steps();
  } catch (const Error&) {  // the folder itself cannot be read; the first error says more
  }
  const std::string text = fmt::format(
      "checkpoint {} was not written: {}. {} needs {} ({} bytes); {} were free. {}", saving_.final, problem,
      peers_.count == 1 ? "It" : "This rank's share", format_bytes(saving_.bytes), saving_.bytes, room,
      left.empty() ? std::string("There is no earlier checkpoint")
                   : fmt::format("The previous checkpoint, {}, is intact", checkpoint_name(left.back())));
  throw NotSaved(text, NotSaved::Where::kHere);
}

void Checkpoints::clean_up() const {
  std::vector<fs::path> left;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kIncoming) || name.starts_with(kOutgoing)) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove_all(path, ignored);
}

// Comparing with the checksums reads everything, so it is done again only when the files look otherwise.
bool Checkpoints::is_whole(int64_t step) {
  const fs::path folder = fs::path(path_) / checkpoint_name(step);
  const uint64_t looks = looks_of(folder);
  if (const auto known = whole_.find(step); known != whole_.end() && known->second == looks) return true;
  try {
    open_checkpoint(folder);
  } catch (const Error&) {
    return false;
  }
  whole_[step] = looks;
  return true;
}

void Checkpoints::remove_surplus(int64_t newest) {
  constexpr int64_t kAlwaysKept = 2;  // should one turn out to be damaged, a run still goes on
  std::vector<int64_t> found = steps();
  // Newer ones than this belong to a run that went further before it fell back; they do not count, or a
  // damaged one could push out the one just written.
  std::erase_if(found, [&](int64_t step) { return step > newest || always_kept_.contains(step); });
  int64_t surplus = std::ssize(found) - keep_;
  if (surplus <= 0) return;
  const auto remove = [&](int64_t step) {
    discard(fs::path(path_) / checkpoint_name(step));
    whole_.erase(step);
    --surplus;
  };
  std::vector<int64_t> whole;
  for (const int64_t step : found) {
    if (is_whole(step))
      whole.push_back(step);
    else if (surplus > 0)
      remove(step);
  }
  for (int64_t i = 0; surplus > 0 && std::ssize(whole) - i > kAlwaysKept; ++i) remove(whole[i]);
}

LoadedCheckpoint open_checkpoint(const std::string& path, const CheckpointPeers& peers) {
  const fs::path folder(path);
  const auto verify_share = [&](int index, int count) {
    const CheckpointFiles files(folder);
    int number = 0;
    for (const auto& [name, digest] : files.checksums) {
      if (number++ % count == index) verify(folder / name, digest);
    }
    return files;
  };
  bool good = false;
  try {
    verify_share(peers.index, peers.count);
    good = true;
  } catch (const Error&) {  // told below
  }
  if (!peers.agree(good)) {
    verify_share(0, 1);  // so that every peer can say what is wrong
    throw_error("{}: another rank can not read it, or reads something else", path);
  }
  const CheckpointFiles files(folder);
  LoadedCheckpoint loaded{.path = path,
                          .state = parse_state(read_text(files.state), files.state),
                          .model = TensorFiles(files.model),
                          .optimizer = TensorFiles(files.optimizer),
                          .messages = {}};
  for (const TensorFiles* tensors : {&loaded.model, &loaded.optimizer}) {
    for (const SafetensorsFile& file : tensors->files()) {
      if (!files.checksums.contains(fs::path(file.path()).filename()))
        throw_error("{}: no checksum of {}", path, file.path());
    }
  }
  return loaded;
}

std::optional<LoadedCheckpoint> Checkpoints::load_latest() const {
  std::vector<int64_t> candidates = steps();
  if (candidates.empty()) return std::nullopt;
  std::vector<std::string> messages;
  for (; !candidates.empty(); candidates.pop_back()) {
    const std::string name = checkpoint_name(candidates.back());
    try {
      LoadedCheckpoint loaded = open_checkpoint(fs::path(path_) / name, peers_);
      for (std::string& message : messages) message += fmt::format("; continuing from {}", name);
      loaded.messages = std::move(messages);
      return loaded;
    } catch (const Error& error) {
      messages.push_back(fmt::format("checkpoint {} is damaged: {}", name, error.what()));
    }
  }
  throw_error("no checkpoint in {} can be used: {}. Move them away, or set run.resume=never, to start over",
              path_, join(messages, "; "));
}

}  // namespace trireme
