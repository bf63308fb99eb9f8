// Where the settings of a run come from: command line over environment over file over default. Every
// value remembers its origin. Reading is strict: an unknown key, a wrong type and a value outside its
// limits are Errors that say where they stand and what was expected.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/run/options.h"

namespace trireme {

struct ModelRecord;  // models/model.h

// A mistake on the command line.
class UsageError : public Error {
 public:
  using Error::Error;
};

struct ConfigFile {
  std::string name;  // its path: for messages and origins, and relative paths in it are taken from its folder
  std::string text;  // TOML
};
ConfigFile read_config_file(const std::string& path);

struct ConfigSources {
  std::optional<ConfigFile> file;
  // "NAME=value". TRIREME_TRAIN__BATCH=32 sets train.batch; names without TRIREME_ or without a double
  // underscore are not ours and are ignored.
  std::vector<std::string> environment;
  // "--train.batch=32", "train.batch=32", or "--train.batch" followed by "32". The last one wins.
  std::vector<std::string> command_line;
};
std::vector<std::string> process_environment();

struct ResolvedConfig {
  Config config;
  // By dotted name: "default", "default of resnet" (ModelRecord::defaults), "my.toml:3", "environment
  // TRIREME_TRAIN__BATCH" or "command line".
  std::map<std::string, std::string, std::less<>> origins;

  bool is_default(std::string_view name) const;
};

// Merges the sources and validates the whole. Throws Error; UsageError where the command line alone is wrong:
// a name that does not exist, a value that its setting can not have. With a model, settings may also be for
// that one, which need not be in the table of families.
ResolvedConfig resolve_config(const ConfigSources& sources, const ModelRecord* own = nullptr);

// What is wrong between fields, one sentence each with the numbers and a way out; empty when all is well.
// With a model, the settings are for that one, which need not be in the table of families.
std::vector<std::string> config_problems(const Config& config);
std::vector<std::string> config_problems(const Config& config, const ModelRecord& model);
// Throws one Error with all problems.
void validate(const Config& config);
void validate(const Config& config, const ModelRecord& model);

// Has `argument` the form of a setting, "--section.key…" or "section.key=…"? Tells settings, right or
// misspelt, from a command's own flags ("--plan=x.json") and file names ("my.toml").
bool is_config_argument(std::string_view argument);

// The setting that was probably meant by a name that is none, with or without its section ("lr",
// "optim.lrr"); "" when there is none like it.
std::string setting_like(const std::string& name);

// The text forms, all in the order of the fields.
std::string config_table(const ResolvedConfig& resolved);  // name, value, origin: --print-config
std::string config_toml(const Config& config);             // reads back as the same config; paths are whole
// A file to begin with: every setting with its meaning, those that have their default as comments. Reads back
// as the same config, also when the comments' values are uncommented.
std::string config_template(const ResolvedConfig& resolved);
std::string config_help();      // one line per setting: --help
std::string config_markdown();  // docs/config.md

// Where train.batch_per_rank is set: the batch, and the batch that optim.lr is for, when so many ranks share
// it. To be validated again.
void use_batch_per_rank(Config& config, int64_t ranks);

}  // namespace trireme
