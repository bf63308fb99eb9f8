// Settings of the data (data.*). 0, "" or an empty list means automatic; the comment says from where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct DataSettings {
  std::string kind = "auto";        // by looking at the path
  std::string path;                 // automatic: the text of this repository
  std::string tokenizer = "bytes";  // or gpt2, or a path; see config_fields.cc
  std::string tokenizer_path;       // of the files of gpt2
  double validation_fraction = 0.1;
  double masked_fraction = 0.15;  // of tokens that bert is to find
  std::string partition = "iid";  // which samples ranks have for themselves (data/partition.h)
  double dirichlet_alpha = 0.5;   // of data.partition = dirichlet
  // Images only.
  bool augment = false;                       // random crops and flips
  int64_t image_height = 0, image_width = 0;  // automatic: the size that all images have
  std::vector<double> mean, deviation;        // automatic: measured on the training images
};

}  // namespace trireme
