// The loader: a producer that turns positions into batches, and a ring of buffers between it and the
// caller. Ring slots go round: free -> made by the thread -> held by the caller -> free.
#include "trireme/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// Makes batches one after the other from a position on. Not thread-safe.
class Producer {
 public:
  Producer(const DataSet& data, const LoaderOptions& options) : data_(data), options_(options) {
    if (!options_.own.empty()) options_.clients = {std::move(options_.own)};
    for (const std::vector<uint32_t>& samples : options_.clients)
      orders_.emplace_back(std::ssize(samples), options.order, options.seed);
    if (options_.clients.empty()) orders_.emplace_back(data.size(), options.order, options.seed);
    if (options_.parts.empty()) options_.parts = {{0, options_.batch}};
    for (const Part& part : options_.parts) own_rows_ += part.size;
  }

  DataPosition position;

  void make(Batch& batch) {
    const int64_t left = data_.size() - position.index;  // of this epoch; at least 1
    const int64_t samples =
        options_.last == LastBatch::wrap ? options_.batch : std::min(left, options_.batch);
    batch.rows = 0;
    for (const Part& part : options_.parts)
      batch.rows += std::clamp<int64_t>(samples - part.begin, 0, part.size);
    batch.parts = options_.parts;
    batch.position = position;
    batch.ends_epoch = options_.batch >= left;
    shape(batch, options_.last == LastBatch::shorten ? batch.rows : own_rows_);
    const int64_t batches = (position.epoch * data_.size() + position.index) / options_.batch;
    turn_ = options_.turn_of ? options_.turn_of(batches) : LoaderOptions::Turn{0, batches};
    int64_t to = 0;
    for (const Part& part : options_.parts) {
      for (int64_t row = part.begin; row < part.end(); ++row, ++to) {
        if (row < samples) {
          options_.clients.empty() ? write_of_all(row, to, batch) : write_own(to, batch);
        } else if (options_.last == LastBatch::pad) {
          data_.write_padding(to, batch);
        }
      }
    }
    const int64_t end = position.index + samples;
    position = {position.epoch + end / data_.size(), end % data_.size()};
  }

 private:
  void write_of_all(int64_t row, int64_t to, Batch& batch) {
    const int64_t place = position.index + row, epoch = position.epoch + place / data_.size();
    data_.write(epoch, orders_[0].sample(epoch, place % data_.size()), to, batch);
  }
  // Of the samples that this rank has taken so far, which follows from the batches that all have.
  void write_own(int64_t to, Batch& batch) {
    const std::vector<uint32_t>& samples = options_.clients[turn_.client];
    const int64_t place = turn_.batches * own_rows_ + to, size = std::ssize(samples), epoch = place / size;
    data_.write(epoch, samples[orders_[turn_.client].sample(epoch, place % size)], to, batch);
  }

  void shape(Batch& batch, int64_t rows) const {
    const auto tensors = data_.tensors();
    if (batch.tensors.size() != tensors.size()) {
      batch.tensors.resize(tensors.size());
      for (size_t i = 0; i < tensors.size(); ++i) batch.tensors[i].first = tensors[i].name;
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      Shape whole{rows};
      for (const int64_t extent : tensors[i].row) whole.push_back(extent);
      batch.tensors[i].second.reset(tensors[i].dtype, whole);
    }
  }

  const DataSet& data_;
  LoaderOptions options_;
  std::vector<EpochOrder> orders_;  // of each client; of all samples where ranks have none of their own
  LoaderOptions::Turn turn_;        // of the batch under way
  int64_t own_rows_ = 0;
};

struct Slot {
  Batch batch;
  DataPosition after;  // the position once this batch has been taken
};

}  // namespace

void LoaderOptions::validate() const {
  if (batch < 1) throw_error("batch is {}, at least 1 was expected", batch);
  if (prefetch < 0 || prefetch > 1024)
    throw_error("prefetch is {}, a number of batches from 0 to 1024 was expected", prefetch);
  int64_t end = 0;
  for (const Part& part : parts) {
    if (part.begin < end || part.size < 1 || part.end() > batch) {
      throw_error("rows [{}, {}) are not within a batch of {}, or not after those before", part.begin,
                  part.end(), batch);
    }
    end = part.end();
  }
  if (last == LastBatch::shorten && !parts.empty()) {
    throw_error(
        "a batch that is split over ranks cannot be shortened, since some ranks would have no rows; use "
        "padding");
  }
}

LoaderOptions evaluation(int64_t batch) {
  return {.batch = batch, .order = SampleOrder::sequential, .last = LastBatch::pad};
}

struct Loader::State {
  State(std::shared_ptr<const DataSet> set, const LoaderOptions& loader_options)
      : data(std::move(set)),
        options(loader_options),
        producer(*data, options),
        slots(static_cast<size_t>(options.prefetch) + 1) {}
  ~State() { stop(); }

  const std::shared_ptr<const DataSet> data;
  const LoaderOptions options;
  Producer producer;      // used by the thread while it runs
  DataPosition position;  // what position() says
  std::vector<Slot> slots;
  size_t next_slot = 0;       // the one that next() hands out next
  std::exception_ptr thrown;  // kept for the calls after an error

  std::thread thread;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  size_t made = 0;    // slots from next_slot on that are ready
  bool held = false;  // the slot before next_slot is with the caller
  bool stopping = false;
  std::exception_ptr error;  // what ended the thread

  void run() {
    size_t slot = next_slot;
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || made + (held ? 1 : 0) < slots.size(); });
      if (stopping) return;
      lock.unlock();
      std::exception_ptr failure;
      try {
        producer.make(slots[slot].batch);
        slots[slot].after = producer.position;
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      error = failure;
      if (!failure) ++made;
      changed.notify_all();
      if (failure) return;
      slot = (slot + 1) % slots.size();
    }
  }

  void stop() {
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
    stopping = false;
  }

  void start() {
    if (!thread.joinable()) thread = std::thread([this] { run(); });
  }

  Slot& take_made() {
    start();
    std::unique_lock lock(mutex);
    held = false;  // the caller is done with the last one
    changed.notify_all();
    changed.wait(lock, [&] { return made > 0 || error; });
    if (made == 0) {
      thrown = error;
      std::rethrow_exception(thrown);
    }
    --made;
    held = true;
    Slot& slot = slots[next_slot];
    next_slot = (next_slot + 1) % slots.size();
    return slot;
  }
};

Loader::Loader(std::shared_ptr<const DataSet> data, const LoaderOptions& options) {
  options.validate();
  if (!data) throw_error("a loader was given no data set (there may be nothing held out)");
  if (data->size() < 1) throw_error("the data set is empty; at least one sample was expected");
  std::vector<uint32_t> chosen = options.own;
  for (const std::vector<uint32_t>& samples : options.clients) {
    if (samples.empty()) throw_error("a client was given no samples; at least one was expected");
    chosen.insert(chosen.end(), samples.begin(), samples.end());
  }
  for (const uint32_t sample : chosen) {
    if (sample >= data->size())
      throw_error("sample {} of a rank is outside the data set of {} samples", sample, data->size());
  }
  state_ = std::make_unique<State>(std::move(data), options);
}
Loader::~Loader() = default;

Batch& Loader::next() {
  State& state = *state_;
  if (state.thrown) std::rethrow_exception(state.thrown);
  if (state.options.prefetch > 0) {
    Slot& slot = state.take_made();
    state.position = slot.after;
    return slot.batch;
  }
  try {
    state.producer.make(state.slots[0].batch);
  } catch (...) {
    state.thrown = std::current_exception();
    throw;
  }
  state.position = state.producer.position;
  return state.slots[0].batch;
}

Batch* Loader::peek() {
  const std::lock_guard lock(state_->mutex);
  return state_->made > 0 ? &state_->slots[state_->next_slot].batch : nullptr;
}

Batch& Loader::ahead(int calls) {
  State& state = *state_;
  if (calls < 1 || calls > state.options.prefetch)
    throw_error("the batch {} calls ahead was asked for; 1 to {} are made ahead (LoaderOptions::prefetch)",
                calls, state.options.prefetch);
  state.start();
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return state.made >= static_cast<size_t>(calls) || state.error; });
  if (state.made < static_cast<size_t>(calls)) std::rethrow_exception(state.error);
  return state.slots[(state.next_slot + static_cast<size_t>(calls) - 1) % state.slots.size()].batch;
}

DataPosition Loader::position() const {
  return state_->position;
}

void Loader::seek(const DataPosition& position) {
  State& state = *state_;
  if (position.epoch < 0 || position.index < 0 || position.index >= state.data->size()) {
    throw_error(
        "position (epoch {}, sample {}) is outside the data set of {} samples; was the checkpoint made with "
        "other data?",
        position.epoch, position.index, state.data->size());
  }
  state.stop();
  state.producer.position = state.position = position;
  state.made = state.next_slot = 0;
  state.held = false;
  state.error = state.thrown = nullptr;
}

const DataSet& Loader::data() const {
  return *state_->data;
}

}  // namespace trireme
