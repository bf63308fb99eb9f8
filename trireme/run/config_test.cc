// Settings: precedence, origins, and the message for each kind of mistake.
#include "trireme/run/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/temp_folder.h"
#include "trireme/base/error.h"
#include "trireme/models/model.h"
#include "trireme/run/config_fields.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ConfigSources from_toml(std::string text) {
  return {.file = ConfigFile{"my.toml", std::move(text)}};
}
ConfigSources from_command_line(std::vector<std::string> arguments) {
  return {.command_line = std::move(arguments)};
}
ConfigSources from_environment(std::vector<std::string> entries) {
  return {.environment = std::move(entries)};
}

// The message with which the sources are refused, or "accepted".
std::string refusal(const ConfigSources& sources) {
  try {
    resolve_config(sources);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Config, DefaultsAreValid) {
  const ResolvedConfig resolved = resolve_config({});
  EXPECT_EQ(resolved.config.model.family, "gpt");
  EXPECT_EQ(resolved.config.model.vocab, 0);
  EXPECT_TRUE(resolved.is_default("model.vocab"));
}

TEST(Config, EveryFamilyHasDefaultsThatFitIt) {
  for (const std::string& family : model_families()) {
    const bool text = find_model(family).input == InputKind::kTokens;  // which there is without a path
    EXPECT_EQ(refusal(from_command_line(
                  {"model.family=" + family, text ? "model.family=" + family : "data.path=somewhere"})),
              "accepted")
        << family;
  }
}

TEST(Config, DefaultsOfAFamilyYieldToWhatIsSet) {
  const std::string vgg = "[model]\nfamily = \"vgg\"\n[data]\npath = \"somewhere\"\n";
  const ResolvedConfig alone = resolve_config(from_toml(vgg));
  EXPECT_EQ(alone.config.model.layers, 16);
  EXPECT_EQ(alone.config.optim.lr, 1e-4);
  EXPECT_EQ(alone.origins.at("model.layers"), "default of vgg");
  EXPECT_EQ(alone.origins.at("model.heads"), "default");
  EXPECT_TRUE(alone.is_default("model.layers"));
  EXPECT_THAT(config_table(alone), ::testing::ContainsRegex("optim.lr +0.0001 +default of vgg\n"));

  ConfigSources sources = from_toml(vgg + "[optim]\nlr = 0.002\n");  // the default of others
  sources.command_line = {"--model.layers=11"};
  const ResolvedConfig set = resolve_config(sources);
  EXPECT_EQ(set.config.model.layers, 11);
  EXPECT_EQ(set.config.optim.lr, 2e-3);
  EXPECT_EQ(set.origins.at("optim.lr"), "my.toml:6");
  EXPECT_FALSE(set.is_default("model.layers"));
}

TEST(Config, AModelOfOnesOwnHasDefaultsToo) {
  ModelRecord mine{.family = "mine"};
  mine.defaults = {{"model.layers", "7"}};
  EXPECT_EQ(resolve_config(from_command_line({"model.family=mine"}), &mine).config.model.layers, 7);
  mine.defaults = {{"model.layer", "7"}};
  EXPECT_THROW(resolve_config(from_command_line({"model.family=mine"}), &mine), Error);
}

TEST(Config, LaterSourcesWin) {
  ConfigSources sources = from_toml("[train]\nbatch = 2\nsteps = 20\nseed = 200\n");
  sources.environment = {"PATH=/bin", "TRIREME_TRAIN__STEPS=30", "TRIREME_TRAIN__SEED=300", "TRIREME_HOME=x"};
  sources.command_line = {"--train.seed=400"};
  const ResolvedConfig resolved = resolve_config(sources);
  EXPECT_EQ(resolved.config.train.batch, 2);
  EXPECT_EQ(resolved.config.train.steps, 30);
  EXPECT_EQ(resolved.config.train.seed, 400);
  EXPECT_EQ(resolved.origins.at("train.batch"), "my.toml:2");
  EXPECT_EQ(resolved.origins.at("train.steps"), "environment TRIREME_TRAIN__STEPS");
  EXPECT_EQ(resolved.origins.at("train.seed"), "command line");
  EXPECT_EQ(resolved.origins.at("train.device"), "default");
}

TEST(Config, CommandLineForms) {
  const Config config =
      resolve_config(from_command_line({"--train.batch=8", "model.layers=3", "--optim.lr", "2e-3",
                                        "--data.augment", "true", "--run.dir=a=b", "--train.batch=16"}))
          .config;
  EXPECT_EQ(config.train.batch, 16);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.optim.lr, 2e-3);
  EXPECT_TRUE(config.data.augment);
  EXPECT_EQ(config.run.dir, "a=b");
}

TEST(Config, AnIntegerMayBeAWord) {
  const Config config = resolve_config(from_command_line({"run.checkpoint_every=auto"})).config;
  EXPECT_EQ(config.run.checkpoint_every, RunOptions::kAutomaticInterval);
  const std::string text = config_toml(config);
  EXPECT_THAT(text, HasSubstr("checkpoint_every = \"auto\""));
  EXPECT_EQ(resolve_config({.file = ConfigFile{"again.toml", text}}).config.run.checkpoint_every,
            RunOptions::kAutomaticInterval);
  EXPECT_THAT(refusal(from_command_line({"run.checkpoint_every=often"})), HasSubstr(", or auto"));
  EXPECT_THAT(refusal(from_command_line({"run.keep=auto"})), HasSubstr("expected an integer"));
}

TEST(Config, TellsSettingsFromFlagsAndFiles) {
  for (const char* setting : {"--train.batch=8", "train.batch=8", "--train.batch", "--trian.batch=8"}) {
    EXPECT_TRUE(is_config_argument(setting)) << setting;
  }
  for (const char* other : {"my.toml", "model.toml", "--plan=a.b", "--plan", "-n", "./a.toml=b", "train"}) {
    EXPECT_FALSE(is_config_argument(other)) << other;
  }
}

TEST(Config, UnknownNamesGetTheNearestKnown) {
  EXPECT_EQ(refusal(from_toml("[train]\n\nbtach = 3\n")),
            "my.toml:3: unknown setting train.btach; did you mean train.batch?");
  EXPECT_THAT(refusal(from_toml("[train]\nlr = 1e-3\n")), HasSubstr("did you mean optim.lr?"));
  EXPECT_THAT(refusal(from_environment({"TRIREME_MODEL__LAYER=3"})),
              AllOf(HasSubstr("environment TRIREME_MODEL__LAYER"), HasSubstr("did you mean model.layers?")));
  EXPECT_THAT(refusal(from_command_line({"--modle.seq=3"})), HasSubstr("did you mean model.seq?"));
  EXPECT_THAT(refusal(from_toml("[entirely]\ndifferent_thing = 1\n")), HasSubstr("--print-config` lists"));
  EXPECT_THAT(refusal(from_command_line({"--model.different_thing=3"})),
              HasSubstr("unknown setting model.different_thing; model has family, "));
  EXPECT_THAT(refusal(from_toml("[modell]\n")), HasSubstr("unknown setting modell"));
  EXPECT_THAT(refusal(from_toml("model = 3\n")),
              HasSubstr("my.toml:1: model is a value; expected a section"));
  EXPECT_THAT(refusal(from_toml("batch = 3\n")), HasSubstr("did you mean train.batch?"));
}

TEST(Config, MistakesOnTheCommandLineAreToldApart) {
  const auto is_usage = [](const ConfigSources& sources) {
    try {
      resolve_config(sources);
    } catch (const UsageError&) {
      return true;
    } catch (const Error&) {
    }
    return false;
  };
  EXPECT_TRUE(is_usage(from_command_line({"--train.bacth=3"})));
  EXPECT_TRUE(is_usage(from_command_line({"--train.steps=many"})));
  EXPECT_TRUE(is_usage(from_command_line({"--train.steps"})));
  EXPECT_FALSE(is_usage(from_toml("[train]\nbacth = 3\n")));
  EXPECT_FALSE(is_usage(from_environment({"TRIREME_TRAIN__BACTH=3"})));
  EXPECT_FALSE(is_usage(from_command_line({"--model.heads=3"})));  // understood, and refused
}

TEST(Config, SettingsOfTheLearningRateAreRefusedByTheirOldNames) {
  EXPECT_EQ(refusal(from_toml("[schedule]\nkind = \"linear\"\n")),
            "my.toml:2: schedule.kind is called lr_schedule.kind now (a schedule is the order of a step's "
            "actions); rename it");
  EXPECT_THAT(refusal(from_toml("[schedule]\n")), HasSubstr("schedule is called lr_schedule now"));
  EXPECT_THAT(refusal(from_command_line({"--schedule.min_lr=1"})), HasSubstr("lr_schedule.min_lr now"));
  EXPECT_THAT(refusal(from_environment({"TRIREME_SCHEDULE__KIND=linear"})),
              HasSubstr("lr_schedule.kind now"));
  EXPECT_EQ(resolve_config(from_environment({"TRIREME_LR_SCHEDULE__KIND=linear"})).config.lr_schedule.kind,
            "linear");
}

TEST(Config, PathsInAFileAreTakenFromItsFolder) {
  const auto data_of = [](const std::string& name, const std::string& text) {
    return resolve_config({.file = ConfigFile{name, text}}).config.data;
  };
  EXPECT_EQ(data_of("some/where/my.toml", "[data]\npath = \"text/a.txt\"\n").path, "some/where/text/a.txt");
  EXPECT_EQ(data_of("some/where/my.toml", "[data]\npath = \"../a.txt\"\n").path, "some/a.txt");
  EXPECT_EQ(data_of("my.toml", "[data]\npath = \"a.txt\"\n").path, "a.txt");
  EXPECT_EQ(data_of("some/my.toml", "[data]\npath = \"/data/a.txt\"\n").path, "/data/a.txt");
  EXPECT_EQ(data_of("some/my.toml", "[data]\npath = \"\"\n").path, "") << "the text of this repository";
  EXPECT_EQ(data_of("some/my.toml", "[data]\ntokenizer = \"t.json\"\n").tokenizer, "some/t.json");
  EXPECT_EQ(
      data_of("some/my.toml", "[data]\ntokenizer = \"gpt2\"\ntokenizer_path = \"bpe\"\n").tokenizer_path,
      "some/bpe");
  EXPECT_EQ(data_of("some/my.toml", "[data]\ntokenizer = \"gpt2\"\n").tokenizer, "gpt2") << "a name";
  // What is said elsewhere is meant from where the command runs.
  ConfigSources sources{.file = ConfigFile{"some/my.toml", "[data]\npath = \"a.txt\"\n"}};
  sources.command_line = {"--data.path=b.txt"};
  EXPECT_EQ(resolve_config(sources).config.data.path, "b.txt");
}

TEST(Config, TheFileOfARunIsReadFromAnyFolder) {
  Config config;
  config.data.path = "text/a.txt";
  const Config again = resolve_config({.file = ConfigFile{"runs/1/config.toml", config_toml(config)}}).config;
  EXPECT_EQ(again.data.path, (std::filesystem::current_path() / "text/a.txt").string());
  EXPECT_EQ(again.data.tokenizer, "bytes");
}

TEST(Config, KeysOfManyPartsAreRefused) {
  std::string key = "a";
  for (int i = 0; i < 50'000; ++i) key += ".a";
  for (const std::string& text :
       {"[train]\n" + key + " = 1\n", "\n[" + key + "]\n", "x = {" + key + " = 1}\n\n"})
    EXPECT_THAT(refusal(from_toml(text)), AllOf(HasSubstr("my.toml:"), HasSubstr("dots")))
        << text.substr(0, 20);
  EXPECT_THAT(refusal(from_toml("# it's\n[train]\n" + key + " = 1\n")),
              HasSubstr("my.toml:3: a key with more than"));
  // Text may have as many as it likes.
  const std::string dots(5000, '.');
  EXPECT_EQ(refusal(from_toml("# " + dots + "\n[data]\npath = \"\\\"" + dots + "\"\n[run]\ndir = \"\"\"\n" +
                              dots + "\"\"\"\n")),
            "accepted");
}

TEST(Config, MoreLayersThanAnyModelHasAreRefused) {
  EXPECT_THAT(refusal(from_command_line({"model.layers=1000000000"})),
              HasSubstr("at least 1, at most 10000"));
}

TEST(Config, WrongTypesSayWhatWasFoundAndExpected) {
  EXPECT_EQ(
      refusal(from_toml("[train]\nbatch = \"many\"\n")),
      "my.toml:2: train.batch is the string \"many\"; expected an integer, at least 1, at most 1000000000");
  EXPECT_THAT(refusal(from_toml("[train]\nbatch = 1.5\n")), HasSubstr("the number 1.5; expected an integer"));
  EXPECT_THAT(refusal(from_toml("[train]\nbatch = [1]\n")), HasSubstr("is an array; expected an integer"));
  EXPECT_THAT(refusal(from_toml("[train]\nbatch = {a = 1}\n")), HasSubstr("is a table; expected an integer"));
  EXPECT_THAT(refusal(from_toml("[train.batch]\na = 1\n")), HasSubstr("is a table; expected an integer"));
  EXPECT_THAT(refusal(from_toml("[data]\naugment = 1\n")), HasSubstr("expected true or false"));
  EXPECT_THAT(refusal(from_toml("[run]\ndir = 2020-01-01\n")),
              HasSubstr("a date or time; expected a string"));
  for (const char* text : {"", " 8", "8 ", "8x", "1e3", "0x10", "99999999999999999999"}) {
    EXPECT_THAT(refusal(from_environment({"TRIREME_TRAIN__BATCH=" + std::string(text)})),
                HasSubstr("expected an integer"))
        << text;
  }
  for (const char* text : {"", "nan", "inf", "1,5", "1e999"}) {
    EXPECT_THAT(refusal(from_command_line({"--optim.lr=" + std::string(text)})),
                HasSubstr("expected a number"))
        << text;
  }
  EXPECT_THAT(refusal(from_command_line({"--train.batch"})), HasSubstr("without a value"));
  EXPECT_THAT(refusal(from_command_line({"--run.dir=\xff"})), HasSubstr("not valid UTF-8"));
}

TEST(Config, IntegersServeAsNumbers) {
  EXPECT_EQ(resolve_config(from_toml("[optim]\nlr = 1\n")).config.optim.lr, 1.0);
}

TEST(Config, LimitsAndChoices) {
  EXPECT_THAT(refusal(from_toml("[train]\nbatch = 0\n")),
              HasSubstr("the integer 0; expected an integer, at least 1"));
  EXPECT_THAT(refusal(from_command_line({"--model.dropout=1"})), HasSubstr("at least 0, below 1"));
  EXPECT_THAT(refusal(from_toml("[train]\nprecision = \"fp16\"\n")),
              AllOf(HasSubstr("did you mean f16?"), HasSubstr("expected one of f32, bf16, f16")));
}

TEST(Config, ListsOfNumbers) {
  const auto mean = [](const ConfigSources& sources) { return resolve_config(sources).config.data.mean; };
  const std::string image = "model.family = \"mlp\"\ndata.path = \"x\"\ndata.deviation = [1]\n";
  EXPECT_THAT(mean(from_toml(image + "data.mean = [0.25, 1, 0]\n")), ElementsAre(0.25, 1.0, 0.0));
  EXPECT_THAT(mean(from_toml(image + "data.mean = 0.5\n")), ElementsAre(0.5));
  for (const char* text : {"0.25,0.5", "[0.25, 0.5]"}) {
    EXPECT_THAT(mean(from_command_line({"--model.family=mlp", "--data.path=x", "--data.deviation=1",
                                        std::string("--data.mean=") + text})),
                ElementsAre(0.25, 0.5));
  }
  EXPECT_THAT(refusal(from_toml(image + "data.mean = [0.5, \"a\"]\n")),
              AllOf(HasSubstr("my.toml:4"), HasSubstr("does not hold numbers alone")));
  EXPECT_THAT(refusal(from_toml(image + "data.mean = [[0.5]]\n")), HasSubstr("numbers alone"));
  EXPECT_THAT(refusal(from_toml(image + "data.mean = [0.5, 2]\n")),
              HasSubstr("the list [0.5, 2.0]; expected a list of numbers, at least 0, at most 1"));
  EXPECT_THAT(refusal(from_toml(image + "data.mean = [nan]\n")), HasSubstr("the list [nan"));
  EXPECT_THAT(refusal(from_toml("[train]\nbatch = [1]\n")), HasSubstr("expected an integer"));
  for (const char* text : {"0.5,", ",", "0.5;0.5", "[0.5", "a"}) {
    EXPECT_THAT(refusal(from_command_line({std::string("--data.mean=") + text})),
                HasSubstr("expected a list of numbers"))
        << text;
  }
}

TEST(Config, ListsOfStrings) {
  const auto freeze = [](const ConfigSources& sources) {
    return resolve_config(sources).config.train.freeze;
  };
  EXPECT_THAT(freeze(from_toml("[train]\nfreeze = [\"wte*\", 'h.0.*']\n")), ElementsAre("wte*", "h.0.*"));
  EXPECT_THAT(freeze(from_toml("[train]\nfreeze = \"wte*\"\n")), ElementsAre("wte*"));
  for (const char* text : {"wte*,h.0.*", "[wte*, h.0.*]", "[\"wte*\", 'h.0.*']"})
    EXPECT_THAT(freeze(from_command_line({std::string("--train.freeze=") + text})),
                ElementsAre("wte*", "h.0.*"));
  EXPECT_THAT(freeze(from_command_line({"--train.freeze="})), ElementsAre());
  EXPECT_THAT(refusal(from_toml("[train]\nfreeze = [\"a\", 1]\n")),
              AllOf(HasSubstr("my.toml:2"), HasSubstr("does not hold strings alone")));
  EXPECT_THAT(refusal(from_toml("[train]\nfreeze = 1\n")), HasSubstr("expected a list of strings"));
  EXPECT_THAT(refusal(from_toml("[data]\nmean = [\"a\"]\n")), HasSubstr("numbers alone"));
  for (const char* text : {"a,", ",", "a\"b", "\\"})
    EXPECT_THAT(refusal(from_command_line({std::string("--train.freeze=") + text})),
                HasSubstr("expected a list of strings"))
        << text;
  EXPECT_THAT(refusal(from_command_line({"--train.freeze=\xff"})), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(refusal(from_command_line({"--train.init_fresh=wte*"})), HasSubstr("train.init_from"));
  EXPECT_THAT(refusal(from_command_line({"--model.lora.targets=*.c_attn"})),
              HasSubstr("model.lora.rank is 0"));
}

TEST(Config, TablesWithinSections) {
  const auto lora = [](const ConfigSources& sources) { return resolve_config(sources).config.model.lora; };
  for (const ConfigSources& sources :
       {from_toml("[model.lora]\nrank = 4\ntargets = [\"*.c_attn\"]\n"),
        from_toml("[model]\nlora = {rank = 4, targets = \"*.c_attn\"}\n"),
        from_environment({"TRIREME_MODEL__LORA__RANK=4", "TRIREME_MODEL__LORA__TARGETS=*.c_attn"}),
        from_command_line({"--model.lora.rank=4", "model.lora.targets=*.c_attn"})}) {
    EXPECT_EQ(lora(sources).rank, 4);
    EXPECT_THAT(lora(sources).targets, ElementsAre("*.c_attn"));
  }
  Config config;
  config.model.lora.rank = 3;
  EXPECT_EQ(lora(from_toml(config_toml(config))).rank, 3);
  EXPECT_THAT(refusal(from_toml("[model.lora]\nrnak = 4\n")),
              AllOf(HasSubstr("my.toml:2"), HasSubstr("did you mean model.lora.rank?")));
  EXPECT_THAT(refusal(from_toml("[model]\nlora = 4\n")), HasSubstr("unknown setting model.lora"));
}

TEST(Config, ParameterGroups) {
  const auto groups = [](const ConfigSources& sources) {
    return resolve_config(sources).config.optim.groups;
  };
  const ParameterGroup bias{"*.bias", 0.1, 0.0}, head{"head.*", 2, std::nullopt};
  EXPECT_THAT(groups(from_toml("[[optim.groups]]\nmatch = \"*.bias\"\nlr_scale = 0.1\nweight_decay = 0\n"
                               "[[optim.groups]]\nmatch = \"head.*\"\nlr_scale = 2\n")),
              ElementsAre(bias, head));
  const std::string text =
      "[{match = \"*.bias\", lr_scale = 0.1, weight_decay = 0.0}, {match = \"head.*\", lr_scale = 2.0}]";
  EXPECT_THAT(groups(from_command_line({"--optim.groups=" + text})), ElementsAre(bias, head));
  EXPECT_THAT(groups(from_environment({"TRIREME_OPTIM__GROUPS=" + text})), ElementsAre(bias, head));
  // What a run leaves behind reads back.
  Config config;
  config.optim.groups = {bias, head};
  EXPECT_THAT(config_toml(config), HasSubstr("groups = " + text));
  EXPECT_THAT(groups(from_toml(config_toml(config))), ElementsAre(bias, head));
  for (const char* bad : {"1", "[1]", "[{lr_scale = 1}]", "[{match = 1}]", "[{match = \"a\", lr = 1}]",
                          "[{match = \"a\", lr_scale = -1}]", "[{match = \"a\", weight_decay = nan}]",
                          "[{match = \"a\", lr_scale = \"b\"}]", "[", "[]\nx = 1"})
    EXPECT_THAT(refusal(from_command_line({std::string("--optim.groups=") + bad})),
                HasSubstr("expected a list of tables"))
        << bad;
}

TEST(Config, BrokenTomlNamesTheLine) {
  EXPECT_THAT(refusal(from_toml("[train]\nbatch = \n")), HasSubstr("my.toml:2: not TOML"));
  EXPECT_THAT(refusal(from_toml("[train]\nbatch = 1\nbatch = 2\n")), HasSubstr("my.toml:3: not TOML"));
}

TEST(Config, FieldsMustFitTogether) {
  EXPECT_THAT(
      refusal(from_command_line({"--model.hidden=130"})),
      HasSubstr("model.hidden = 130 cannot be shared evenly by model.heads = 4; try hidden 128 or 132, or "
                "heads 2 or 5"));
  EXPECT_THAT(refusal(from_command_line({"--train.tf32=true"})), HasSubstr("train.device = cpu"));
  EXPECT_THAT(
      refusal(from_command_line({"--train.tf32=true", "--train.device=cuda", "--train.precision=bf16"})),
      HasSubstr("train.precision = bf16"));
  EXPECT_EQ(refusal(from_command_line({"--train.tf32=true", "--train.device=cuda"})), "accepted");
  EXPECT_THAT(refusal(from_command_line({"--train.batch=12", "--train.accumulate=5"})),
              HasSubstr("try batch 10 or 15, or accumulate 4 or 6"));
  EXPECT_THAT(refusal(from_command_line({"--model.family=llama", "--model.hidden=12"})),
              HasSubstr("even number"));
  EXPECT_THAT(refusal(from_command_line({"--model.family=lenet", "--data.kind=text"})),
              HasSubstr("try data.kind mnist"));
  EXPECT_THAT(refusal(from_command_line({"--data.kind=mnist"})), HasSubstr("try data.kind text or tokens"));
  EXPECT_THAT(refusal(from_command_line({"--data.kind=tokens"})), HasSubstr("needs data.path"));
  EXPECT_THAT(refusal(from_command_line({"--optim.lr=1e-3", "--lr_schedule.min_lr=1e-2"})),
              HasSubstr("lower min_lr"));
  EXPECT_THAT(refusal(from_command_line({"--lr_schedule.decay_steps=5"})), HasSubstr("ends after"));
  const auto image = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--model.family=mlp", "--data.path=x"});
    return refusal(from_command_line(more));
  };
  EXPECT_THAT(image({"--data.image_height=32"}), HasSubstr("data.image_width = 0 go together"));
  EXPECT_THAT(image({"--data.image_height=-1"}), HasSubstr("at least 0, at most 16384"));
  EXPECT_THAT(image({"--data.mean=0.5"}), HasSubstr("data.mean has 1 values and data.deviation 0"));
  EXPECT_THAT(image({"--data.mean=0.5", "--data.deviation=0"}),
              HasSubstr("data.deviation is the list [0.0]"));
  EXPECT_THAT(refusal(from_command_line({"--data.mean=0.5", "--data.deviation=0.5"})),
              HasSubstr("which are for images"));
  EXPECT_THAT(refusal(from_command_line({"--data.tokenizer_path=x"})),
              HasSubstr("is for data.tokenizer = gpt2"));
  // All problems at once, not one per attempt.
  EXPECT_THAT(refusal(from_command_line({"--model.hidden=130", "--train.accumulate=5"})),
              AllOf(HasSubstr("model.hidden"), HasSubstr("train.accumulate")));
}

TEST(Config, ValidatesWhatCodeFilledIn) {
  Config config;
  config.model.heads = 0;
  EXPECT_THAT(config_problems(config), ElementsAre(HasSubstr("model.heads is the integer 0")));
}

// Of every family: as it is written, and with what stands there as comments.
TEST(Config, TemplatesReadBackTheSame) {
  for (const std::string& family : model_families()) {
    const ResolvedConfig resolved = resolve_config(
        from_command_line({"--model.family=" + family, "--train.steps=7", "--data.path=some"}));
    const std::string text = config_template(resolved);
    EXPECT_THAT(text, HasSubstr("\nfamily = \"" + family + "\"\n"));
    EXPECT_THAT(text, HasSubstr("\nsteps = 7\n"));
    EXPECT_THAT(text, HasSubstr("\n#seed = "));
    EXPECT_EQ(config_toml(resolve_config(from_toml(text)).config), config_toml(resolved.config)) << family;
    std::string whole = text;
    for (size_t at = 0; (at = whole.find("\n#", at)) != std::string::npos; ++at) {
      if (whole[at + 2] != ' ') whole.erase(at + 1, 1);
    }
    EXPECT_THAT(whole, HasSubstr("\nseed = "));
    EXPECT_EQ(config_toml(resolve_config(from_toml(whole)).config), config_toml(resolved.config)) << family;
  }
}

TEST(Config, TomlReadsBackTheSame) {
  const Config config =
      resolve_config(
          from_command_line({"--run.dir=a \"b\"\\\n\x7f\xc3\xa9", "--optim.lr=3", "--optim.eps=1e-12",
                             "--train.seed=9007199254740993", "--optim.nesterov=true", "--model.family=mlp",
                             "--data.path=x", "--data.mean=0,0.125", "--data.deviation=1e-3"}))
          .config;
  const std::string text = config_toml(config);
  const Config again = resolve_config(from_toml(text)).config;
  EXPECT_EQ(config_toml(again), text);
  EXPECT_EQ(again.run.dir, "a \"b\"\\\n\x7f\xc3\xa9");
  EXPECT_EQ(again.train.seed, 9007199254740993);
  EXPECT_EQ(again.optim.eps, 1e-12);
  EXPECT_THAT(again.data.mean, ElementsAre(0, 0.125));
  EXPECT_TRUE(again.optim.nesterov);
}

TEST(Config, TextFormsNameEveryField) {
  ResolvedConfig resolved = resolve_config(from_toml("[train]\nbatch = 8\n"));
  const std::string table = config_table(resolved), help = config_help();
  for (const Field& field : config_fields(resolved.config)) {
    EXPECT_THAT(table, HasSubstr(field.name + " "));
    EXPECT_THAT(help, HasSubstr("--" + field.name + "="));
  }
  EXPECT_THAT(table, ::testing::ContainsRegex("train\\.batch +8 +my\\.toml:2\n"));
}

// Each name is bound once, in a section that exists, and to a member of its own.
TEST(Config, FieldsAreDistinct) {
  Config config;
  std::set<std::string> names, sections;
  std::set<const void*> members;
  for (const Section& section : config_sections()) sections.insert(section.name);
  for (const Field& field : config_fields(config)) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_TRUE(
        members.insert(std::visit([](auto* value) -> const void* { return value; }, field.value)).second)
        << field.name;
    EXPECT_TRUE(sections.contains(field.section())) << field.name;
  }
}

TEST(Config, ReadsFiles) {
  const TempFolder folder;
  const std::string path = folder.write("config_test.toml", "[train]\nbatch = 6\n");
  const ResolvedConfig resolved = resolve_config({.file = read_config_file(path)});
  EXPECT_EQ(resolved.config.train.batch, 6);
  EXPECT_EQ(resolved.origins.at("train.batch"), path + ":2");
  std::filesystem::remove(path);
  EXPECT_THROW(read_config_file(path), Error);
  EXPECT_THROW(read_config_file(::testing::TempDir()), Error);  // a folder
}

// Names and defaults are a promise to people's scripts: a change shows up here and in the page.
TEST(Config, PageInDocsIsCurrent) {
  const auto page = std::filesystem::path(TRIREME_SOURCE_DIR) / "docs/config.md";
  if (std::getenv("TRIREME_UPDATE_DOCS")) std::ofstream(page) << config_markdown();
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  EXPECT_EQ(text.str(), config_markdown())
      << "run this test with TRIREME_UPDATE_DOCS=1 to write the page anew";
}

}  // namespace
}  // namespace trireme
