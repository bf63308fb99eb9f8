// See context.h. This file: groups. join.cc: how a context comes about.
#include "trireme/comm/context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "trireme/base/error.h"
#include "trireme/comm/collective/choose.h"

namespace trireme::comm {
namespace {

// A number below 2^31 that is the same on all ranks: FNV-1a, folded.
uint32_t number_of(std::string_view text) {
  uint32_t hash = 2166136261u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return (hash ^ hash >> 31) & 0x7fffffffu;
}

}  // namespace

Group Context::world() {
  return group("world", all_ranks(ranks()));
}

uint32_t Context::number_group(const std::string& name, const std::vector<int>& members) {
  std::string identity = fmt::format("{}: {}", name, fmt::join(members, " "));
  identity += fmt::format("; {}", made_[identity]++);
  const uint32_t number = number_of(identity);
  const auto [entry, is_new] = groups_.emplace(number, identity);
  if (!is_new) {
    throw_error("the groups '{}' and '{}' get the same number by chance; give one of them another name",
                entry->second, identity);
  }
  return number;
}

Group Context::group(const std::string& name, const std::vector<int>& members) {
  const uint32_t number = number_group(name, members);
  GroupOptions options{
      .timeout_seconds = parts_.timeout_seconds, .recorder = parts_.recorder.get(), .name = name};
  for (int member : members) {
    // Members that are no ranks are refused by the group itself.
    const bool known = member >= 0 && member < ranks();
    options.hosts.push_back(known ? parts_.hosts[static_cast<size_t>(member)] : 0);
  }
  if (links_) options.chooser = make_chooser(*links_, options.hosts);
  return Group(*parts_.transport, number, members, std::move(options));
}

int Context::rank_here() const {
  const auto own = parts_.hosts.begin() + rank();
  return static_cast<int>(std::count(parts_.hosts.begin(), own, *own));
}

std::string Context::summary() const {
  const auto count = [](int number, std::string_view noun) {
    return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
  };
  const int hosts = static_cast<int>(std::set<int>(parts_.hosts.begin(), parts_.hosts.end()).size());
  const std::string bound =
      parts_.processors > 0 ? fmt::format(", {} each", count(parts_.processors, "processor")) : "";
  const std::string link = parts_.link.empty() ? "" : fmt::format(" as if over a link ({})", parts_.link);
  const std::string_view devices = parts_.device_links == DeviceLinks::nccl ? "nccl between GPUs and " : "";
  return fmt::format("{} on {}, transport {}{}{}, launched by {}{}", count(ranks(), "rank"),
                     count(hosts, "host"), devices, parts_.transport->name(), link, parts_.launched_by,
                     bound);
}

}  // namespace trireme::comm
