// The list of settings. To add one: a member in options.h, a line here, and the page docs/config.md,
// which the test writes anew when TRIREME_UPDATE_DOCS is set.
#include "trireme/run/config_fields.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "trireme/models/model.h"

namespace trireme {
namespace {

// A step has a list with an entry for each.
constexpr double kMostMicrobatches = 65536;

Limits at_least(double min) {
  return {.min = min, .max = kSanityMax};
}
Limits fraction() {
  return {.min = 0, .max = 1, .max_is = Limits::Max::excluded};
}
Limits real() {
  return {.min = 0};
}
Limits seeds() {
  return {.min = 0};
}

std::vector<Field> model_fields(ModelOptions& c) {
  return {
      {"model.family", &c.family, "kind of network", {}, model_families()},
      {"model.layers",
       &c.layers,
       "blocks (resnet: 20, 56, 110 for small images, 18, 34, 50, 101 for large; wide_resnet: 16, 28, 40; "
       "50, 101; vgg: 11, 13, 16, 19; swin: 8 or more)",
       {.min = 1, .max = 10000}},
      {"model.heads", &c.heads, "attention heads per block", at_least(1)},
      {"model.kv_heads", &c.kv_heads, "key/value heads per block (llama)", at_least(0), {}, "model.heads"},
      {"model.hidden", &c.hidden, "features per token (or per hidden layer)", at_least(1)},
      {"model.feed_forward",
       &c.feed_forward,
       "features inside a block's feed-forward part, or of fully connected layers (alexnet, vgg)",
       at_least(0),
       {},
       "4 * model.hidden (gpt, bert); 8/3 * model.hidden, up to a multiple of 32 (llama); 4096 (alexnet, "
       "vgg)"},
      {"model.vocab", &c.vocab, "size of the vocabulary", at_least(0), {}, "from the tokenizer"},
      {"model.seq", &c.seq, "tokens per sequence", at_least(1)},
      {"model.classes", &c.classes, "classes of an image model", at_least(0), {}, "from the data"},
      {"model.dropout", &c.dropout, "share of activations dropped in training", fraction()},
      {"model.rope_base", &c.rope_base, "base of the rotary positions' frequencies (llama)", at_least(1)},
      {"model.norm_eps", &c.norm_eps, "added to the variance in layer norms (gpt, llama, bert, swin)",
       real()},
      {"model.tie_embeddings", &c.tie_embeddings,
       "the head shares the table of the embedding (llama; gpt always does)"},
      {"model.batch_norm_groups", &c.batch_norm_groups,
       "groups of a microbatch's rows, each normalised with its own statistics (resnet, wide_resnet)",
       at_least(1)},
      {"model.channels",
       &c.channels,
       "filters of the first convolution, of which others have multiples (alexnet, vgg, wide_resnet, resnet "
       "of 18 or more layers for large images)",
       {.min = 0, .max = 1 << 20},
       {},
       "as published: 64; 16 for a wide_resnet of 6n + 4 layers"},
      {"model.width",
       &c.width,
       "times as many filters inside blocks (wide_resnet; resnet of 50 and 101 layers)",
       {.min = 0, .max = 1 << 20},
       {},
       "2 (wide_resnet), 1 (resnet)"},
      {"model.stem",
       &c.stem,
       "first layers of a resnet of 18, 34, 50 or 101 layers: 7x7 with a pool (auto), or 3x3 for small "
       "images",
       {},
       {"auto", "7x7", "3x3"}},
      {"model.patch",
       &c.patch,
       "pixels of a patch's side (swin; 2 suits images of 32x32)",
       {.min = 0, .max = 1024},
       {},
       "4"},
      {"model.window",
       &c.window,
       "patches of a window's side (swin; 4 suits images of 32x32)",
       {.min = 0, .max = 1024},
       {},
       "7"},

      {"model.lora.rank",
       &c.lora.rank,
       "rank of low-rank adapters beside weights of linear layers, which are trained alone; 0: none",
       {.min = 0, .max = 1 << 16}},
      {"model.lora.alpha",
       &c.lora.alpha,
       "what adapters add is multiplied by this over their rank",
       real(),
       {},
       "model.lora.rank"},
      {"model.lora.targets",
       &c.lora.targets,
       "layers that get adapters: patterns of their names (`*.c_attn`)",
       {},
       {},
       "all linear layers"},
  };
}

std::vector<Field> data_fields(DataSettings& c) {
  return {
      {"data.kind",
       &c.kind,
       "format of the data",
       {},
       {"auto", "text", "tokens", "mnist", "cifar10", "images"}},
      {"data.path", &c.path, "file or folder", {}, {}, "the text of this repository", Field::Path::kRead},
      {"data.tokenizer",
       &c.tokenizer,
       "`bytes`, `gpt2`, or the path of a tokenizer.json or of a folder with encoder.json and vocab.bpe",
       {},
       {},
       {},
       Field::Path::kRead,
       {"bytes", "gpt2"}},
      {"data.tokenizer_path",
       &c.tokenizer_path,
       "folder with encoder.json and vocab.bpe, or a tokenizer.json, for data.tokenizer = gpt2",
       {},
       {},
       {},
       Field::Path::kRead},
      {"data.validation_fraction", &c.validation_fraction,
       "share held back for validation, where the data has no part of its own for it", fraction()},
      {"data.masked_fraction",
       &c.masked_fraction,
       "share of tokens that are hidden and to be found (bert)",
       {.min = 1e-6, .max = 1, .max_is = Limits::Max::excluded}},
      {"data.partition",
       &c.partition,
       "which samples each rank along `data` has for itself: all draw from all, or samples are dealt by "
       "their class, by the text file that they are of, or by shares of each class that are drawn from a "
       "Dirichlet distribution",
       {},
       {"iid", "class", "role", "dirichlet"}},
      {"data.dirichlet_alpha",
       &c.dirichlet_alpha,
       "how even the shares of data.partition = dirichlet are: near 0, one rank has most of a class",
       {.min = 0.001, .max = 1e6}},
      {"data.augment", &c.augment, "random crops and flips of images"},
      {"data.image_height",
       &c.image_height,
       "pixels that images of folders are scaled and cropped to",
       {.min = 0, .max = 16384},
       {},
       "the height that all images have"},
      {"data.image_width",
       &c.image_width,
       "pixels that images of folders are scaled and cropped to",
       {.min = 0, .max = 16384},
       {},
       "the width that all images have"},
      {"data.mean",
       &c.mean,
       "taken off the pixels, which are from 0 to 1; one number, or one per channel",
       {.min = 0, .max = 1},
       {},
       "measured on the training images"},
      {"data.deviation",
       &c.deviation,
       "what the pixels are divided by then; one number, or one per channel",
       {.min = 1e-6},
       {},
       "measured on the training images"},
  };
}

std::vector<Field> train_fields(TrainOptions& c) {
  return {
      {"train.batch", &c.batch, "samples per step of the optimizer, over all microbatches and ranks",
       at_least(1)},
      {"train.batch_per_rank", &c.batch_per_rank,
       "samples per step and rank: train.batch is then this times the ranks that share the batch; 0: "
       "train.batch holds",
       at_least(0)},
      {"train.accumulate",
       &c.accumulate,
       "microbatches that a step is split into to save memory; the result is the same",
       {.min = 1, .max = kMostMicrobatches}},
      {"train.shards",
       &c.shards,
       "virtual shards of a batch, a power of two: 1, 2, 4, … ranks then give the same bits; 0: none",
       {.min = 0, .max = kMostMicrobatches}},
      {"train.steps", &c.steps, "steps of the optimizer in the whole run", at_least(1)},
      {"train.seed", &c.seed, "seed of all random numbers", seeds()},
      {"train.init_from",
       &c.init_from,
       "weights to start from: a run's folder, a checkpoint's folder, or a Hugging Face folder of GPT-2 or "
       "Llama",
       {},
       {},
       "random ones, by train.seed",
       Field::Path::kRead},
      {"train.init_fresh", &c.init_fresh,
       "parameters that start anew though train.init_from has others of their names, a head for other "
       "classes say: patterns, as for train.freeze"},
      {"train.freeze", &c.freeze,
       "parameters that stay as they are: patterns of names, in which * stands for any text (`h.0.*`); they "
       "get no gradient and no optimizer state"},
      {"train.threads", &c.threads, "threads per rank", {.min = 0, .max = 4096}, {}, "one per core"},
      {"train.precision",
       &c.precision,
       "format of activations; weights are rounded to it where they are used",
       {},
       {"f32", "bf16", "f16"}},
      {"train.weight_precision",
       &c.weight_precision,
       "format that weights are kept in: f32, or that of train.precision, with an f32 master of each that "
       "the optimizer works on; the result is the same",
       {},
       {"f32", "bf16", "f16"}},
      {"train.gradient_precision",
       &c.gradient_precision,
       "format that gradients are added up in, over microbatches and ranks: f32, or that of "
       "train.weight_precision",
       {},
       {"f32", "bf16", "f16"}},
      {"train.device",
       &c.device,
       "where ranks compute; cuda_debug: on a GPU, each op waited for, so that a fault is told with its op",
       {},
       {"cpu", "cuda", "cuda_debug"}},
      {"train.tf32", &c.tf32,
       "on a GPU, factors of f32 products and convolutions may be rounded to TF32, which is faster"},
      {"train.clip_norm", &c.clip_norm, "largest norm of the whole gradient; 0: no clipping", real()},
      {"train.noise_scale", &c.noise_scale,
       "measure the gradient noise scale (critical batch) from microbatches and ranks"},
      {"train.ema", &c.ema,
       "decay of a moving average of the weights, which validation then uses; 0: none is kept", fraction()},
      {"train.label_smoothing", &c.label_smoothing, "share of the target spread over all classes",
       fraction()},
      {"train.max_skipped", &c.max_skipped,
       "steps in a row that may be skipped because the gradient is not finite, before the run ends with an "
       "error; f16 ends when its loss scale cannot be lowered any more",
       at_least(0)},
      {"train.log_every", &c.log_every, "steps between progress lines", at_least(1)},
      {"train.eval_every", &c.eval_every, "steps between validations; 0: only at the end", at_least(0)},
      {"train.eval_batches", &c.eval_batches, "batches of train.batch samples per validation", at_least(1)},
      {"train.compare_every", &c.compare_every,
       "steps between comparisons of the weights that several ranks should have alike; 0: only at the start "
       "and when a checkpoint is saved",
       at_least(0)},
      {"train.patience", &c.patience,
       "end the run after so many evaluations in a row without a lower held-out loss; 0: never", at_least(0)},
      {"train.max_minutes",
       &c.max_minutes,
       "save and end after so many minutes, counted anew when the run is resumed; 0: no limit",
       {.min = 0, .max = 1e7}},
  };
}

std::vector<Field> optim_fields(OptimOptions& c) {
  return {
      {"optim.kind",
       &c.kind,
       "update rule",
       {},
       {"adamw", "adam", "sgd", "momentum", "nesterov", "lars", "lamb"}},
      {"optim.lr", &c.lr, "highest learning rate", real()},
      {"optim.weight_decay", &c.weight_decay, "decay of weights, on matrices only", real()},
      {"optim.groups", &c.groups,
       "other rates and decays for the parameters whose names fit a pattern, of which the first that fits "
       "holds: lr_scale times the rate, and weight_decay for all of them, vectors too"},
      {"optim.beta1", &c.beta1, "decay of the first moment (adam, adamw, lamb)", fraction()},
      {"optim.beta2", &c.beta2, "decay of the second moment (adam, adamw, lamb)", fraction()},
      {"optim.eps", &c.eps, "added to the root of the second moment (adam, adamw, lamb)", real()},
      {"optim.momentum", &c.momentum, "decay of the velocity (momentum, nesterov, lars)", fraction()},
      {"optim.nesterov", &c.nesterov, "Nesterov's form of momentum (momentum)"},
      {"optim.trust", &c.trust, "trust coefficient (lars)", real()},
      {"optim.batch_rule",
       &c.batch_rule,
       "how the rate grows from optim.base_batch to train.batch",
       {},
       {"none", "linear", "sqrt"}},
      {"optim.base_batch",
       &c.base_batch,
       "batch at which optim.lr was found",
       at_least(0),
       {},
       "train.batch_per_rank, or train.batch"},
  };
}

std::vector<Field> lr_schedule_fields(LrScheduleOptions& c) {
  return {
      {"lr_schedule.kind",
       &c.kind,
       "course of the learning rate after warm-up",
       {},
       {"constant", "cosine", "linear", "step", "inverse_sqrt"}},
      {"lr_schedule.warmup_steps", &c.warmup_steps, "steps of linear rise from 0 to optim.lr", at_least(0)},
      {"lr_schedule.decay_steps",
       &c.decay_steps,
       "step at which lr_schedule.min_lr is reached (cosine, linear)",
       at_least(0),
       {},
       "train.steps"},
      {"lr_schedule.min_lr", &c.min_lr, "lowest learning rate after warm-up", real()},
      {"lr_schedule.drop_every", &c.drop_every, "steps between drops (step)", at_least(1)},
      {"lr_schedule.drop_factor", &c.drop_factor, "what a drop multiplies by (step)", {.min = 0, .max = 1}},
  };
}

std::vector<Field> run_fields(RunOptions& c) {
  return {
      {"run.dir",
       &c.dir,
       "folder of metrics, config and checkpoints",
       {},
       {},
       "a new folder in runs/, named by date and time"},
      {"run.checkpoint_every", &c.checkpoint_every, "steps between checkpoints; 0: only at the end",
       at_least(0)},
      {"run.keep", &c.keep, "newest checkpoints that are kept; two that are not damaged always are",
       at_least(1)},
      {"run.keep_best", &c.keep_best,
       "save a checkpoint at each evaluation with the lowest held-out loss so far, and keep the last of them "
       "beside run.keep others"},
      {"run.resume",
       &c.resume,
       "continue from the newest checkpoint in run.dir: if there is one (auto), or it is an error (always), "
       "or whatever has changed (force); or set what is there aside and start anew (never)",
       {},
       {"auto", "always", "force", "never"}},
      {"run.sample_tokens", &c.sample_tokens,
       "tokens of text generated at the end (language models); 0: none", at_least(0)},
  };
}

}  // namespace

const std::vector<Section>& config_sections() {
  static const std::vector<Section> sections = {
      {"model", "The network."},
      {"data", "What it learns from."},
      {"train", "The run of steps."},
      {"optim", "The rule that changes the weights."},
      {"lr_schedule", "The learning rate over the steps."},
      {"run", "What is kept on disk."},
  };
  return sections;
}

std::vector<Field> config_fields(Config& c) {
  std::vector<Field> fields;
  for (std::vector<Field>& section :
       std::array{model_fields(c.model), data_fields(c.data), train_fields(c.train), optim_fields(c.optim),
                  lr_schedule_fields(c.lr_schedule), run_fields(c.run)})
    std::ranges::move(section, std::back_inserter(fields));
  return fields;
}

}  // namespace trireme
