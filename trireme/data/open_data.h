// From a path to training and held-out samples: the one door through which a run gets its data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/base/shape.h"
#include "trireme/data/data_set.h"
#include "trireme/data/image_folder.h"
#include "trireme/data/image_samples.h"
#include "trireme/data/text_source.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

struct DataOptions {
  std::string kind = "auto";  // auto, text, tokens, pairs, mnist, cifar10, images; auto looks at the path
  std::string path;           // a file or folder
  double validation = 0.1;    // the part held out where the data does not bring its own; 0: nothing
  uint64_t seed = 0;          // of window offsets and augmentation
  // kEvaluation: nothing is trained on, and all of the data is held out where it does not bring a held-out
  // part of its own. OpenedData::train is then of no use.
  enum class Use { kTraining, kEvaluation } use = Use::kTraining;

  // Text, tokens and pairs.
  std::string tokenizer = "bytes";  // bytes, gpt2, or a path; for token files only used to decode samples
  std::string tokenizer_path;       // for gpt2: the folder of encoder.json and vocab.bpe
  int64_t seq = 256;                // tokens in a sample; of pairs, in a target with its end
  int64_t source_seq = 0;           // of pairs: tokens in a source with its end; 0: seq
  int64_t vocab = 0;                // the model's, which every token must fit; 0: whatever the data needs
  // Above 0: this share of tokens is hidden and to be found (masked_tokens.h), and the vocabulary's last id
  // is the mask, one more than the data needs.
  double masked_fraction = 0;
  TextOptions text;

  // Images.
  ImageFolderOptions folder;
  std::vector<std::string>
      classes;  // names by label that folders must be among; empty: the folders there are
  std::vector<float> mean, deviation;  // of pixels from 0 to 1; empty: measured on the training images
  int64_t crop_padding = 0;            // augmentation of training images only
  Flip flip = Flip::none;

  void validate() const;  // throws Error
};

struct OpenedData {
  std::string kind;                           // as found, never "auto"
  std::shared_ptr<const DataSet> train;       // never null
  std::shared_ptr<const DataSet> validation;  // null when nothing is held out
  int64_t vocab = 0;                          // tokens: ids are below it, a mask's too; 0 for images
  std::vector<std::string> classes;           // images: names by label; empty for tokens
  std::vector<float> mean, deviation;         // images: what pixels were normalised by
  Shape input;  // of one sample: [seq], [source_seq,seq] or [channels,height,width]
  std::shared_ptr<const Tokenizer> tokenizer;  // null for images, and for token files without one
  std::string summary;                         // one line for people: what was found, and how much
  std::string path = {};                       // where it was found; "" of data that has no files
  // XXH64 of all that the samples are made from, as ids or as pixels and labels: whether two runs, or two
  // ranks, have the same data, wherever it lies.
  uint64_t train_hash = 0, validation_hash = 0;
};

// Throws Error when the path, the files or the options are wrong.
OpenedData open_data(const DataOptions& options);

}  // namespace trireme
