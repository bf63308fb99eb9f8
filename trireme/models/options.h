// Settings of a model (model.*). 0 or "" means automatic; the comment says from where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Low-rank adapters beside the weights of linear layers (models/network.h).
struct LoraOptions {
  int64_t rank = 0;                  // 0: none
  double alpha = 0;                  // automatic: rank; what adapters add is multiplied by alpha / rank
  std::vector<std::string> targets;  // patterns of layers' names; automatic: all linear ones
};

// Mixtures of experts in the place of feed-forward layers (models/experts.h); gpt and llama only.
struct MoeOptions {
  int64_t experts = 0;           // 0: none
  int64_t top_k = 0;             // automatic: as published with the gate
  std::string gate = "mixtral";  // docs/experts.md has the table
  double capacity = -1;       // times the even share are an expert's slots; 0: dropless; automatic: by gate
  int64_t shared = 0;         // experts that take every token
  int64_t every = 1;          // so many layers the last one has experts
  int64_t hidden = 0;         // of an expert; automatic: feed_forward
  int64_t groups = 1;         // routing groups of a sequence
  int64_t expert_groups = 1;  // equal groups of experts, of which
  int64_t top_groups = 1;     // so many are chosen from
  double balance = -1;        // weight of the balance loss; automatic: by gate
  double z_loss = 0;          // weight of the router's z-loss
  double bias_rate = 1e-3;    // of the bias of deepseek_v3, a step
  double scale = 0;           // of the sum of the experts' results; automatic: by gate
};

struct ModelOptions {
  std::string family = "gpt";
  std::string path;  // of the file that the model is; onnx only
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 0;  // automatic: as many as heads; llama only
  int64_t hidden = 128;
  int64_t feed_forward = 0;  // automatic: 4 * hidden; llama: 8/3 * hidden, up to a multiple of 32; cnn: 4096
  int64_t vocab = 0;         // automatic: from the tokenizer
  int64_t seq = 128;         // tokens per sequence
  int64_t source_seq = 0;    // tokens per source; automatic: seq; seq2seq only
  int64_t classes = 0;       // automatic: from the data; image models only
  double dropout = 0.0;
  double rope_base = 10000.0;     // llama only
  double norm_eps = 1e-5;         // added to the variance in norms; transformers
  bool tie_embeddings = false;    // the head is the embedding's table; llama only, gpt always does
  int64_t batch_norm_groups = 1;  // of rows, each normalised with its own statistics; resnets only
  // Image models only.
  int64_t channels = 0;       // filters of the first convolution; automatic: as published
  int64_t width = 0;          // times as many filters inside blocks; automatic: resnet 1, wide_resnet 2
  std::string stem = "auto";  // the first layers of a resnet: by its depth
  int64_t patch = 0;          // pixels of a patch's side; automatic: 4; swin only
  int64_t window = 0;         // patches of a window's side; automatic: 7; swin only
  LoraOptions lora;
  MoeOptions moe;
};

}  // namespace trireme
