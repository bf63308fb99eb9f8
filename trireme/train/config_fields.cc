// The list of settings. To add one: a member in options.h, a line here, and the page docs/config.md,
// which the test writes anew when TRIREME_UPDATE_DOCS is set.
#include "trireme/train/config_fields.h"

namespace trireme {
namespace {

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

}  // namespace

const std::vector<Section>& config_sections() {
  static const std::vector<Section> sections = {
      {"model", "The network."},
      {"data", "What it learns from."},
      {"train", "The run of steps."},
      {"optim", "The rule that changes the weights."},
      {"schedule", "The learning rate over the steps."},
      {"run", "What is kept on disk."},
  };
  return sections;
}

std::vector<Field> config_fields(Config& c) {
  return {
      {"model.family",
       &c.model.family,
       "kind of network",
       {},
       {"gpt", "llama", "lstm", "mlp", "lenet", "resnet"}},
      {"model.layers", &c.model.layers, "blocks (resnet: 20, 56, 110 for small images, 18, 50 for large)",
       at_least(1)},
      {"model.heads", &c.model.heads, "attention heads per block", at_least(1)},
      {"model.kv_heads",
       &c.model.kv_heads,
       "key/value heads per block (llama)",
       at_least(0),
       {},
       "model.heads"},
      {"model.hidden", &c.model.hidden, "features per token (or per hidden layer)", at_least(1)},
      {"model.feed_forward",
       &c.model.feed_forward,
       "features inside a block's feed-forward part",
       at_least(0),
       {},
       "4 * model.hidden"},
      {"model.vocab", &c.model.vocab, "size of the vocabulary", at_least(0), {}, "from the tokenizer"},
      {"model.seq", &c.model.seq, "tokens per sequence", at_least(1)},
      {"model.classes", &c.model.classes, "classes of an image model", at_least(0), {}, "from the data"},
      {"model.dropout", &c.model.dropout, "share of activations dropped in training", fraction()},
      {"model.rope_base", &c.model.rope_base, "base of the rotary positions' frequencies (llama)",
       at_least(1)},
      {"model.batch_norm_groups", &c.model.batch_norm_groups,
       "groups of a microbatch's rows, each normalised with its own statistics (resnet)", at_least(1)},

      {"data.kind",
       &c.data.kind,
       "format of the data",
       {},
       {"auto", "text", "tokens", "mnist", "cifar10", "images"}},
      {"data.path", &c.data.path, "file or folder", {}, {}, "the text of this repository"},
      {"data.tokenizer", &c.data.tokenizer,
       "`bytes`, `gpt2`, or the path of a tokenizer.json or of a folder with encoder.json and vocab.bpe"},
      {"data.tokenizer_path", &c.data.tokenizer_path,
       "folder with encoder.json and vocab.bpe, or a tokenizer.json, for data.tokenizer = gpt2"},
      {"data.validation_fraction", &c.data.validation_fraction,
       "share held back for validation, where the data has no part of its own for it", fraction()},
      {"data.augment", &c.data.augment, "random crops and flips of images"},
      {"data.image_height",
       &c.data.image_height,
       "pixels that images of folders are scaled and cropped to",
       {.min = 0, .max = 16384},
       {},
       "the height that all images have"},
      {"data.image_width",
       &c.data.image_width,
       "pixels that images of folders are scaled and cropped to",
       {.min = 0, .max = 16384},
       {},
       "the width that all images have"},
      {"data.mean",
       &c.data.mean,
       "taken off the pixels, which are from 0 to 1; one number, or one per channel",
       {.min = 0, .max = 1},
       {},
       "measured on the training images"},
      {"data.deviation",
       &c.data.deviation,
       "what the pixels are divided by then; one number, or one per channel",
       {.min = 1e-6},
       {},
       "measured on the training images"},

      {"train.batch", &c.train.batch, "samples per step of the optimizer, over all microbatches and ranks",
       at_least(1)},
      {"train.batch_per_rank", &c.train.batch_per_rank,
       "samples per step and rank: train.batch is then this times the ranks that share the batch; 0: train.batch "
       "holds",
       at_least(0)},
      {"train.accumulate", &c.train.accumulate,
       "microbatches that a step is split into to save memory; the result is the same", at_least(1)},
      {"train.shards", &c.train.shards,
       "virtual shards of a batch, a power of two: 1, 2, 4, … ranks then give the same bits; 0: none",
       at_least(0)},
      {"train.steps", &c.train.steps, "steps of the optimizer in the whole run", at_least(1)},
      {"train.seed", &c.train.seed, "seed of all random numbers", seeds()},
      {"train.threads", &c.train.threads, "threads per rank", {.min = 0, .max = 4096}, {}, "one per core"},
      {"train.precision",
       &c.train.precision,
       "format of activations; weights are kept in f32",
       {},
       {"f32", "bf16", "f16"}},
      {"train.device", &c.train.device, "where ranks compute", {}, {"cpu"}},
      {"train.clip_norm", &c.train.clip_norm, "largest norm of the whole gradient; 0: no clipping", real()},
      {"train.noise_scale", &c.train.noise_scale,
       "measure the gradient noise scale (critical batch) from microbatches and ranks"},
      {"train.label_smoothing", &c.train.label_smoothing, "share of the target spread over all classes",
       fraction()},
      {"train.max_skipped", &c.train.max_skipped,
       "steps in a row that may be skipped because the gradient is not finite, before the run ends with an "
       "error; f16 ends when its loss scale cannot be lowered any more",
       at_least(0)},
      {"train.log_every", &c.train.log_every, "steps between progress lines", at_least(1)},
      {"train.eval_every", &c.train.eval_every, "steps between validations; 0: only at the end", at_least(0)},
      {"train.eval_batches", &c.train.eval_batches, "batches per validation", at_least(1)},
      {"train.compare_every", &c.train.compare_every,
       "steps between comparisons of the weights that several ranks should have alike; 0: only at the start "
       "and when a checkpoint is saved",
       at_least(0)},

      {"optim.kind",
       &c.optim.kind,
       "update rule",
       {},
       {"adamw", "adam", "sgd", "momentum", "nesterov", "lars", "lamb"}},
      {"optim.lr", &c.optim.lr, "highest learning rate", real()},
      {"optim.weight_decay", &c.optim.weight_decay, "decay of weights, on matrices only", real()},
      {"optim.beta1", &c.optim.beta1, "decay of the first moment (adam, adamw, lamb)", fraction()},
      {"optim.beta2", &c.optim.beta2, "decay of the second moment (adam, adamw, lamb)", fraction()},
      {"optim.eps", &c.optim.eps, "added to the root of the second moment (adam, adamw, lamb)", real()},
      {"optim.momentum", &c.optim.momentum, "decay of the velocity (momentum, nesterov, lars)", fraction()},
      {"optim.nesterov", &c.optim.nesterov, "Nesterov's form of momentum (momentum)"},
      {"optim.trust", &c.optim.trust, "trust coefficient (lars)", real()},
      {"optim.batch_rule",
       &c.optim.batch_rule,
       "how the rate grows from optim.base_batch to train.batch",
       {},
       {"none", "linear", "sqrt"}},
      {"optim.base_batch",
       &c.optim.base_batch,
       "batch at which optim.lr was found",
       at_least(0),
       {},
       "train.batch_per_rank, or train.batch"},

      {"schedule.kind",
       &c.schedule.kind,
       "course of the learning rate after warm-up",
       {},
       {"constant", "cosine", "linear", "step", "inverse_sqrt"}},
      {"schedule.warmup_steps", &c.schedule.warmup_steps, "steps of linear rise from 0 to optim.lr",
       at_least(0)},
      {"schedule.decay_steps",
       &c.schedule.decay_steps,
       "step at which schedule.min_lr is reached (cosine, linear)",
       at_least(0),
       {},
       "train.steps"},
      {"schedule.min_lr", &c.schedule.min_lr, "lowest learning rate after warm-up", real()},
      {"schedule.drop_every", &c.schedule.drop_every, "steps between drops (step)", at_least(1)},
      {"schedule.drop_factor",
       &c.schedule.drop_factor,
       "what a drop multiplies by (step)",
       {.min = 0, .max = 1}},

      {"run.dir",
       &c.run.dir,
       "folder of metrics, config and checkpoints",
       {},
       {},
       "a new folder in runs/, named by date and time"},
      {"run.checkpoint_every", &c.run.checkpoint_every, "steps between checkpoints; 0: only at the end",
       at_least(0)},
      {"run.keep", &c.run.keep, "newest checkpoints that are kept; two that are not damaged always are",
       at_least(1)},
      {"run.resume",
       &c.run.resume,
       "continue from the newest checkpoint in run.dir: if there is one (auto), or it is an error (always), "
       "or whatever has changed (force); or set what is there aside and start anew (never)",
       {},
       {"auto", "always", "force", "never"}},
      {"run.sample_tokens", &c.run.sample_tokens,
       "tokens of text generated at the end (language models); 0: none", at_least(0)},
  };
}

}  // namespace trireme
