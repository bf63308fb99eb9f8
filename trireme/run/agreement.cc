// Facts are compared by their hash, which is all that is sent when they agree; only when they do not, every
// rank's facts are gathered to find out where.
#include "trireme/run/agreement.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/text.h"
#include "trireme/checkpoint/file_io.h"
#include "trireme/comm/group.h"
#include "trireme/run/config_fields.h"
#include "trireme/run/run_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr size_t kToldAtOnce = 6;  // names in one message

// Two builds of the same version need not round alike.
std::string program_text() {
  const std::string program = fmt::format("trireme {}", version());
  try {
    return fmt::format("{}, XXH64 {:016x}", program, digest_of(FileReader("/proc/self/exe")).xxh64);
  } catch (const Error&) {  // no /proc
    return program;
  }
}

std::string data_text(const DataSet& data, const Shape& sample, uint64_t hash) {
  return fmt::format("{} samples of {}, XXH64 {:016x}", data.size(), to_string(sample), hash);
}

uint64_t hash_of_facts(const Facts& facts) {
  uint64_t hash = 0;
  for (const Fact& fact : facts) {
    hash = hash_of(fact.name.data(), fact.name.size(), hash);
    hash = hash_of(fact.value.data(), fact.value.size(), hash);
  }
  return hash;
}

std::string render(const Facts& facts) {
  json list = json::array();
  for (const Fact& fact : facts) list.push_back({fact.name, fact.value, fact.origin});
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

// By name; the order is lost.
std::map<std::string, Fact> parse(std::string_view text) {
  std::map<std::string, Fact> facts;
  for (const json& item : json::parse(text)) {
    const Fact fact{item[0].get<std::string>(), item[1].get<std::string>(), item[2].get<std::string>()};
    facts[fact.name] = fact;
  }
  return facts;
}

// "optim.lr is 0.002 on rank 0 (default) and 0.01 on ranks 1 and 2 (environment TRIREME_OPTIM__LR)"; "" when
// all have the same.
std::string difference(const std::string& name, const std::vector<std::map<std::string, Fact>>& facts) {
  std::vector<std::pair<Fact, std::vector<int>>> values;
  for (size_t rank = 0; rank < facts.size(); ++rank) {
    const auto found = facts[rank].find(name);
    const Fact fact = found == facts[rank].end() ? Fact{name, "not there"} : found->second;
    const auto same = std::ranges::find(values, fact.value, [](const auto& v) { return v.first.value; });
    if (same == values.end())
      values.push_back({fact, {static_cast<int>(rank)}});
    else
      same->second.push_back(static_cast<int>(rank));
  }
  if (values.size() == 1) return "";
  std::vector<std::string> parts;
  for (const auto& [fact, ranks] : values) {
    parts.push_back(fmt::format("{} on {}{}", fact.value, ranks_text(ranks),
                                fact.origin.empty() ? "" : fmt::format(" ({})", fact.origin)));
  }
  return fmt::format("{} is {}", name, join(parts, ", "));
}

}  // namespace

std::span<const std::string_view> local_settings() {
  static constexpr std::string_view kLocal[] = {
      "data.path", "data.tokenizer_path", "train.threads", "train.log_every", "run.dir", "run.sample_tokens"};
  return kLocal;
}

Facts facts_of(const ResolvedConfig& resolved, const Plan& plan) {
  Facts facts;
  Config config = resolved.config;
  for (const Field& field : config_fields(config)) {
    if (std::ranges::find(local_settings(), field.name) != local_settings().end()) continue;
    const auto origin = resolved.origins.find(field.name);
    facts.push_back({field.name, value_text(field), origin == resolved.origins.end() ? "" : origin->second});
  }
  facts.push_back({"plan", json::parse(to_json(plan)).dump()});  // on one line
  facts.push_back({"program", program_text()});
  return facts;
}

Facts facts_of(const OpenedData& data) {
  return {{"training data", data_text(*data.train, data.input, data.train_hash)},
          {"held-out data",
           data.validation ? data_text(*data.validation, data.input, data.validation_hash) : "none"}};
}

void require_agreement(const Facts& facts, comm::Group& world) {
  std::vector<int64_t> hashes(static_cast<size_t>(world.size()));
  hashes[static_cast<size_t>(world.rank())] = static_cast<int64_t>(hash_of_facts(facts));
  world.all_gather(hashes.data(), world.size(), DType::i64).wait();
  if (std::ranges::all_of(hashes, [&](int64_t hash) { return hash == hashes[0]; })) return;

  std::vector<std::map<std::string, Fact>> all;
  for (const std::string& text : comm::gather_texts(render(facts), world)) all.push_back(parse(text));
  std::vector<std::string> names, told;
  for (const Fact& fact : facts) names.push_back(fact.name);
  for (const auto& [name, fact] : all.back()) {  // another program may have others
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  for (const std::string& name : names) {
    if (std::string text = difference(name, all); !text.empty()) told.push_back(std::move(text));
  }
  if (world.rank() != 0) {
    throw comm::PeerError(comm::Failure::mismatch, 0,
                          "the ranks were not started to do the same; rank 0 says what differs");
  }
  const size_t more = told.size() - std::min(told.size(), kToldAtOnce);
  told.resize(told.size() - more);
  throw_error(
      "the ranks were not started to do the same: {}{}. Give all of them the same settings, plan, data and "
      "program; docs/launching.md has the few that may differ",
      join(told, "; "), more > 0 ? fmt::format("; and {} more", more) : "");
}

std::string ranks_text(std::span<const int> ranks) {
  constexpr size_t kListed = 16;
  std::vector<std::string> numbers;
  for (size_t i = 0; i < ranks.size() && i < kListed; ++i) numbers.push_back(fmt::format("{}", ranks[i]));
  if (ranks.size() > kListed) return fmt::format("{} ranks ({}, …)", ranks.size(), join(numbers, ", "));
  const std::string last = numbers.back();
  numbers.pop_back();
  return numbers.empty() ? "rank " + last : fmt::format("ranks {} and {}", join(numbers, ", "), last);
}

}  // namespace trireme
