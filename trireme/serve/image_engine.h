// Classifies the images of many clients, those that come within a moment of each other together.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "trireme/checkpoint/tensor_part.h"
#include "trireme/data/image_decode.h"
#include "trireme/models/model.h"
#include "trireme/runtime/runner.h"
#include "trireme/serve/options.h"
#include "trireme/serve/work_queue.h"

namespace trireme::serve {

// What training has done with the bytes of an image, to be done again.
struct ImageForm {
  Shape shape;                         // [1 or 3, height, width]
  std::vector<float> mean, deviation;  // of pixels from 0 to 1: one, or one for each channel
};
// Throws Error if there are other channels than 1 or 3, or not as many numbers.
void check_form(const ImageForm& form);
// Scaled to the form's size as the images of folders are, [channel][y][x].
std::vector<float> formed(const Image& image, const ImageForm& form);

class ImageEngine {
 public:
  // Weights are undefined until they are filled.
  ImageEngine(const Model& model, const Shape& image, Device& device, const Limits& limits);
  ~ImageEngine();
  ImageEngine(const ImageEngine&) = delete;
  ImageEngine& operator=(const ImageEngine&) = delete;

  std::vector<PartView> weights();  // to be filled, before start()
  size_t bytes() const { return executor_.program().peak_bytes(); }
  void start();
  // The probabilities of the classes, for each image. Throws RequestError if too many wait, or it is shut
  // down.
  std::vector<std::future<std::vector<float>>> submit(std::vector<std::vector<float>> images);
  // As TextEngine::drain().
  int drain(double seconds);

  struct Counts {
    int64_t images, batches;
    int waiting;
  };
  Counts counts() const;

 private:
  struct Waiting {
    std::vector<float> image;
    std::promise<std::vector<float>> answer;
  };

  void work();
  void classify(std::vector<Waiting>& batch);

  const Limits limits_;
  int64_t classes_ = 0;
  std::vector<int64_t> sizes_;  // of batches, smallest first: a segment each
  std::string input_;
  Executor executor_;
  WorkQueue<Waiting> queue_;
  std::atomic<bool> cut_ = false;
  int cut_images_ = 0;
  std::atomic<int64_t> images_ = 0, batches_ = 0;
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false;
  std::thread worker_;
};

}  // namespace trireme::serve
