// The table of data sources behind open_data(). One record says all there is to know about a kind of
// data; README.md walks through adding one.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "trireme/data/open_data.h"

namespace trireme {

struct DataSource {
  std::string_view kind;
  std::string_view expects;                            // for messages: what the path should hold
  bool (*detects)(const std::filesystem::path& path);  // cheap; the path exists
  OpenedData (*open)(const DataOptions& options);      // options are valid and the path exists
};

// In order of detection: the first that detects the path wins, so the most particular come first.
std::span<const DataSource> data_sources();

// The records, beside their code.
extern const DataSource kMnistSource, kCifar10Source, kImageFolderSource;  // image_data.cc
extern const DataSource kTokenSource, kTextSource;                         // token_data.cc
extern const DataSource kPairSource;                                       // pair_data.cc

}  // namespace trireme
