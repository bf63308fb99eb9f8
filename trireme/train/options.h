// The settings of a training run, as plain structs with their defaults. Names, documentation and limits
// of each field stand in config_fields.cc; rules between fields in config_validate.cc.
//
// Where a value is usually known from elsewhere, 0 or "" means automatic, and the comment says from
// where. Choices are strings because the part that owns them (a model, an optimizer) looks itself up by
// that name; config_fields.cc lists the ones that exist, so a misspelling never gets that far.
//
// The defaults are the run of `trireme train` without a config: a small byte-level GPT on the text of
// this repository.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// Low-rank adapters beside the weights of linear layers (models/network.h).
struct LoraOptions {
  int64_t rank = 0;                  // 0: none
  double alpha = 0;                  // automatic: rank; what adapters add is multiplied by alpha / rank
  std::vector<std::string> targets;  // patterns of layers' names; automatic: all linear ones
};

struct ModelOptions {
  std::string family = "gpt";
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 0;  // automatic: as many as heads; llama only
  int64_t hidden = 128;
  int64_t feed_forward = 0;  // automatic: 4 * hidden; llama: 8/3 * hidden, up to a multiple of 32; cnn: 4096
  int64_t vocab = 0;         // automatic: from the tokenizer
  int64_t seq = 128;         // tokens per sequence
  int64_t classes = 0;       // automatic: from the data; image models only
  double dropout = 0.0;
  double rope_base = 10000.0;     // llama only
  double norm_eps = 1e-5;         // added to the variance in norms; gpt, llama, bert, swin
  bool tie_embeddings = false;    // the head is the embedding's table; llama only, gpt always does
  int64_t batch_norm_groups = 1;  // of rows, each normalised with its own statistics; resnets only
  // Image models only.
  int64_t channels = 0;       // filters of the first convolution; automatic: as published
  int64_t width = 0;          // times as many filters inside blocks; automatic: resnet 1, wide_resnet 2
  std::string stem = "auto";  // the first layers of a resnet: by its depth
  int64_t patch = 0;          // pixels of a patch's side; automatic: 4; swin only
  int64_t window = 0;         // patches of a window's side; automatic: 7; swin only
  LoraOptions lora;
};

struct DataSettings {
  std::string kind = "auto";        // by looking at the path
  std::string path;                 // automatic: the text of this repository
  std::string tokenizer = "bytes";  // or gpt2, or a path; see config_fields.cc
  std::string tokenizer_path;       // of the files of gpt2
  double validation_fraction = 0.1;
  double masked_fraction = 0.15;  // of tokens that bert is to find
  std::string partition = "iid";  // which samples ranks have for themselves (data/partition.h)
  // Images only.
  bool augment = false;                       // random crops and flips
  int64_t image_height = 0, image_width = 0;  // automatic: the size that all images have
  std::vector<double> mean, deviation;        // automatic: measured on the training images
};

struct TrainOptions {
  int64_t batch = 16;          // samples in one step of the optimizer, over all microbatches and ranks
  int64_t batch_per_rank = 0;  // above 0: batch is this times the ranks that share it (use_batch_per_rank)
  int64_t accumulate = 1;      // microbatches that one step is split into; the result is the same
  int64_t shards = 0;          // virtual shards of a batch (schedule/shards.cc); a power of two; 0: none
  int64_t steps = 500;
  int64_t seed = 1;
  int64_t threads = 0;                  // automatic: one per core
  std::string init_from;                // weights to start from (weights.h); automatic: random ones
  std::vector<std::string> init_fresh;  // patterns of parameters that are not taken from init_from
  std::vector<std::string> freeze;      // patterns of parameters that are not trained (parameter_patterns.h)
  std::string precision = "f32";
  std::string weight_precision = "f32";    // of weights between steps: f32, or `precision` beside f32 masters
  std::string gradient_precision = "f32";  // of gradients between microbatches: f32, or `weight_precision`
  std::string device = "cpu";
  bool tf32 = false;         // a GPU may round the factors of f32 products to TF32
  double clip_norm = 1.0;    // 0: off
  bool noise_scale = false;  // measure the critical batch (critical_batch.h)
  double ema = 0.0;          // decay of averages of the weights; 0: none are kept
  double label_smoothing = 0.0;
  int64_t max_skipped = 10;     // steps in a row; f16 goes on for as long as its loss scale can be lowered
  int64_t log_every = 1;        // steps
  int64_t eval_every = 250;     // steps; 0: only at the end
  int64_t eval_batches = 10;    // of `batch` held-out samples, at each validation
  int64_t compare_every = 100;  // steps between comparisons of replicas (replica_check.h)
  int64_t patience = 0;         // evaluations without a lower held-out loss, then the run ends; 0: never
  double max_minutes = 0;       // then the run saves and ends; 0: no limit
};

// What holds for the parameters that fit a pattern, instead of what holds for all (optim/groups.h).
struct ParameterGroup {
  std::string match;                   // a pattern of names
  double lr_scale = 1;                 // times the rate of the step
  std::optional<double> weight_decay;  // of all of them, vectors too; none: as without the group
  friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

struct OptimOptions {
  std::string kind = "adamw";
  double lr = 2e-3;
  double weight_decay = 0.1;           // on matrices only
  std::vector<ParameterGroup> groups;  // the first that fits a parameter holds
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  double trust = 0.001;             // the trust coefficient of LARS
  std::string batch_rule = "none";  // how lr grows when the batch does
  int64_t base_batch = 0;           // automatic: train.batch_per_rank; without, train.batch, so nothing grows
};

struct LrScheduleOptions {
  std::string kind = "cosine";
  int64_t warmup_steps = 20;
  int64_t decay_steps = 0;  // automatic: train.steps
  double min_lr = 0.0;
  int64_t drop_every = 1000;  // steps; kind "step"
  double drop_factor = 0.1;   // kind "step"
};

struct RunOptions {
  std::string dir;                 // automatic: a new folder in runs/, named by date and time
  int64_t checkpoint_every = 250;  // steps; 0: only at the end
  int64_t keep = 2;                // checkpoints
  bool keep_best = false;          // also that with the lowest held-out loss (held_out_record.h)
  std::string resume = "auto";
  int64_t sample_tokens = 300;  // generated at the end; language models only; 0: none
};

struct Config {
  ModelOptions model;
  DataSettings data;
  TrainOptions train;
  OptimOptions optim;
  LrScheduleOptions lr_schedule;
  RunOptions run;
};

}  // namespace trireme
