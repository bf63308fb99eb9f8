// The table of docs/parity.md: small models under every kind of plan, in each precision, with and without
// accumulation, by each optimizer, against one rank. Models and plans are data; what a plan can not do is in
// the table with the reason.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/train/parity/verify.h"

namespace trireme::cli {

struct ParityModel {
  std::string name;
  std::string image;                  // "3x8x8"; "" for tokens
  std::vector<std::string> settings;  // as on the command line
};

struct ParityPlan {
  std::string name;
  std::string json;    // as in a file
  int accumulate = 0;  // 0: as the column says
};

// One column.
struct ParityColumn {
  std::string precision;
  int accumulate = 1;  // 0: as each plan says
  std::string optimizer;
};

struct ParityTable {
  std::vector<ParityModel> models;
  std::vector<ParityPlan> plans;
  std::vector<ParityColumn> columns;
};

// Tensors split over the ranks; and models cut into stages, whose numbers of microbatches follow from theirs.
ParityTable layout_table();
ParityTable pipeline_table();

struct ParityCell {
  size_t model, plan, column;
  parity::Result result;
};

// Calls back for each cell, in no particular order and one at a time; several are worked on at once.
// `filter`: only models and plans with "MODEL PLAN" containing it.
void fill(const ParityTable& table, const std::string& filter,
          const std::function<void(const ParityCell&)>& report);

// In Markdown, with the reasons of refusals as notes.
std::string to_markdown(const ParityTable& table, const std::vector<ParityCell>& cells);

}  // namespace trireme::cli
