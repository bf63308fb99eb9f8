// See generator.h. Tokens are read in pieces of a few sizes and texts go on in groups of a few sizes; each
// size is a segment of the Program. Places that are not needed are filled up with rows that see nothing and
// leave nothing.
#include "trireme/run/generator.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/train/state_reach.h"
#include "trireme/train/step.h"

namespace trireme {
namespace {

constexpr int64_t kSmallestPiece = 16, kLargestPiece = 256;

GeneratingShape generating_shape(const Model& model, int texts) {
  GeneratingShape shape{.lines = texts, .texts = {}, .tokens = {std::min(kSmallestPiece, model.options.seq)}};
  for (int64_t tokens = 4 * kSmallestPiece; tokens < model.options.seq && tokens <= kLargestPiece;
       tokens *= 4)
    shape.tokens.push_back(tokens);
  for (int64_t together = 1; together < texts; together *= 2) shape.texts.push_back(together);
  shape.texts.push_back(texts);
  return shape;
}

// A list for each segment, in their order.
Program generating_program(const Model& model, const GeneratingShape& shape, const Device& device) {
  Program program = build_program(generating_graphs(model, shape), workspace_query(device));
  const size_t reads = model.record.decodes == Decodes::kYes ? shape.tokens.size() : 0;
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const std::string& name = program.segments[s].graph.name;
    const When when = When::asked(s < reads ? When::What::kPrefill : When::What::kDecode);
    program.lists.push_back({name, {Action::run(name)}, when});
  }
  return program;
}

}  // namespace

Generator::Generator(const Model& model, Device& device, int texts)
    : model_(model.options),
      decodes_(model.record.decodes == Decodes::kYes),
      executor_(generating_program(model, generating_shape(model, texts), device), device),
      runner_(executor_),
      texts_(static_cast<size_t>(texts)) {
  const GeneratingShape shape = generating_shape(model, texts);
  const ActionList* list = program().lists.data();
  if (decodes_) {
    for (const int64_t tokens : shape.tokens) reads_.push_back({tokens, list++});
  }
  for (const int64_t together : shape.texts) nexts_.push_back({together, list++});
  logits_.resize(static_cast<size_t>(texts * model_.vocab));
}

std::vector<PartView> Generator::weights() {
  std::vector<PartView> parts;
  for (const State& slot : program().states) {
    if (slot.role == Role::kCache) continue;
    parts.push_back({slot.name, view_of(slot), all_of(slot.type.shape), reach_of(executor_, slot.name)});
  }
  return parts;
}

void Generator::check(std::span<const int32_t> prompt) const {
  if (prompt.empty()) throw_error("the prompt is empty; give at least one token to go on from");
  for (int32_t token : prompt) {
    if (token < 0 || token >= model_.vocab)
      throw_error("token {} of the prompt is not below the model's vocabulary of {}", token, model_.vocab);
  }
}

void Generator::begin(int text, std::span<const int32_t> prompt) {
  check(prompt);
  const size_t seq = static_cast<size_t>(model_.seq);
  texts_[text] = {.tokens = {prompt.begin(), prompt.end()},
                  .begin = prompt.size() - std::min(prompt.size(), seq),
                  .known = 0};
}

int64_t Generator::unread(int text) const {
  const Text& one = texts_[text];
  return decodes_ ? std::ssize(one.window()) - 1 - static_cast<int64_t>(one.known) : 0;
}

void Generator::set(int segment, std::string_view name, std::span<const int32_t> values) {
  for (const Value& value : program().segments[segment].graph.values) {
    if (value.kind == Value::Kind::kInput && value.name == name)
      executor_.set_input(segment, name, values.data(), values.size_bytes());
  }
}

void Generator::run(const ActionList& list) {
  const auto before = [&](const Runner::Turn& turn) {
    set(turn.segment, "ids", ids_);
    set(turn.segment, "line", lines_);
    set(turn.segment, "position", first_);
    set(turn.segment, "positions", positions_);
    set(turn.segment, "last", last_);
  };
  const auto after = [&](const Runner::Turn& turn) {
    if (!reads_.empty() && &list <= reads_.back().list) return;
    executor_.read_output(turn.segment, "logits", logits_.data(),
                          lines_.size() * static_cast<size_t>(model_.vocab) * sizeof(float));
  };
  runner_.run(runner_.turns(list), before, after);
}

int64_t Generator::read(int text) {
  Text& one = texts_[text];
  const int64_t left = unread(text);
  if (left <= 0) return 0;
  // The largest piece that is full, or else the smallest.
  const Sized* piece = &reads_[0];
  for (const Sized& larger : reads_) {
    if (larger.size <= left) piece = &larger;
  }
  const int64_t count = std::min(left, piece->size), first = static_cast<int64_t>(one.known);
  ids_.assign(static_cast<size_t>(piece->size), 0);
  std::ranges::copy(one.window().subspan(one.known, static_cast<size_t>(count)), ids_.begin());
  lines_ = {text};
  first_ = {static_cast<int32_t>(first)};
  positions_.resize(ids_.size());
  // What fills up the piece lies behind the text, and gives way to what comes next.
  for (int64_t i = 0; i < piece->size; ++i)
    positions_[i] = static_cast<int32_t>(std::min(first + i, model_.seq - 1));
  run(*piece->list);
  one.known += static_cast<size_t>(count);
  return count;
}

std::span<const float> Generator::next(std::span<const int> texts) {
  TRIREME_CHECK(!texts.empty());
  const Sized& group =
      *std::ranges::find_if(nexts_, [&](const Sized& one) { return one.size >= std::ssize(texts); });
  const size_t width = decodes_ ? 1 : static_cast<size_t>(model_.seq), rows = static_cast<size_t>(group.size);
  ids_.assign(rows * width, 0);
  lines_.assign(rows, 0);
  first_.assign(rows, -1);  // sees nothing and is written nowhere
  positions_.assign(rows, 0);
  last_.assign(rows, 0);
  for (size_t row = 0; row < texts.size(); ++row) {
    Text& one = texts_[texts[row]];
    TRIREME_CHECK(unread(texts[row]) == 0);
    const std::span<const int32_t> window = one.window();
    if (decodes_) {
      ids_[row] = window.back();
      lines_[row] = texts[row];
      first_[row] = positions_[row] = static_cast<int32_t>(window.size() - 1);
      one.known = window.size();
    } else {
      // What follows the text is not seen by what precedes it.
      std::ranges::copy(window, ids_.begin() + static_cast<int64_t>(row * width));
      last_[row] = static_cast<int32_t>(row * width + window.size() - 1);
    }
  }
  run(*group.list);
  return std::span(logits_).first(texts.size() * static_cast<size_t>(model_.vocab));
}

void Generator::append(int text, int32_t token) {
  Text& one = texts_[text];
  one.tokens.push_back(token);
  const size_t seq = static_cast<size_t>(model_.seq);
  if (one.window().size() <= seq) return;
  // Positions count from the window's begin, so moving it by one would make all that is kept worthless.
  one.begin = one.tokens.size() - std::max<size_t>(1, seq / 2);
  one.known = 0;
}

}  // namespace trireme
