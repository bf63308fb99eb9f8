// What was measured of a transport, from which costs are predicted and algorithms chosen. Calibration writes
// it to a file; all ranks of a job must use the same one, because they have to choose the same.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/call.h"
#include "trireme/comm/collective/cost.h"
#include "trireme/comm/collective/curve.h"

namespace trireme::comm {

// Messages between two ranks.
struct LinkCurves {
  Curve message;  // from the start of the send to the end of the receive: half of a ping-pong
  Curve gap;      // from one message to the next of many in a row; empty: no shorter than `message`

  friend bool operator==(const LinkCurves&, const LinkCurves&) = default;
};

struct LinkModel {
  std::string transport;  // "shm"
  int ranks = 0;          // that were there when it was measured
  int cores = 0;          // per host, that ranks share; 0: one for each
  Ports ports = Ports::one;
  double operation_seconds = 0;        // of starting and ending an operation, beside its messages
  LinkCurves inside;                   // between ranks of one host
  LinkCurves across;                   // between hosts; empty: the same
  Curve reduce;                        // adding that many bytes
  std::map<Collective, Curve> native;  // the transport's own way; bytes of the whole vector

  friend bool operator==(const LinkModel&, const LinkModel&) = default;
};

// `hosts`: host number of each rank; empty: all on one.
Costs costs_of(const LinkModel& model, std::span<const int> hosts);

// A file is a list of models, as JSON. Reading throws Error with `origin` (a path) and what is wrong.
std::string to_json(std::span<const LinkModel> models);
std::vector<LinkModel> parse_link_models(std::string_view json, std::string_view origin);
std::vector<LinkModel> read_link_models(const std::string& path);
void write_link_models(const std::string& path, std::span<const LinkModel> models);

// The one of this transport that was measured with the nearest number of ranks; nullptr when there is none.
const LinkModel* find_link_model(std::span<const LinkModel> models, std::string_view transport, int ranks);

}  // namespace trireme::comm
