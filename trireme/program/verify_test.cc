// Programs that are sound, and a list of broken ones, each refused with what is wrong with it.
#include "trireme/program/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/program/build.h"
#include "trireme/program/text.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// A step on whole tensors: y = x·w, a loss, its gradient; then the update.
std::vector<StepSegment> whole_step() {
  const auto gradient = [](const std::string& name, const std::string& rest) {
    return parse_graph("graph " + name +
                           "\n"
                           "state %w: f32[4,6] parameter {init=\"normal\"}\n"
                           "state %g: f32[4,6] gradient {of=\"w\"}\n"
                           "input %x: f32[8,4] batch\n"
                           "input %dy: f32[8,6] batch\n"
                           "%y: f32[8,6] = matmul(%x, %w)\n"
                           "%loss: f32[] = sum(%y) {dims=[0,1]}\n"
                           "%dw: f32[4,6] = matmul(%x, %dy) {transpose_a=1}\n" +
                           rest + "output loss = %loss addend\n",
                       ops());
  };
  std::vector<StepSegment> segments;
  segments.emplace_back(gradient("first", "update %g <- %dw\n"));
  segments.emplace_back(gradient("next", "%sum: f32[4,6] = add(%g, %dw)\nupdate %g <- %sum\n"));
  segments.emplace_back(parse_graph("graph update\n"
                                    "state %w: f32[4,6] parameter {init=\"normal\"}\n"
                                    "state %g: f32[4,6] gradient {of=\"w\"}\n"
                                    "input %lr: f32[] scalar\n"
                                    "%new: f32[4,6] = sgd(%w, %g, %lr, %lr)\n"
                                    "update %w <- %new\n",
                                    ops()),
                        SegmentKind::kUpdate);
  segments.emplace_back(parse_graph("graph evaluate\n"
                                    "state %w: f32[4,6] parameter {init=\"normal\"}\n"
                                    "input %x: f32[8,4] batch\n"
                                    "%y: f32[8,6] = matmul(%x, %w)\n"
                                    "output y = %y rows\n",
                                    ops()),
                        SegmentKind::kEvaluate);
  return segments;
}

std::vector<Program> programs(const std::string& mesh, const std::string& preset, int64_t microbatches = 2) {
  const Plan plan{parse_mesh(mesh), preset};
  const ProgramBuilder builder(whole_step(), plan, microbatches);
  std::vector<Program> ranks;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank)
    ranks.push_back(
        builder.build(rank, accumulate(microbatches), [](const Graph&, const Node&) { return size_t{64}; }));
  return ranks;
}

TEST(VerifyProgram, TakesWhatTheBuilderMakes) {
  for (const char* preset : {"data", "zero1", "zero2", "zero3"}) {
    for (const char* mesh : {"", "data:2", "data:3"}) {
      for (const int64_t microbatches : {1, 3}) {
        const std::vector<Program> ranks = programs(mesh, preset, microbatches);
        EXPECT_NO_THROW(verify(ranks)) << preset << " on " << mesh;
        for (const Program& program : ranks) {
          const std::string text = print(program);
          const Program read = parse_program(text, ops());
          EXPECT_EQ(print(read), text);
          EXPECT_NO_THROW(verify(read));
        }
      }
    }
  }
}

struct Breakage {
  const char* name;
  std::function<void(std::vector<Program>&)> breaks;
  const char* message;
};

Segment& segment(Program& program, std::string_view name) {
  return program.segments[program.segment(name)];
}
ActionList& step(Program& program) {
  return program.lists[0];
}
Node& collective(Program& program, std::string_view name) {
  return *std::ranges::find_if(segment(program, name).graph.nodes,
                               [](const Node& node) { return node.op->collective.has_value(); });
}

TEST(VerifyProgram, RefusesWhatIsBroken) {
  const std::vector<Breakage> list = {
      {"a state that is not there",
       [](auto& ranks) {
         ranks[0].states.erase(ranks[0].states.begin());
         ranks[0].state_numbers.clear();
         for (size_t i = 0; i < ranks[0].states.size(); ++i)
           ranks[0].state_numbers[ranks[0].states[i].name] = i;
       },
       "names the state %w, which the program does not have"},
      {"a state of another type", [](auto& ranks) { ranks[0].states[0].type.dtype = DType::bf16; },
       "has the state %w as f32[4,6] parameter, but the program as bf16[4,6] parameter"},
      {"states over one another", [](auto& ranks) { ranks[0].states[1].offset = 8; },
       "begins at 8, where the state before it ends at 128"},
      {"no slot", [](auto& ranks) { ranks[0].states[0].slots = 0; }, "%w has 0 slots"},
      {"more slots than memory", [](auto& ranks) { ranks[0].states.back().slots = 100; },
       "but the program has"},
      {"a part of another size",
       [](auto& ranks) {
         ranks[0].states[0].part.pieces[0] = {{0, 3}};
       },
       "its part of [4,6] has 18 elements"},
      {"live values over one another",
       [](auto& ranks) {
         Segment& first = segment(ranks[0], "evaluate");
         const ValueId x = first.graph.find("x"), y = first.graph.find("y");
         first.memory.values[y] = first.memory.values[x];
       },
       "segment 'evaluate': "},
      {"an arena that is too small", [](auto& ranks) { ranks[0].arena_bytes = 1; }, "of the arena"},
      {"an action of nothing", [](auto& ranks) { step(ranks[0]).actions[1].what = "nxt"; },
       "runs the segment 'nxt', which does not exist"},
      {"a slot that is not there", [](auto& ranks) { step(ranks[0]).actions[0].slot = -1; },
       "runs 'first' on slot -1; 0 or more expected"},
      {"a microbatch twice", [](auto& ranks) { step(ranks[0]).actions[1].microbatch = 0; },
       "computes microbatch 0 twice"},
      {"a microbatch too many", [](auto& ranks) { step(ranks[0]).actions[1].microbatch = 2; },
       "on microbatch 2 of 2"},
      {"the update before the gradients",
       [](auto& ranks) { std::swap(step(ranks[0]).actions.front(), step(ranks[0]).actions.back()); },
       "runs 'update', which reads %g before anything made it in this step"},
      {"what is added to comes first", [](auto& ranks) { step(ranks[0]).actions[0].what = "next"; },
       "runs 'next', which reads %g before"},
      {"a rank that leaves out the update", [](auto& ranks) { step(ranks[1]).actions.pop_back(); },
       "but rank 1 has nothing more"},
      {"a rank that leaves out a microbatch",
       [](auto& ranks) {
         for (Program& program : ranks) step(program).actions.erase(step(program).actions.begin() + 1);
       },
       "is computed 0 times"},
      {"a rank that computes another's rows", [](auto& ranks) { step(ranks[1]).own.begin = 0; },
       "row 0 2 times"},
      {"a collective of another kind of sum",
       [](auto& ranks) { collective(ranks[1], "update").attrs.set("reduction", "max"); },
       "along the axis data, collective 1: rank 0 has"},
      {"a message that nobody takes",
       [](auto& ranks) {
         step(ranks[0]).actions.insert(step(ranks[0]).actions.begin(), Action::send("w", 1));
       },
       "from rank 0 to rank 1, message 1"},
      {"a message to nobody", [](auto& ranks) { step(ranks[0]).actions.push_back(Action::send("w", 7)); },
       "sends %w with rank 7 of 2"},
      {"both wait for the other first",
       [](auto& ranks) {
         for (int rank : {0, 1}) {
           std::vector<Action>& actions = step(ranks[rank]).actions;
           actions.insert(actions.begin(), {Action::receive("w", 1 - rank), Action::send("w", 1 - rank)});
         }
       },
       "waits for ever for %w"},
      // A message is held back until it is asked for, so that the update, which changes what is sent, waits.
      {"both ask for the other's message last",
       [](auto& ranks) {
         for (int rank : {0, 1}) {
           std::vector<Action>& actions = step(ranks[rank]).actions;
           actions.insert(actions.begin(), Action::send("w", 1 - rank));
           actions.push_back(Action::receive("w", 1 - rank));
         }
       },
       "waits for ever for %w"},
      {"a staging slot that begins within another",
       [](auto& ranks) {
         ranks[0].groups = {{.name = "a", .offset = 0, .bytes = 128, .slot = 0},
                            {.name = "b", .offset = 64, .file_offset = 128, .bytes = 128, .slot = 1}};
       },
       "the group a in staging slot 0 reaches into that of 1"},
      {"a staging slot within another",
       [](auto& ranks) {
         ranks[0].groups = {{.name = "a", .offset = 64, .bytes = 64, .slot = 0},
                            {.name = "b", .offset = 0, .file_offset = 64, .bytes = 192, .slot = 1}};
       },
       "the group a in staging slot 0 reaches into that of 1"},
      {"a large group in a slot of small ones",
       [](auto& ranks) {
         ranks[0].groups = {{.name = "a", .offset = 0, .bytes = 64, .slot = 0},
                            {.name = "b", .offset = 64, .file_offset = 64, .bytes = 64, .slot = 1},
                            {.name = "c", .offset = 0, .file_offset = 128, .bytes = 128, .slot = 0}};
       },
       "the group b in staging slot 1 reaches into that of 0"},
      {"a stash with too few slots",
       [](auto& ranks) {
         // Both ranks: what microbatch 0 left is read after microbatch 1 left its own in the same slot.
         for (Program& program : ranks) {
           for (State& state : program.states) {
             if (state.name == "g") state.role = Role::kStash;
           }
           for (Segment& segment : program.segments) {
             if (const ValueId g = segment.graph.find("g"); g != kNoValue)
               segment.graph.values[g].role = Role::kStash;
           }
           step(program).actions[1].slot = 1;
         }
       },
       "runs 'next' on slot 1, but %g has that of 0 there: it has 1 slots, too few"},
      {"a sum that nobody awaits",
       [](auto& ranks) {
         for (Program& program : ranks)
           program.lists.push_back({"fly", {Action::reduce("g")}, When::every(1)});
       },
       "the list 'fly' begins to add up slot 0 of %g, which no list awaits"},
      {"a sum that nobody begins",
       [](auto& ranks) {
         for (Program& program : ranks)
           program.lists.push_back({"land", {Action::await("g")}, When::every(1)});
       },
       "the list 'land' awaits the sum of slot 0 of %g, which no list begins to add up"},
      {"a sum of nothing",
       [](auto& ranks) {
         for (Program& program : ranks)
           program.lists.push_back({"fly", {Action::reduce("h"), Action::await("h")}, When::every(1)});
       },
       "begins to add up %h over the ranks along data, a state that does not exist"},
      {"a sum of one rank",
       [](auto& ranks) {
         for (Program& program : ranks)
           program.lists.push_back({"fly", {Action::reduce("g"), Action::await("g")}, When::every(1)});
         ranks[1].lists.back().actions.clear();
         ranks[1].lists.push_back({"land", {Action::reduce("g"), Action::await("g")}, When::every(1)});
       },
       "along the axis data, collective 1: rank 0 has %g (the sum of %g f32[4,6]), but rank 1 has nothing "
       "more"},
      {"two lists of a step",
       [](auto& ranks) {
         ranks[1].lists.push_back({"again", {}, When::step()});
       },
       "the list 'again' is for 'step', and so is 'step'"},
      {"a list for step 0",
       [](auto& ranks) {
         ranks[1].lists.push_back({"late", {}, When::every(2, 0)});
       },
       "the list 'late' is for 'every 2 first 0', but steps are counted from 1"},
      {"an arrival from oneself",
       [](auto& ranks) {
         ranks[1].lists.push_back({"in", {}, When::arrival(1)});
       },
       "the list 'in' is for 'arrival from 1', on rank 1 of 2"},
      {"an arrival of nothing",
       [](auto& ranks) {
         ranks[1].lists.push_back({"in", {Action::send("w", 0)}, When::arrival(0)});
       },
       "the list 'in' is for 'arrival from 0', but receives nothing from there"},
      {"a message of nothing",
       [](auto& ranks) {
         ranks[1].lists.push_back({"out", {Action::receive("w", 0)}, When::tell(0)});
       },
       "the list 'out' is for 'asked tell 0', but sends nothing there"},
      {"ranks in another order", [](auto& ranks) { std::swap(ranks[0], ranks[1]); },
       "program 0 of 2 is rank 1"},
  };
  for (const Breakage& one : list) {
    std::vector<Program> ranks = programs("data:2", "data");
    one.breaks(ranks);
    EXPECT_THAT([&] { verify(ranks); }, testing::ThrowsMessage<Error>(HasSubstr(one.message))) << one.name;
  }
}

TEST(ProgramText, RefusesWithTheLineAndTheReason) {
  const std::string good = print(programs("data:2", "data")[1]);
  const auto refusal = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    try {
      parse_program(text, ops());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_THAT(refusal("memory {", "memry {"), testing::StartsWith("line 5: "));
  EXPECT_THAT(refusal("segment first forward_backward", "segment first sideways"),
              HasSubstr("'sideways' is no kind"));
  EXPECT_THAT(refusal("place %w states", "place %w attic"), HasSubstr("'attic' is no place"));
  EXPECT_THAT(refusal("place %w states", "place %nobody states"), HasSubstr("no value %nobody"));
  EXPECT_THAT(refusal("offset=0", "offset=-4"), HasSubstr("'offset' is -4; 0 to"));
  EXPECT_THAT(refusal("rank 1", "rank 4294967297"), HasSubstr("'rank' is 4294967297"));
  EXPECT_THAT(refusal("slots=1", "slots=9999999"), HasSubstr("'slots' is 9999999"));
  EXPECT_THAT(refusal("when=\"step\"", "when=\"now and then\""),
              HasSubstr("'now and then' does not say when a list is run"));
  EXPECT_THAT(refusal("run first 0", "walk first 0"), HasSubstr("no statement of a program"));
  EXPECT_THAT(refusal("= matmul(", "= matmull("), HasSubstr("line"));
  EXPECT_THAT(refusal("state %g:", "state %w:"), HasSubstr("two states are called %w"));
}

}  // namespace
}  // namespace trireme
