// Choice of the data source and checks that all sources share; see open_data.h.
#include "trireme/data/open_data.h"

#include <algorithm>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/data/data_source.h"

namespace trireme {
namespace {

std::vector<std::string> known_kinds() {
  std::vector<std::string> kinds{"auto"};
  for (const DataSource& source : data_sources()) kinds.emplace_back(source.kind);
  return kinds;
}

// The nearest existing name beside a path that does not exist, for "did you mean".
std::string suggest_path(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored))
    names.push_back(entry.path().filename().string());
  const std::string name = nearest(path.filename().string(), names);
  return name.empty()
             ? ""
             : "; did you mean " +
                   (path.has_parent_path() ? parent / name : std::filesystem::path(name)).string() + "?";
}

const DataSource& choose(const DataOptions& options) {
  std::string expected;
  for (const DataSource& source : data_sources()) {
    if (options.kind == "auto" ? source.detects(options.path) : source.kind == options.kind) return source;
    expected += fmt::format("\n  {}: {}", source.kind, source.expects);
  }
  throw_error("{}: cannot tell what kind of data this is; set data.kind, or give one of:{}", options.path,
              expected);
}

}  // namespace

std::span<const DataSource> data_sources() {
  static const DataSource sources[] = {kMnistSource, kCifar10Source, kImageFolderSource,
                                       kTokenSource, kPairSource,    kTextSource};
  return sources;
}

void DataOptions::validate() const {
  const std::vector<std::string> kinds = known_kinds();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    const std::string guess = nearest(kind, kinds);
    throw_error("data.kind: '{}' is not known{}; known are {}", kind,
                guess.empty() ? "" : ", did you mean '" + guess + "'?", join(kinds, ", "));
  }
  if (path.empty()) throw_error("data.path is empty; give a file or folder to train on");
  if (!(validation >= 0 && validation < 1))
    throw_error("data.validation is {}, a fraction from 0 to below 1 was expected", validation);
  if (seq < 1) throw_error("model.seq is {}, at least 1 was expected", seq);
  if (source_seq < 0)
    throw_error("model.source_seq is {}, at least 1 was expected, or 0 for that of model.seq", source_seq);
  if (!(masked_fraction >= 0 && masked_fraction < 1))
    throw_error("data.masked_fraction is {}, a share from 0 to below 1 was expected", masked_fraction);
  if (vocab < 0)
    throw_error("model.vocab is {}, at least 1 was expected, or 0 for what the data needs", vocab);
  if (folder.height < 0 || folder.width < 0 || folder.height > 16384 || folder.width > 16384 ||
      (folder.height == 0) != (folder.width == 0)) {
    throw_error(
        "data.image_height {} and data.image_width {} must both be from 1 to 16384, or both 0 to keep the "
        "size of the images",
        folder.height, folder.width);
  }
  if (mean.empty() != deviation.empty())
    throw_error("data.mean and data.deviation go together; {} and {} values given", mean.size(),
                deviation.size());
}

OpenedData open_data(const DataOptions& options) {
  options.validate();
  std::error_code ignored;
  if (!std::filesystem::exists(options.path, ignored))
    throw_error("data.path: {} does not exist{}", options.path, suggest_path(options.path));
  try {
    const DataSource& source = choose(options);
    OpenedData data = source.open(options);
    data.kind = source.kind;
    data.path = options.path;
    if (data.input.rank() == 0) data.input = data.train->tensors()[0].row;
    return data;
  } catch (const std::filesystem::filesystem_error& error) {
    // A folder that may not be read, or a loop of links.
    throw_error("data.path: {}; check the path and its permissions", error.what());
  }
}

}  // namespace trireme
