// The trained models of a placed workflow: a variant that makes outputs on its worker, and held-out images as
// the messages of a source. Both are what `trireme serve` and `trireme eval` make of the same runs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/placed/job.h"
#include "trireme/placed/worker.h"
#include "trireme/serve/served_model.h"

namespace trireme::placed {

// Which weights of a run are the newest, and a mark by which others are told from them:
// "step-00000060 0123456789abcdef".
std::string newest_weights(const std::string& run);

// An image classifier, or a language model that goes on with the likeliest tokens.
class RunModel {
 public:
  // `tokens`: of a text. Throws Error.
  RunModel(const std::string& run, int tokens);

  bool writes() const { return image_.rank() == 0; }
  const Shape& image() const { return image_; }  // of a classifier: [channels, height, width]
  // Pixels in that order, a byte each, to probabilities as f32; the text is the likeliest class.
  Made classify(std::span<const std::byte> pixels);
  Made write(const std::string& prompt);  // its tokens as i32; the text is printable
  Made write(std::vector<int32_t> prompt);

 private:
  serve::ServedModel model_;
  Shape image_;
  int tokens_;
};

// Of what a classifier makes, by the names of its run.
std::string likeliest_class(const std::vector<std::string>& classes, std::span<const std::byte> output);

// Of a source's message, with the request's number.
size_t image_message_bytes(const Shape& image);

// Held-out images of a run as bytes, [channels][height][width].
class HeldOutImages {
 public:
  HeldOutImages(const std::string& run, int64_t most, const std::string& default_text);
  const Bytes& operator[](int64_t request) const { return images_[request % std::ssize(images_)]; }
  const Shape& shape() const { return shape_; }

 private:
  Shape shape_;
  std::vector<Bytes> images_;
};

// Before any rank is started: every variant of the placement has a run in `folder` whose newest weights are
// those that it was measured with, and every op gets what its model can take. Throws Error.
void check_models(const Job& job, const std::string& folder);

// The models of one worker.
class WorkerModels {
 public:
  WorkerModels(const Job& job, int rank, const std::string& folder);
  Made make(int op, std::span<const Bytes> inputs);

 private:
  const Job& job_;
  std::vector<std::unique_ptr<RunModel>> models_;  // by op; null for those of other workers
  std::vector<std::vector<std::string>> classes_;  // by op, of those that classify
};

// The messages of the sources.
class SourceImages {
 public:
  SourceImages(const Job& job, const std::string& folder, const std::string& default_text);
  Bytes message(int source, int64_t request) const { return images_[source][request]; }

 private:
  std::vector<HeldOutImages> images_;
};

}  // namespace trireme::placed
