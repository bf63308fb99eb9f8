#include "trireme/plan/plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string parse_error(std::string_view json) {
  return error_of([&] { parse_plan(json, "plan.json"); });
}

TEST(Plan, APresetTakesAllRanks) {
  const Plan plan = read_plan("zero2", 3);
  EXPECT_EQ(to_string(plan.mesh), "data:3");
  EXPECT_EQ(plan.preset, "zero2");
}

TEST(Plan, PartsOfAPresetJoin) {
  const Plan plan = parse_plan(R"({"mesh": "data:2 tensor:4", "preset": "megatron+zero1"})", "plan.json");
  EXPECT_TRUE(plan.has("megatron"));
  EXPECT_TRUE(plan.has("zero1"));
  EXPECT_FALSE(plan.has("zero"));
  EXPECT_EQ(to_string(read_plan("megatron", 2).mesh), "tensor:2");
}

TEST(Plan, TextRoundTrip) {
  const Plan plan = read_plan("zero3", 4);
  const Plan again = parse_plan(to_json(plan), "plan.json");
  EXPECT_EQ(again.mesh, plan.mesh);
  EXPECT_EQ(again.preset, plan.preset);
}

TEST(Plan, PartsOverOneAxisNeedNoFile) {
  EXPECT_EQ(to_string(read_plan("megatron+sequence", 4).mesh), "tensor:4");
  EXPECT_EQ(to_string(read_plan("hybrid_cnn", 4).mesh), "tensor:4");
  EXPECT_THAT(error_of([] { read_plan("megatron+zero1", 4); }),
              HasSubstr("write {\"mesh\": \"tensor:… data:…\", \"preset\": \"megatron+zero1\"}"));
  EXPECT_THAT(error_of([] { read_plan("zero1", 0); }), HasSubstr("how many ranks?"));
}

TEST(Plan, LayoutsOfSingleValues) {
  const Plan plan = parse_plan(
      R"({"mesh": "data:2 tensor:2", "layouts": {"fc1.*": "tensor:0", "fc*": "{}", "x": "{data:0 tensor:1/8}"}})",
      "plan.json");
  const auto layout = [&](std::string_view name) {
    const Layout* found = plan.layout_of(name);
    return found ? to_string(*found, plan.mesh) : "none";
  };
  EXPECT_EQ(layout("fc1.weight"), "{tensor:0}");  // the first that fits
  EXPECT_EQ(layout("fc2.weight"), "{}");
  EXPECT_EQ(layout("x"), "{data:0 tensor:1/8}");
  EXPECT_EQ(layout("y"), "none");
  EXPECT_TRUE(fits_pattern("*.weight", "h.0.weight"));
  EXPECT_TRUE(fits_pattern("h.*.c_*", "h.0.attn.c_attn.weight"));
  EXPECT_FALSE(fits_pattern("h.*.c_", "h.0.attn.c_attn.weight"));
  EXPECT_FALSE(fits_pattern("h.*", "h.0/attn/matmul")) << "what names parameters names no results";
  EXPECT_TRUE(fits_pattern("h.*/attn/*", "h.0/attn/matmul~2"));
  EXPECT_FALSE(fits_pattern("h.*/attn/*", "h.0/attn/c_attn/matmul"));
  EXPECT_FALSE(fits_pattern("h.*/attn/*", "h.0.attn"));
}

TEST(Plan, ManyStarsTakeNoLongTime) {
  std::string stars, name(40, 'a');
  for (int i = 0; i < 30; ++i) stars += "*a";
  EXPECT_TRUE(fits_pattern(stars, name));
  EXPECT_FALSE(fits_pattern(stars + "*b", name));
  EXPECT_TRUE(fits_pattern("**", ""));
  EXPECT_FALSE(fits_pattern("*a*", "bbb"));
  EXPECT_TRUE(fits_pattern("*ab", "aab")) << "a star takes more when the rest does not fit";
}

TEST(Plan, AMeshMayBeAnObject) {
  const Plan plan = parse_plan(R"({"mesh": {"tensor": 4, "data": 2}, "preset": "megatron"})", "plan.json");
  EXPECT_EQ(to_string(plan.mesh), "tensor:4 data:2") << "in the order of the keys";
  for (const char* size : {"0", "-1", "2.5", "\"2\"", "5000000000", "null"}) {
    EXPECT_THAT(parse_error(fmt::format(R"({{"mesh": {{"data": {}}}}})", size)),
                testing::AllOf(HasSubstr("plan.json: mesh: axis data has size"), HasSubstr("expected")))
        << size;
  }
  EXPECT_THAT(parse_error(R"({"mesh": {"Data 1": 2}})"), HasSubstr("no usable name"));
  EXPECT_THAT(parse_error(R"({"mesh": ["data", 2]})"), HasSubstr("mesh is [\"data\",2]"));
}

TEST(Plan, DeepNestingIsRefused) {
  const std::string open(500'000, '['), close(500'000, ']');
  for (const std::string& value : {open + close, open, open + "1" + close}) {
    EXPECT_THAT(parse_error(value), HasSubstr("plan.json"));
    EXPECT_THAT(parse_error("{\"mesh\": " + value + "}"), HasSubstr("levels deep"));
    EXPECT_THAT(parse_error("{\"mesh\": \"data:2\", \"layouts\": {\"w\": " + value + "}}"),
                HasSubstr("levels deep"));
  }
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"mesh\":";
  EXPECT_THAT(parse_error(objects), HasSubstr("levels deep"));
}

// Of two that are there, one would be forgotten.
TEST(Plan, KeysThatAreThereTwiceAreRefused) {
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "preset": "zero1", "preset": "zero3"})"),
              HasSubstr("the key 'preset' is there twice"));
  EXPECT_THAT(parse_error(R"({"mesh": {"data": 2, "data": 4}})"), HasSubstr("the key 'data' is there twice"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "exchange": {"method": "top_k", "ratio": 1, "ratio": 0.5}})"),
              HasSubstr("'ratio' is there twice"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "exchange": [{"method": "all_reduce", "for": "a"},
                                                             {"method": "all_reduce", "for": "b"}]})"),
              "no error");
}

// It is printed.
TEST(Plan, TextThatATerminalWouldObeyIsRefused) {
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "exchange": {"method": "top_k", "for": "\u001b[31m"}})"),
              HasSubstr("control characters"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "\u0007": 1})"), HasSubstr("control characters"));
}

TEST(Plan, MoreStagesThanAnyModelHasAreRefused) {
  EXPECT_THAT(parse_error(R"({"mesh": "pipe:1000000"})"),
              HasSubstr("has 1000000 stages (axis pipe); at most"));
  EXPECT_THAT(parse_error(R"({"mesh": {"data": 1000000000}})"), HasSubstr("at most 1048576 expected"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "accumulate": 1000000000})"),
              HasSubstr("1 to 65536, expected"));
}

TEST(Plan, AllKeysRoundTrip) {
  const std::string_view text = R"({"mesh": "data:2 tensor:2", "preset": "megatron+zero1", "accumulate": 4,
      "precision": "bf16", "exchange": "all_reduce", "batch_norm": "local", "layouts": {"w*": "tensor:0"},
      "algorithm": {"data": "ring"}, "bucket_kib": 64})";
  const Plan plan = parse_plan(to_json(parse_plan(text, "plan.json")), "plan.json");
  EXPECT_EQ(plan.accumulate, 4);
  EXPECT_EQ(plan.precision, "bf16");
  EXPECT_EQ(plan.bucket_kib, 64);
  EXPECT_EQ(plan.batch_norm, Plan::BatchNorm::kLocal);
  EXPECT_EQ(plan.algorithms.at("data"), "ring");
  EXPECT_EQ(plan.algorithms.count("tensor"), 0u);
  ASSERT_NE(plan.layout_of("wte"), nullptr);
  const Plan all =
      parse_plan(R"({"mesh": "data:2 tensor:2", "preset": "megatron", "algorithm": "tree"})", "p");
  EXPECT_EQ(all.algorithms.at("data") + all.algorithms.at("tensor"), "treetree");
}

TEST(Plan, IsWrittenAsItWasRead) {
  const std::string_view text = R"({"mesh": "pipe:2 data:2", "preset": "zero1", "batch_norm": "synchronised",
      "schedule": "1f1b", "chunks": 2, "stages": ["h.3", "h.6"],
      "offload": {"optimizer": "file", "folder": "/tmp/x"}})";
  const Plan plan = parse_plan(text, "plan.json");
  const std::string_view exchange = R"({"mesh": "data:2", "preset": "zero1",
      "exchange": [{"method": "top_k", "ratio": 0.001, "for": "h.*"}, {"method": "all_reduce", "wire": "bf16"}]})";
  const Plan exchanges = parse_plan(exchange, "plan.json");
  EXPECT_EQ(nlohmann::json::parse(to_json(exchanges)), nlohmann::json::parse(exchange));
  const std::vector<ExchangeRule>& rules = exchanges.agreement.rules();
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0], (ExchangeRule{"top_k", "h.*", {{"ratio", 0.001}}, {}}));
  EXPECT_EQ(rules[1], (ExchangeRule{"all_reduce", "", {}, {{"wire", "bf16"}}}));
  const auto read = nlohmann::json::parse(text), written = nlohmann::json::parse(to_json(plan));
  EXPECT_EQ(written, read);
  EXPECT_EQ(to_json(parse_plan(to_json(plan), "again")), to_json(plan));
  EXPECT_EQ(plan.offload, (Plan::Offload{"/tmp/x", false, false}));
  const Plan all = parse_plan(R"({"mesh": "data:2", "offload": {"optimizer": "file", "weights": "file",
      "gradients": "file", "folder": "/tmp/x"}})",
                              "plan.json");
  EXPECT_EQ(all.offload, (Plan::Offload{"/tmp/x", true, true}));
  EXPECT_EQ(parse_plan(to_json(all), "again").offload, all.offload);
  const Plan host = parse_plan(R"({"mesh": "data:2", "offload": {"optimizer": "host"}})", "plan.json");
  EXPECT_EQ(host.offload, (Plan::Offload{"", false, false}));
  EXPECT_EQ(parse_plan(to_json(host), "again").offload, host.offload);
}

TEST(Plan, OffloadOfWeightsHasNoStagesAndNoExchangeBesides) {
  const auto complaint = [](std::string_view keys) -> std::string {
    try {
      parse_plan(
          fmt::format(R"({{"offload": {{"optimizer": "file", "weights": "file", "folder": "/x"}}, {}}})",
                      keys),
          "plan.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(R"("mesh": "data:2")"), "");
  EXPECT_THAT(complaint(R"("mesh": "pipe:2")"), HasSubstr("stages have a schedule of their own"));
  EXPECT_THAT(complaint(R"("mesh": "data:2", "exchange": "signum")"),
              HasSubstr("an exchange takes all gradients at once"));
}

// Several servers have states of different parameters, as stages have, and are no pipeline.
TEST(Plan, OfServersBetweenStepsHasAnAxisOfItsOwn) {
  const Plan plan{.mesh = Mesh({{std::string(kServerAxis), 3}})};
  EXPECT_EQ(plan.pipeline_stages(), 1);
  EXPECT_EQ(plan.parts_axis_name(), "server");
  EXPECT_EQ(plan.of_one_stage().mesh.ranks(), 1);
  EXPECT_EQ(plan.rank_in_stage(2), 0);
  EXPECT_EQ(parse_plan(R"({"mesh": "pipe:2 data:2"})", "p").parts_axis_name(), "pipe");
  EXPECT_EQ(parse_plan(R"({"mesh": "pipe:1 data:2"})", "p").parts_axis_name(), "");
  EXPECT_EQ(parse_plan(R"({"mesh": "data:2"})", "p").parts_axis(), -1);
}

TEST(Plan, OfAPipelineHasStagesOfEqualPlans) {
  const Plan plan = parse_plan(R"({"mesh": "data:2 pipe:3 tensor:2", "preset": "megatron", "schedule": "zb_v",
      "chunks": 2, "stages": ["h.3"], "layouts": {"wte.weight": "tensor:1"}})",
                               "plan.json");
  EXPECT_EQ(plan.pipeline_stages(), 3);
  EXPECT_EQ(plan.schedule, "zb_v");
  EXPECT_EQ(plan.chunks, 2);
  EXPECT_THAT(plan.stages, testing::ElementsAre("h.3"));
  const Plan stage = plan.of_one_stage();
  EXPECT_EQ(to_string(stage.mesh), "data:2 tensor:2");
  EXPECT_EQ(to_string(*stage.layout_of("wte.weight"), stage.mesh), "{tensor:1}");
  // Rank 9 is (1, 1, 1).
  EXPECT_EQ(plan.rank_in_stage(9), 3);
  EXPECT_EQ(plan.rank_in_stage(4), 0);
  EXPECT_EQ(parse_plan(R"({"mesh": "data:2"})", "plan.json").pipeline_stages(), 1);
  for (const char* key : {R"("schedule": "gpipe")", R"("chunks": 2)", R"("stages": ["h.1"])"})
    EXPECT_THAT(parse_error(fmt::format(R"({{"mesh": "data:2", {}}})", key)), HasSubstr("has no axis pipe"));
  EXPECT_THAT(parse_error(R"({"mesh": "pipe:2", "layouts": {"w": "pipe:0"}})"),
              HasSubstr("the layout of w speaks of the axis pipe"));
}

TEST(Plan, WhatIsMadeAgain) {
  const auto read = [](const std::string& value) {
    const Plan plan = parse_plan(R"({"mesh": "data:2", "recompute": )" + value + "}", "plan.json");
    EXPECT_EQ(parse_plan(to_json(plan), "written").recompute, plan.recompute);
    return plan.recompute.value();
  };
  EXPECT_EQ(read(R"("none")").kind, Recompute::Kind::kNone);
  EXPECT_EQ(read(R"("full")").kind, Recompute::Kind::kFull);
  EXPECT_EQ(read(R"("selective")").kind, Recompute::Kind::kSelective);
  EXPECT_EQ(read(R"("full_keep_collectives")").kind, Recompute::Kind::kFullKeepCollectives);
  EXPECT_EQ(read(R"(["h.0", "h.*/attn"])"), (Recompute{Recompute::Kind::kNamed, {"h.0", "h.*/attn"}}));
  EXPECT_FALSE(read_plan("data", 2).recompute.has_value());
}

TEST(Plan, MistakesInSingleKeysAreNamed) {
  const auto with = [](const std::string& rest) {
    return parse_error(R"({"mesh": "data:2", )" + rest + "}");
  };
  EXPECT_THAT(with(R"("preset": "sequence")"), HasSubstr("'sequence' goes with megatron only"));
  EXPECT_THAT(with(R"("bucket_kib": 0)"), HasSubstr("bucket_kib is 0; a whole number of KiB"));
  EXPECT_THAT(with(R"("accumulate": 0)"), HasSubstr("accumulate is 0; a whole number of microbatches"));
  EXPECT_THAT(with(R"("accumulate": "4")"), HasSubstr("accumulate is \"4\""));
  EXPECT_THAT(with(R"("precision": "bf61")"), HasSubstr("did you mean 'bf16'?"));
  EXPECT_THAT(with(R"("exchange": "gossip")"),
              HasSubstr("there is no exchange 'gossip'; known are all_reduce"));
  EXPECT_THAT(with(R"("exchange": [{"method": "topk"}])"), HasSubstr("did you mean 'top_k'?"));
  EXPECT_THAT(with(R"("exchange": {"ratio": 1})"), HasSubstr("names no method"));
  EXPECT_THAT(with(R"("exchange": {"method": "top_k", "ratio": 0})"),
              HasSubstr("plan.json: the exchange top_k has ratio = 0; a number above 0, at most 1"));
  EXPECT_THAT(with(R"("exchange": {"method": "power_sgd", "rank": 0})"), HasSubstr("rank = 0"));
  EXPECT_THAT(with(R"("exchange": {"method": "delayed", "delay": -1})"), HasSubstr("delay = -1"));
  EXPECT_THAT(with(R"("exchange": {"method": "qsgd", "bit": 4})"), HasSubstr("did you mean 'bits'?"));
  EXPECT_THAT(with(R"("exchange": [{"method": "local"}, {"method": "top_k"}])"),
              HasSubstr("it stands alone"));
  EXPECT_THAT(with(R"("exchange": ["top_k"])"), HasSubstr("an object expected"));
  EXPECT_THAT(with(R"("schedule": "1f1")"), HasSubstr("did you mean '1f1b'?"));
  EXPECT_THAT(with(R"("chunks": 0)"), HasSubstr("chunks is 0; a whole number"));
  EXPECT_THAT(with(R"("stages": "h.3")"), HasSubstr("stages is \"h.3\"; a list of scopes"));
  EXPECT_THAT(with(R"("recompute": "ful")"), HasSubstr("did you mean 'full'?"));
  EXPECT_THAT(with(R"("recompute": [3])"), HasSubstr("recompute is [3]; a list of scopes"));
  EXPECT_THAT(with(R"("offload": {"optimizer": 3})"), HasSubstr("the offload of optimizer is 3; a text"));
  EXPECT_THAT(with(R"("offload": {"weights": "tape"})"), HasSubstr("in a file or in memory of the host"));
  EXPECT_THAT(with(R"("offload": {"optimizer": "host", "weights": "file", "folder": "/x"})"),
              HasSubstr("all rest in one of them"));
  EXPECT_THAT(with(R"("offload": {"optimizer": "file", "folder": ""})"),
              HasSubstr("folder of offload is empty"));
  EXPECT_THAT(with(R"("offload": {"wights": "file"})"), HasSubstr("weights"));
  EXPECT_THAT(with(R"("offload": {"weights": "file", "folder": "/x"})"),
              HasSubstr("the optimizer's states first"));
  EXPECT_THAT(with(R"("offload": {"optimizer": "host", "folder": "/x"})"),
              HasSubstr("for files, in which folder"));
  EXPECT_THAT(with(R"("offload": {"optimizer": "file"})"), HasSubstr("in which folder"));
  EXPECT_THAT(with(R"("batch_norm": "locale")"), HasSubstr("did you mean 'local'?"));
  EXPECT_THAT(with(R"("algorithm": {"tensor": "ring"})"), HasSubstr("tensor"));
  EXPECT_THAT(with(R"("algorithm": 3)"), HasSubstr("algorithm is 3; a name, or an object"));
  EXPECT_THAT(with(R"("layouts": "w")"), HasSubstr("layouts is \"w\"; an object expected"));
  EXPECT_THAT(with(R"("layouts": {"w": "dat:0"})"), HasSubstr("the layout of w: "));
  EXPECT_THAT(with(R"("layouts": {"w": "data:a"})"), HasSubstr("a dim such as data:0"));
  EXPECT_THAT(parse_error(R"({"mesh": "dta:2"})"), HasSubstr("Did you mean 'data'?"));
}

TEST(Plan, MistakesAreNamed) {
  EXPECT_THAT(parse_error("data"), HasSubstr("no JSON object"));
  EXPECT_THAT(parse_error("{}"), HasSubstr("there is no mesh"));
  EXPECT_THAT(parse_error(R"({"mehs": "data:2"})"), HasSubstr("unknown key 'mehs'; did you mean 'mesh'?"));
  EXPECT_THAT(parse_error(R"({"mesh": 2})"), HasSubstr("mesh is 2; a text expected"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "preset": "zreo1"})"), HasSubstr("did you mean 'zero1'?"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2 tensor:2"})"), HasSubstr("no use for the axis 'tensor'"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "preset": "data+zero1"})"), HasSubstr("says twice"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "preset": "megatron"})"),
              HasSubstr("spreads over the axis 'tensor', which the mesh 'data:2' does not have"));
  EXPECT_THAT(parse_error(R"({"mesh": "tensor:2", "preset": "megatron+zero1"})"),
              HasSubstr("spreads over the axis 'data'"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:x"})"), HasSubstr("'data:x' found"));
  EXPECT_THAT(parse_error(R"({"mesh": "pipe:2", "vertical_sync": 1})"), HasSubstr("true or false expected"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "vertical_sync": true})"), HasSubstr("has no axis pipe"));
  EXPECT_THAT(error_of([] { read_plan("zero9", 2); }), HasSubstr("neither a preset nor a file"));
  EXPECT_THAT(error_of([] { read_plan(R"({"mesh": "data:3"})", 2); }),
              HasSubstr("start that many with -n 3"));
}

TEST(Plan, IsReadFromTheCommandLineToo) {
  const Plan plan = read_plan(R"({"mesh": "pipe:2", "schedule": "pipedream", "vertical_sync": true})", 2);
  EXPECT_EQ(*plan.schedule, "pipedream");
  EXPECT_EQ(parse_plan(to_json(plan), "again").vertical_sync, true);
}

}  // namespace
}  // namespace trireme
