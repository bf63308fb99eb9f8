// Batches from a DataSet, in an order that depends on (seed, epoch) alone, made ahead of time by a
// background thread. The state of a loader is its position: two numbers that a checkpoint keeps, after
// which the same batches follow bit by bit, also with another batch size or number of ranks.
//
//   Loader loader(data.train, {.batch = 32, .seed = 1});
//   for (int step = 0; step < steps; ++step) train_step(loader.next());
//
//   Loader loader(data.validation, evaluation(32));  // every sample once, the last batch padded
//   for (bool more = true; more;) {
//     Batch& batch = loader.next();
//     evaluate(batch);
//     more = !batch.ends_epoch;
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "trireme/data/batch.h"
#include "trireme/data/data_set.h"
#include "trireme/data/epoch_order.h"

namespace trireme {

// What happens when fewer than `batch` samples of the epoch are left.
enum class LastBatch {
  wrap,    // the batch is filled up with the first samples of the next epoch: shapes never change (training)
  pad,     // filled up with rows that the loss ignores: shapes never change, every sample counts once
           // (evaluation)
  shorten  // the batch is smaller; for consumers that take any shape
};

struct LoaderOptions {
  int64_t batch = 8;  // samples in the whole batch, over all ranks
  uint64_t seed = 0;
  SampleOrder order = SampleOrder::shuffled;
  LastBatch last = LastBatch::wrap;
  std::vector<Part> parts;  // the rows of the whole batch that this rank makes, ascending; none: all of them
  // The samples that this rank's rows are drawn from, where ranks have data of their own (partition.h); none:
  // all ranks draw from all. Each rank has epochs of its own then; a position is that of all ranks together.
  std::vector<uint32_t> own;
  // Likewise, where a rank has those of one client after another: of each client, and which one a batch
  // (counted from 0) is of, and how many that client has had before.
  struct Turn {
    size_t client = 0;
    int64_t batches = 0;
  };
  std::vector<std::vector<uint32_t>> clients;
  std::function<Turn(int64_t batch)> turn_of;
  int prefetch = 2;  // batches made ahead; 0: no thread, next() makes the batch

  void validate() const;  // throws Error
};

// Options for one pass over held-out data: in order, the last batch padded.
LoaderOptions evaluation(int64_t batch);

class Loader {
 public:
  Loader(std::shared_ptr<const DataSet> data, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch, valid until the next call of next() or seek(). An error met in the background is
  // thrown here, again at every call, until seek(). Allocates nothing once every buffer has been used.
  Batch& next();

  // The batch that next() will return, where it is made already; null otherwise.
  Batch* peek();
  // The one that it will return after so many calls, up to `prefetch`; waits until it is made.
  Batch& ahead(int calls);

  // Where the batch after the one last returned begins.
  DataPosition position() const;
  void seek(const DataPosition& position);  // throws Error when the data set has no such sample

  const DataSet& data() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
