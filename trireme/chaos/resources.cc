// See resources.h.
#include "trireme/chaos/resources.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::chaos {
namespace {

constexpr size_t kWindow = 10;  // samples that are the first, and the last
constexpr size_t kMayDiffer = size_t{4} << 20;

struct Watched {
  std::string_view what;
  size_t (*of)(const JobResources&);
  bool is_bytes;
};
constexpr Watched kWatched[] = {
    {"open files of the launcher",
     [](const JobResources& one) { return static_cast<size_t>(one.launcher.descriptors); }, false},
    {"memory of the launcher", [](const JobResources& one) { return one.launcher.resident_bytes; }, true},
    {"open files of a rank",
     [](const JobResources& one) { return static_cast<size_t>(one.rank.descriptors); }, false},
    {"memory of a rank", [](const JobResources& one) { return one.rank.resident_bytes; }, true},
    {"files in /dev/shm", [](const JobResources& one) { return static_cast<size_t>(one.shared_files); },
     false},
    {"bytes in /dev/shm", [](const JobResources& one) { return one.shared_bytes; }, true},
};

std::string number(const Watched& watched, size_t value) {
  return watched.is_bytes ? format_bytes(value) : std::to_string(value);
}

}  // namespace

Resources resources_of(pid_t process) {
  Resources found;
  std::error_code error;
  for ([[maybe_unused]] const auto& one :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process), error))
    ++found.descriptors;
  std::ifstream pages(fmt::format("/proc/{}/statm", process));
  size_t all = 0, resident = 0;
  if (pages >> all >> resident) found.resident_bytes = resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return found;
}

JobResources resources_of_job(pid_t launcher, std::span<const pid_t> ranks) {
  JobResources found{.launcher = resources_of(launcher), .rank = {}};
  for (const pid_t process : ranks) {
    const Resources one = resources_of(process);
    found.rank.descriptors = std::max(found.rank.descriptors, one.descriptors);
    found.rank.resident_bytes = std::max(found.rank.resident_bytes, one.resident_bytes);
  }
  std::error_code error;
  const std::string beginning = fmt::format("trireme-{}-", launcher);
  for (const auto& one : std::filesystem::directory_iterator("/dev/shm", error)) {
    if (!one.path().filename().string().starts_with(beginning)) continue;
    ++found.shared_files;
    const auto add = [&](const std::filesystem::directory_entry& entry) {
      if (const auto bytes = entry.file_size(error); !error) found.shared_bytes += bytes;
    };
    if (!one.is_directory(error)) add(one);
    // Checkpoints come and go meanwhile.
    for (std::filesystem::recursive_directory_iterator entry(one.path(), error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code gone;
      if (!entry->is_regular_file(gone)) continue;
      ++found.shared_files;
      if (const auto bytes = entry->file_size(gone); !gone) found.shared_bytes += bytes;
    }
    error.clear();
  }
  return found;
}

std::string growth_in(std::span<const JobResources> samples) {
  if (samples.size() < 2 * kWindow) return "";
  for (const Watched& watched : kWatched) {
    const size_t most =
        watched.of(*std::ranges::max_element(samples.first(kWindow), std::ranges::less(), watched.of));
    const size_t least =
        watched.of(*std::ranges::min_element(samples.last(kWindow), std::ranges::less(), watched.of));
    if (least > most + (watched.is_bytes ? kMayDiffer : 0))
      return fmt::format("{}: {} at most in the first {} samples, {} at least in the last {}", watched.what,
                         number(watched, most), kWindow, number(watched, least), kWindow);
  }
  return "";
}

std::string text_of(std::span<const JobResources> samples) {
  std::string text;
  for (const Watched& watched : kWatched) {
    const auto median = [&](std::span<const JobResources> some) {
      std::vector<size_t> values;
      for (const JobResources& one : some) values.push_back(watched.of(one));
      std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
      return number(watched, values[values.size() / 2]);
    };
    const size_t window = std::min(kWindow, samples.size());
    if (window == 0) break;
    text += fmt::format("  {}: {}, at the end {}\n", watched.what, median(samples.first(window)),
                        median(samples.last(window)));
  }
  return text;
}

}  // namespace trireme::chaos
