// What an operation that can not end says: which call of which group, how far, and who has and has not come.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/text.h"
#include "trireme/comm/engine/engine.h"
#include "trireme/comm/engine/recorder.h"

namespace trireme::comm {
namespace {

// For finding out who has come, once it is clear that the operation has failed.
constexpr auto kAskSeconds = std::chrono::milliseconds(200);

// Of the timeout, for a peer that can be done without: others may wait for this rank as long as it waits for
// that one, and must not give up first.
constexpr double kPatienceWithExpendable = 0.75;

}  // namespace

void Engine::refuse_if_failed() const {
  if (failure_) throw *failure_;
}

const PeerError* Engine::lost(const Operation& operation) const {
  const Recipe& recipe = operation.recipe;
  return recipe.call.collective == Collective::message ? transport_.lost(recipe.lanes[0].peer) : nullptr;
}

void Engine::let_go(Operation& operation) {
  unlink(operation);
  operation.state = Operation::State::failed;
  if (options_.recorder != nullptr) options_.recorder->failed(operation.record, read_ticks());
}

void Engine::refuse(const Operation& operation) const {
  refuse_if_failed();
  const PeerError* error = lost(operation);
  TRIREME_CHECK(error != nullptr);
  throw PeerError(error->failure(), error->rank(), fmt::format("{}: {}", describe(operation), error->what()));
}

// "all_reduce of 1,024 f32, sum, by ring (group world, number 17, 4.0 KiB)"
std::string Engine::describe(const Operation& operation) const {
  const Recipe& recipe = operation.recipe;
  std::string text = to_text(recipe.call);
  if (recipe.call.collective == Collective::message) {
    const Lane& lane = recipe.lanes[0];
    text += fmt::format(" {} rank {}", lane.kind == Step::Kind::send ? "to" : "from", lane.peer);
  }
  return fmt::format("{} (group {}, number {}, {})", text, options_.name,
                     static_cast<uint32_t>(operation.label.stream), format_bytes(recipe.bytes));
}

// "; arrived: 0 1 3; not: 2", in ranks of the job.
std::string Engine::who_arrived(const Operation& operation) {
  if (operation.recipe.call.collective == Collective::message) return "";
  const std::vector<Arrival> arrivals =
      transport_.arrivals(operation.label.stream, members_, Clock::now() + kAskSeconds);
  std::vector<int> lists[4];
  for (size_t i = 0; i < members_.size(); ++i) lists[static_cast<int>(arrivals[i])].push_back(members_[i]);
  std::string text;
  const auto add = [&](std::string_view what, Arrival arrival) {
    const std::vector<int>& ranks = lists[static_cast<int>(arrival)];
    if (!ranks.empty()) text += fmt::format("; {}: {}", what, fmt::join(ranks, " "));
  };
  add("arrived", Arrival::arrived);
  add("not", Arrival::not_arrived);
  add("silent", Arrival::silent);
  add("gone", Arrival::gone);
  return text;
}

void Engine::fail_live() {
  for (Operation* operation = transport_.live().first; operation != nullptr;) {
    Operation* const next = operation->next;
    if (&operation->engine == this) let_go(*operation);
    operation = next;
  }
}

void Engine::fail(const Operation* operation, const PeerError& error) {
  if (!failure_) {
    std::string text = error.what();
    if (operation != nullptr) {
      text = fmt::format("{}: {}{}", describe(*operation), text, who_arrived(*operation));
    }
    failure_.emplace(error.failure(), error.rank(), text);
    fail_live();
  }
  throw *failure_;
}

int Engine::expendable_peer(const Operation& operation) const {
  const Recipe& recipe = operation.recipe;
  const int peer = recipe.call.collective == Collective::message ? recipe.lanes[0].peer : -1;
  return peer >= 0 && transport_.bears_loss_of(peer) ? peer : -1;
}

double Engine::patience_seconds(const Operation& operation) const {
  return options_.timeout_seconds * (expendable_peer(operation) >= 0 ? kPatienceWithExpendable : 1);
}

// The end of the job; or of the operation alone, where its peer can be done without.
void Engine::time_out(Operation& operation) {
  if (const int peer = expendable_peer(operation); peer >= 0) {
    transport_.give_up_on(
        peer, fmt::format("nothing has moved between them for {:.1f} s", patience_seconds(operation)));
    return let_go(operation);
  }
  const double seconds = rate_.seconds(read_ticks() - operation.start_ticks);
  const std::string text = fmt::format(
      "{}: nothing moved for {:.1f} s, {:.1f} s after its start{}. Either a rank is stuck or busy with other work, "
      "or ranks wait for each other; if it only needs longer, raise the timeout",
      describe(operation), options_.timeout_seconds, seconds, who_arrived(operation));
  failure_.emplace(Failure::timed_out, -1, text);
  fail_live();
  transport_.abort(text);
  throw *failure_;
}

}  // namespace trireme::comm
