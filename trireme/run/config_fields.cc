// The list of settings. To add one: a member in options.h, a line here, and the page docs/config.md,
// which the test writes anew when TRIREME_UPDATE_DOCS is set.
#include "trireme/run/config_fields.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "trireme/models/experts.h"
#include "trireme/models/model.h"

namespace trireme {
namespace {

// A step has a list with an entry for each.
constexpr double kMostMicrobatches = 65536;

Limits at_least(double min) {
  return {.min = min, .max = kSanityMax};
}
Limits between(double min, double max) {
  return {.min = min, .max = max};
}
Limits from(double min) {
  return {.min = min};
}
Limits fraction(double min = 0) {
  return {.min = min, .max = 1, .max_is = Limits::Max::excluded};
}

std::vector<Field> model_fields(ModelOptions& c) {
  return {
      Field{"model.family", &c.family, "kind of network"}.one_of(family_names()),
      {"model.path", &c.path, "the ONNX file that the model is (onnx)"},
      {"model.layers", &c.layers,
       "blocks (resnet: 20, 56, 110 for small images, 18, 34, 50, 101 for large; wide_resnet: 16, 28, 40; "
       "50, 101; vgg: 11, 13, 16, 19; swin: 8 or more)",
       between(1, 10000)},
      {"model.heads", &c.heads, "attention heads per block", at_least(1)},
      Field{"model.kv_heads", &c.kv_heads, "key/value heads per block (llama)", at_least(0)}.automatic(
          "model.heads"),
      {"model.hidden", &c.hidden, "features per token, or per hidden layer (mlp, lstm)", at_least(1)},
      Field{"model.feed_forward", &c.feed_forward,
            "features of a block's feed-forward layer, or of the fully connected layers (alexnet, vgg)",
            at_least(0)}
          .automatic(
              "4 * model.hidden (gpt, bert, seq2seq); 8/3 * model.hidden, up to a multiple of 32 (llama); 4096 (alexnet, "
              "vgg)"),
      Field{"model.vocab", &c.vocab, "vocabulary size", at_least(0)}.automatic("from the tokenizer"),
      {"model.seq", &c.seq, "tokens per sequence; of seq2seq per target, with its end", at_least(1)},
      Field{"model.source_seq", &c.source_seq, "tokens per source, with its end (seq2seq)", at_least(0)}
          .automatic("model.seq"),
      Field{"model.classes", &c.classes, "number of classes (image models)", at_least(0)}.automatic(
          "from the data"),
      {"model.dropout", &c.dropout, "fraction of activations that training drops", fraction()},
      {"model.rope_base", &c.rope_base, "base frequency of rotary position embeddings (llama)", at_least(1)},
      {"model.norm_eps", &c.norm_eps,
       "epsilon that layer norms add to the variance (gpt, llama, bert, swin, seq2seq)", from(0)},
      {"model.tie_embeddings", &c.tie_embeddings,
       "the output layer uses the weights of the embedding (llama, lstm; gpt always does)"},
      {"model.batch_norm_groups", &c.batch_norm_groups,
       "splits each microbatch into this many groups; batch norm computes statistics per group (resnet, "
       "wide_resnet)",
       at_least(1)},
      Field{"model.channels", &c.channels,
            "filters of the first convolution; later layers use multiples of it (alexnet, vgg, wide_resnet, "
            "resnet of 18 or more layers for large images)",
            between(0, 1 << 20)}
          .automatic("as published: 64; 16 for a wide_resnet of 6n + 4 layers"),
      Field{"model.width", &c.width,
            "multiplies the filters inside blocks (wide_resnet; resnet of 50 and 101 layers)",
            between(0, 1 << 20)}
          .automatic("2 (wide_resnet), 1 (resnet)"),
      Field{"model.stem", &c.stem,
            "first layers of a resnet of 18, 34, 50 or 101 layers: 7x7 with a pool (auto), or 3x3 for small "
            "images"}
          .one_of({"auto", "7x7", "3x3"}),
      Field{"model.patch", &c.patch, "patch size in pixels (swin; use 2 for 32x32 images)", between(0, 1024)}
          .automatic("4"),
      Field{"model.window", &c.window, "window size in patches (swin; use 4 for 32x32 images)",
            between(0, 1024)}
          .automatic("7"),

      {"model.moe.experts", &c.moe.experts,
       "experts of a layer in the place of its feed-forward layer (gpt, llama); 0: none",
       between(0, 1 << 16)},
      Field{"model.moe.top_k", &c.moe.top_k, "experts that a token goes to", between(0, 1 << 16)}.automatic(
          "by gate: 2 (gshard, mixtral), 1 (switch), 8 (deepseek_v3)"),
      Field{"model.moe.gate", &c.moe.gate, "how tokens choose experts"}.one_of(gate_names()),
      {"model.moe.capacity", &c.moe.capacity,
       "slots of an expert in a routing group, times its even share; choices beyond are dropped; 0: none are; "
       "-1: by gate, 2 (gshard), 1.25 (switch), 0 (mixtral, deepseek_v3)",
       from(-1)},
      {"model.moe.shared", &c.moe.shared, "experts that every token goes to", between(0, 1 << 10)},
      {"model.moe.every", &c.moe.every, "every so many layers, one has experts", between(1, 10000)},
      Field{"model.moe.hidden", &c.moe.hidden, "features inside an expert", at_least(0)}.automatic(
          "model.feed_forward"),
      {"model.moe.groups", &c.moe.groups, "routing groups of a sequence, in which tokens compete for slots",
       between(1, 1 << 20)},
      {"model.moe.expert_groups", &c.moe.expert_groups,
       "equal groups of experts, of which model.moe.top_groups are chosen from (deepseek_v3: 8)",
       between(1, 1 << 16)},
      {"model.moe.top_groups", &c.moe.top_groups,
       "groups of experts that a token chooses from (deepseek_v3: 4)", between(1, 1 << 16)},
      {"model.moe.balance", &c.moe.balance,
       "weight of the loss that keeps experts evenly used; -1: by gate, 0.01 (gshard, switch), 0.02 "
       "(mixtral), 0.0001 (deepseek_v3)",
       from(-1)},
      {"model.moe.z_loss", &c.moe.z_loss, "weight of the squares of the router's log-sum-exp", from(0)},
      Field{"model.moe.scale", &c.moe.scale, "the weights of a token's experts are multiplied by this",
            from(0)}
          .automatic("by gate: 1 (gshard, switch, mixtral), 2.5 (deepseek_v3)"),
      {"model.moe.bias_rate", &c.moe.bias_rate,
       "by how much an expert's bias goes up or down in a step (deepseek_v3)", from(0)},

      {"model.lora.rank", &c.lora.rank,
       "rank of LoRA adapters on linear layers; only the adapters are trained; 0: no adapters",
       between(0, 1 << 16)},
      Field{"model.lora.alpha", &c.lora.alpha,
            "LoRA scale: the output of adapters is multiplied by alpha / rank", from(0)}
          .automatic("model.lora.rank"),
      Field{"model.lora.targets", &c.lora.targets,
            "names of the layers that get adapters, as patterns (`*.c_attn`)"}
          .automatic("all linear layers"),
  };
}

std::vector<Field> data_fields(DataSettings& c) {
  return {
      Field{"data.kind", &c.kind, "format of the data"}.one_of(
          {"auto", "text", "tokens", "pairs", "mnist", "cifar10", "images"}),
      Field{"data.path", &c.path, "file or folder"}.automatic("the text of this repository").read(),
      Field{"data.tokenizer", &c.tokenizer,
            "`bytes`, `gpt2`, or the path of a tokenizer.json or of a folder with encoder.json and vocab.bpe"}
          .read({"bytes", "gpt2"}),
      Field{"data.tokenizer_path", &c.tokenizer_path,
            "folder with encoder.json and vocab.bpe, or a tokenizer.json, for data.tokenizer = gpt2"}
          .read(),
      {"data.validation_fraction", &c.validation_fraction,
       "fraction held out for validation, if the data has no validation part", fraction()},
      {"data.masked_fraction", &c.masked_fraction, "fraction of tokens that are masked and predicted (bert)",
       fraction(1e-6)},
      Field{
          "data.partition", &c.partition,
          "how samples are divided between the ranks along `data`: iid, every rank draws from all; class, by "
          "class; role, by text file; dirichlet, each rank gets a random share of every class"}
          .one_of({"iid", "class", "role", "dirichlet"}),
      {"data.dirichlet_alpha", &c.dirichlet_alpha,
       "evenness of the shares with data.partition = dirichlet: the closer to 0, the more of a class is on "
       "one rank",
       between(0.001, 1e6)},
      {"data.augment", &c.augment, "randomly crop and flip images"},
      Field{"data.image_height", &c.image_height,
            "height in pixels that images from folders are scaled and cropped to", between(0, 16384)}
          .automatic("the height that all images have"),
      Field{"data.image_width", &c.image_width,
            "width in pixels that images from folders are scaled and cropped to", between(0, 16384)}
          .automatic("the width that all images have"),
      Field{"data.mean", &c.mean,
            "subtracted from the pixels, which range from 0 to 1; one number, or one per channel",
            between(0, 1)}
          .automatic("measured on the training images"),
      Field{"data.deviation", &c.deviation,
            "the pixels are divided by this after data.mean is subtracted; one number, or one per channel",
            from(1e-6)}
          .automatic("measured on the training images"),
  };
}

std::vector<Field> train_fields(TrainOptions& c) {
  return {
      {"train.batch", &c.batch, "samples per optimizer step, over all microbatches and ranks", at_least(1)},
      {"train.batch_per_rank", &c.batch_per_rank,
       "samples per step and rank; sets train.batch to this times the number of ranks that share the "
       "batch; 0: use train.batch",
       at_least(0)},
      {"train.accumulate", &c.accumulate,
       "splits a step into this many microbatches to save memory; the result is the same",
       between(1, kMostMicrobatches)},
      {"train.shards", &c.shards,
       "splits a batch into this many virtual shards, a power of two; 1, 2, 4, … ranks then give the same "
       "bits; 0: none",
       between(0, kMostMicrobatches)},
      {"train.steps", &c.steps, "optimizer steps of the whole run", at_least(1)},
      {"train.seed", &c.seed, "seed of all random numbers", from(0)},
      Field{
          "train.init_from", &c.init_from,
          "initial weights: the folder of a run or a checkpoint, or a Hugging Face folder of GPT-2 or Llama"}
          .automatic("random, from train.seed")
          .read(),
      {"train.init_fresh", &c.init_fresh,
       "parameters that are not read from train.init_from but start at random, such as a new output layer: "
       "patterns, as for train.freeze"},
      {"train.freeze", &c.freeze,
       "parameters that are not trained: patterns of names, in which * matches any text (`h.0.*`); they "
       "have no gradient and no optimizer state"},
      Field{"train.threads", &c.threads, "threads per rank", between(0, 4096)}.automatic("one per core"),
      Field{"train.precision", &c.precision,
            "number format of activations; weights are rounded to it when they are used"}
          .one_of({"f32", "bf16", "f16"}),
      Field{
          "train.weight_precision", &c.weight_precision,
          "number format of stored weights: f32, or that of train.precision with f32 master weights for the "
          "optimizer; the result is the same"}
          .one_of({"f32", "bf16", "f16"}),
      Field{"train.gradient_precision", &c.gradient_precision,
            "number format in which gradients are summed over microbatches and ranks: f32, or that of "
            "train.weight_precision"}
          .one_of({"f32", "bf16", "f16"}),
      Field{
          "train.device", &c.device,
          "where ranks compute; cuda_debug waits for each op on the GPU, so that an error names the op that "
          "failed"}
          .one_of({"cpu", "cuda", "cuda_debug"}),
      {"train.tf32", &c.tf32,
       "allow TF32 in f32 matrix products and convolutions on a GPU: faster, less precise"},
      {"train.clip_norm", &c.clip_norm, "clip the norm of the whole gradient to this; 0: no clipping",
       from(0)},
      {"train.noise_scale", &c.noise_scale,
       "measure the gradient noise scale (critical batch) from microbatches and ranks"},
      {"train.ema", &c.ema,
       "decay of a moving average of the weights, which validation then uses; 0: no average", fraction()},
      {"train.label_smoothing", &c.label_smoothing, "fraction of the target that is spread over all classes",
       fraction()},
      {"train.max_skipped", &c.max_skipped,
       "consecutive steps that may be skipped because the gradient is not finite; one more is an error; "
       "f16 ends when its loss scale cannot be lowered further",
       at_least(0)},
      Field{
          "train.on_nan", &c.on_nan,
          "when the loss is not finite, or the gradient was not in more than train.max_skipped consecutive "
          "steps: stop the run; skip the update of a step with such a loss, at most train.max_skipped times "
          "in a row; or rewind to the last scheduled checkpoint and leave out the batches since then"}
          .one_of({"stop", "skip", "rewind"}),
      Field{
          "train.on_spike", &c.on_spike,
          "when the loss is more than train.spike_deviations standard deviations above the mean of the last "
          "train.spike_window good steps: none does nothing, the others are as for train.on_nan"}
          .one_of({"none", "stop", "skip", "rewind"}),
      {"train.spike_deviations", &c.spike_deviations,
       "standard deviations above the mean from which on a loss is a spike", from(0)},
      {"train.spike_window", &c.spike_window,
       "good steps whose losses say what is usual; there is no spike before the window is full",
       between(2, 10000)},
      {"train.max_rewinds", &c.max_rewinds, "rewinds to the same checkpoint; one more is an error",
       at_least(1)},
      {"train.numbers_every", &c.numbers_every,
       "steps between counts of gradients that underflow and of updates that rounding loses; 0: never",
       at_least(0)},
      {"train.log_every", &c.log_every, "steps between progress lines", at_least(1)},
      {"train.eval_every", &c.eval_every, "steps between validations; 0: only at the end", at_least(0)},
      {"train.eval_batches", &c.eval_batches, "batches of train.batch samples per validation", at_least(1)},
      {"train.compare_every", &c.compare_every,
       "steps between checks that replicas still have equal weights; 0: only at the start and before a "
       "checkpoint",
       at_least(0)},
      {"train.recheck_every", &c.recheck_every,
       "steps between steps whose gradients are made twice and must be alike, to find flipped bits; others only "
       "if their norm is suspicious; 0: never",
       at_least(0)},
      {"train.patience", &c.patience,
       "end the run after this many consecutive validations without a lower loss; 0: never", at_least(0)},
      {"train.max_minutes", &c.max_minutes,
       "save and end the run after this many minutes; a resumed run counts from 0; 0: no limit",
       between(0, 1e7)},
  };
}

std::vector<Field> optim_fields(OptimOptions& c) {
  return {
      Field{"optim.kind", &c.kind, "update rule"}.one_of(
          {"adamw", "adam", "sgd", "momentum", "nesterov", "lars", "lamb"}),
      {"optim.lr", &c.lr, "peak learning rate", from(0)},
      {"optim.weight_decay", &c.weight_decay, "weight decay, applied to matrices only", from(0)},
      {"optim.groups", &c.groups,
       "learning rate and weight decay for parameters whose names match a pattern; the first match counts; "
       "lr_scale multiplies the rate, and weight_decay applies to vectors too"},
      {"optim.beta1", &c.beta1, "decay of the first moment (adam, adamw, lamb)", fraction()},
      {"optim.beta2", &c.beta2, "decay of the second moment (adam, adamw, lamb)", fraction()},
      {"optim.eps", &c.eps, "added to the root of the second moment (adam, adamw, lamb)", from(0)},
      {"optim.momentum", &c.momentum, "decay of the velocity (momentum, nesterov, lars)", fraction()},
      {"optim.nesterov", &c.nesterov, "Nesterov's form of momentum (momentum)"},
      {"optim.trust", &c.trust, "trust coefficient (lars)", from(0)},
      Field{"optim.batch_rule", &c.batch_rule,
            "how the learning rate grows with the batch, from optim.base_batch to train.batch"}
          .one_of({"none", "linear", "sqrt"}),
      Field{"optim.decay_rule", &c.decay_rule,
            "how the weight decay grows with the batch, from optim.base_batch to train.batch"}
          .one_of({"none", "linear", "sqrt"}),
      Field{"optim.base_batch", &c.base_batch,
            "batch size for which optim.lr and optim.weight_decay were tuned", at_least(0)}
          .automatic("train.batch_per_rank, or train.batch"),
  };
}

std::vector<Field> lr_schedule_fields(LrScheduleOptions& c) {
  return {
      Field{"lr_schedule.kind", &c.kind, "shape of the learning rate after warm-up"}.one_of(
          {"constant", "cosine", "linear", "step", "inverse_sqrt"}),
      {"lr_schedule.warmup_steps", &c.warmup_steps,
       "steps in which the rate rises linearly to optim.lr, times what optim.batch_rule makes of it",
       at_least(0)},
      Field{"lr_schedule.warmup_from", &c.warmup_from,
            "where warm-up begins: at zero, or at optim.lr before optim.batch_rule (base)"}
          .one_of({"zero", "base"}),
      Field{"lr_schedule.decay_steps", &c.decay_steps,
            "step at which the rate reaches lr_schedule.min_lr (cosine, linear)", at_least(0)}
          .automatic("train.steps"),
      {"lr_schedule.min_lr", &c.min_lr, "lowest learning rate after warm-up", from(0)},
      {"lr_schedule.drop_every", &c.drop_every, "steps between drops (step)", at_least(1)},
      {"lr_schedule.drop_factor", &c.drop_factor, "factor by which each drop multiplies the rate (step)",
       between(0, 1)},
  };
}

std::vector<Field> run_fields(RunOptions& c) {
  return {
      Field{"run.dir", &c.dir, "folder of metrics, config and checkpoints"}.automatic(
          "a new folder in runs/, named by date and time"),
      Field{
          "run.checkpoint_every", &c.checkpoint_every,
          "steps between checkpoints; 0: only at the end; auto: what loses least time, from what a checkpoint "
          "costs and run.hours_between_failures (Young and Daly)",
          at_least(0)}
          .or_word("auto", RunOptions::kAutomaticInterval),
      {"run.hours_between_failures", &c.hours_between_failures,
       "hours between failures of the job, for run.checkpoint_every=auto", between(1e-3, 1e6)},
      {"run.save_in_background", &c.save_in_background,
       "write checkpoints while training continues, from a copy in memory. Without memory for the copy, training waits"},
      Field{
          "run.memory_copy_every", &c.memory_copy_every,
          "steps between copies in memory, from which ranks of -n start again after a loss (--restarts, --elastic)",
          at_least(0)}
          .automatic("none, or with --elastic as many steps as keep the cost below 5 %"),
      {"run.keep", &c.keep, "number of newest checkpoints to keep; two undamaged ones are always kept",
       at_least(1)},
      {"run.keep_best", &c.keep_best,
       "save a checkpoint whenever validation finds the lowest loss so far, and keep the best one in "
       "addition to run.keep others"},
      Field{"run.resume", &c.resume,
            "auto: resume from the newest checkpoint in run.dir if there is one; always: fail without one; "
            "force: resume even if settings changed; never: move what is there aside and start over"}
          .one_of({"auto", "always", "force", "never"}),
      {"run.tensorboard", &c.tensorboard,
       "also write the numbers of the run to a file in run.dir that TensorBoard reads"},
      {"run.sample_tokens", &c.sample_tokens,
       "tokens of sample text to generate at the end (language models); 0: none", at_least(0)},
      {"run.sample_every", &c.sample_every,
       "steps between samples of text while training. They are written by the newest checkpoint, so they come no more "
       "often than checkpoints, and training waits for them. 0: only at the end",
       at_least(0)},
      {"run.timeline_step", &c.timeline_step,
       "step after the start or resumption whose timeline each rank records in run.dir; 0: none",
       at_least(0)},
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
