// The text form of When.
#include "trireme/schedule/action_list.h"

#include <charconv>

#include "trireme/base/enum_name.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

using enum When::Kind;

constexpr EnumNames<7> kWhenKinds = {"step", "evaluate", "fill", "every", "until", "asked", "arrival"};
constexpr EnumNames<11> kWhenWhats = {"begin", "meet",   "part",   "tell",    "give",  "mix",
                                      "offer", "answer", "settle", "prefill", "decode"};

// A number in [least, most]; nothing where the word is none.
std::optional<int64_t> number(std::string_view word, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < least || value > most) return {};
  return value;
}
std::optional<int64_t> steps_in(std::string_view word) {
  return number(word, 1, int64_t{1} << 40);
}
std::optional<int64_t> rank_in(std::string_view word) {
  return number(word, 0, 1 << 20);
}

std::optional<When> read(const std::vector<std::string>& words) {
  const std::optional<When::Kind> kind = enum_named<When::Kind>(kWhenKinds, words[0]);
  const size_t count = words.size();
  if (!kind) return {};
  if (*kind == kStep || *kind == kEvaluate || *kind == kFill)
    return count == 1 ? std::optional(When{*kind}) : std::nullopt;
  if (*kind == kUntil) {
    const auto step = count == 2 ? steps_in(words[1]) : std::nullopt;
    return step ? std::optional(When::until(*step)) : std::nullopt;
  }
  if (*kind == kEvery) {
    const auto steps = count == 2 || (count == 4 && words[2] == "first") ? steps_in(words[1]) : std::nullopt;
    const auto first = count == 4 ? steps_in(words[3]) : steps;
    return steps && first ? std::optional(When::every(*steps, *first)) : std::nullopt;
  }
  if (*kind == kArrival) {
    const auto peer = count == 3 && words[1] == "from" ? rank_in(words[2]) : std::nullopt;
    return peer ? std::optional(When::arrival(static_cast<int>(*peer))) : std::nullopt;
  }
  const auto what = count >= 2 ? enum_named<When::What>(kWhenWhats, words[1]) : std::nullopt;
  if (!what || (*what == When::What::kTell) != (count == 3)) return {};
  if (count == 2) return When::asked(*what);
  const auto peer = rank_in(words[2]);
  return peer ? std::optional(When::tell(static_cast<int>(*peer))) : std::nullopt;
}

}  // namespace

int64_t When::last_run(int64_t steps_made) const {
  return kind != kEvery || steps_made < first ? 0 : steps_made - (steps_made - first) % steps;
}

std::string to_string(const When& when) {
  std::string text(kWhenKinds[static_cast<size_t>(when.kind)]);
  if (when.kind == kEvery || when.kind == kUntil) text += fmt::format(" {}", when.steps);
  if (when.kind == kEvery && when.first != when.steps) text += fmt::format(" first {}", when.first);
  if (when.kind == kAsked) text += fmt::format(" {}", kWhenWhats[static_cast<size_t>(when.what)]);
  if (when.kind == kArrival) text += " from";
  if (when.peer >= 0) text += fmt::format(" {}", when.peer);
  return text;
}

When parse_when(std::string_view text) {
  const std::optional<When> when = read(split(text, ' '));
  if (!when)
    throw_error(
        "'{}' does not say when a list is run; step, evaluate, fill, every 4 first 2, until 5, asked meet, "
        "asked tell 3 or arrival from 3 expected",
        text);
  return *when;
}

}  // namespace trireme
