// A trained model that answers: its weights on a device, and the engine of its kind.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trireme/run/trained_model.h"
#include "trireme/runtime/device.h"
#include "trireme/serve/image_engine.h"
#include "trireme/serve/site.h"
#include "trireme/serve/text_engine.h"

namespace trireme::serve {

struct ServeOptions {
  Limits limits;
  std::string device;  // "": that of the run
  int threads = 0;     // of a CPU; 0: all
  Shape image;         // of the images; none: that of the run
};

class ServedModel {
 public:
  // Throws Error for a model that neither writes text nor classifies images, or lacks what that takes.
  ServedModel(const TrainedModel& trained, const ServeOptions& options);

  std::optional<ServedText> text();
  std::optional<ServedImages> images();
  // Takes no more; see TextEngine::drain().
  int drain(double seconds) { return text_ ? text_->drain(seconds) : images_->drain(seconds); }
  size_t bytes() const { return bytes_; }                  // of weights, cache and work
  const std::string& summary() const { return summary_; }  // for people

 private:
  void open_text(const TrainedModel& trained, const Limits& limits);
  void open_images(const TrainedModel& trained, const ServeOptions& options);

  std::unique_ptr<Device> device_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<TextEngine> text_;
  ImageForm form_;
  std::vector<std::string> classes_;
  std::unique_ptr<ImageEngine> images_;
  size_t bytes_ = 0;
  std::string summary_;
};

}  // namespace trireme::serve
