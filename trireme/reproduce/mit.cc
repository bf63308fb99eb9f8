// M: MIT EfficientML.ai, lecture 18, "Distributed Training Part II".
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trireme/base/rng.h"
#include "trireme/exchange/sparse.h"
#include "trireme/reproduce/entry.h"
#include "trireme/reproduce/step.h"
#include "trireme/sim/over_link.h"
#include "trireme/train/parity/written_methods.h"
#include "trireme/train/step_programs.h"

namespace trireme::reproduce {
namespace {

constexpr double kMiB = 1 << 20;

Settings image_model(const std::string& family, int layers) {
  return {"model.family=" + family, fmt::format("model.layers={}", layers), "model.classes=1000",
          "train.batch=2"};
}
Settings swin(int layers, int heads, int hidden) {
  Settings settings = image_model("swin", layers);
  settings.push_back(fmt::format("model.heads={}", heads));
  settings.push_back(fmt::format("model.hidden={}", hidden));
  return settings;
}

// 32·n/t, of gradients in f32 that are to be sent once while a step is computed.
std::vector<double> bandwidth() {
  struct Row {
    Settings settings;
    double seconds;
  };
  const Row rows[] = {{image_model("resnet", 18), 0.020},
                      {image_model("resnet", 50), 0.063},
                      {swin(12, 3, 96), 0.119},
                      {swin(24, 4, 128), 0.290},
                      {swin(24, 6, 192), 0.523}};
  std::vector<double> counts, rates;
  for (const Row& row : rows) {
    const double count = parameter_count(read_step(row.settings));
    counts.push_back(count / 1e6);
    rates.push_back(32 * count / row.seconds / 1e9);
  }
  counts.insert(counts.end(), rates.begin(), rates.end());
  return counts;
}

// A method on one rank, by its definition (train/parity/written_methods.h), from step to step.
class OneRank {
 public:
  OneRank(const std::string& exchange, int64_t elements) {
    const Plan plan = parse_plan(R"({"mesh": "data:2", "exchange": )" + exchange + "}", "the deck");
    choice_ = exchange_choices(plan.agreement)[0];
    x_.parameter = "w";
    x_.shape = {1, elements};
    for (const char* name : {"residual", "velocity", "waiting"}) x_.kept[name] = {zeros()};
  }

  // What is sent of this gradient and of what was kept.
  parity::Doubles send(parity::Doubles gradient) {
    ++x_.step;
    x_.gradients = {std::move(gradient)};
    run_written(choice_, x_);
    return x_.sum;
  }
  const parity::Doubles& kept(const std::string& name) { return x_.kept[name][0]; }

 private:
  parity::Doubles zeros() const { return parity::Doubles(static_cast<size_t>(x_.shape.elements())); }

  ExchangeChoice choice_;
  parity::Exchanged x_;
};

// The second element is smaller than the first, and so not sent until step 4.
std::vector<double> momentum_correction() {
  const auto sent_at_four = [](const std::string& exchange) {
    OneRank rank(exchange, 2);
    for (int step = 1; step <= 3; ++step) rank.send({1000, 1});
    return rank.send({0, 1})[1];
  };
  return {sent_at_four(R"({"method": "dgc", "ratio": 0.5, "momentum": 0.9})"),
          sent_at_four(R"({"method": "top_k", "ratio": 0.5})")};
}

double share_of_zeros(const parity::Doubles& values) {
  return 100.0 * static_cast<double>(std::ranges::count(values, 0.0)) / static_cast<double>(values.size());
}

parity::Doubles drawn(int64_t elements, uint64_t stream) {
  parity::Doubles values;
  const RngKey key{.seed = 1, .stream = stream};
  for (int64_t i = 0; i < elements; ++i) values.push_back(uniform(key, static_cast<uint64_t>(i)) + 1e-6);
  return values;
}

std::vector<double> warm_up() {
  OneRank rank(R"({"method": "dgc", "ratio": 0.001, "warmup": 4})", 16384);
  std::vector<double> sparsity;
  for (uint64_t step = 0; step < 5; ++step) sparsity.push_back(share_of_zeros(rank.send(drawn(16384, step))));
  return sparsity;
}

std::vector<double> nothing_is_lost() {
  OneRank rank(R"({"method": "top_k", "ratio": 0.1})", 100);
  double before = 0, after = 0;
  for (uint64_t step = 0; step < 10; ++step) {
    const parity::Doubles gradient = drawn(100, step);
    for (const double value : gradient) before += value;
    for (const double value : rank.send(gradient)) after += value;
  }
  for (const double value : rank.kept("residual")) after += value;
  return {std::abs(before - after) < 1e-9 ? 0 : before - after};
}

// How much of a sum is not zero, of ranks that send 0.1 % of all elements each.
std::vector<double> fills_up() {
  constexpr int64_t kElements = 20000;
  parity::Doubles sum(kElements);
  std::vector<double> result;
  for (uint64_t rank = 0; rank < 256; ++rank) {
    OneRank sender(R"({"method": "top_k", "ratio": 0.001})", kElements);
    const parity::Doubles sent = sender.send(drawn(kElements, rank));
    for (size_t i = 0; i < sent.size(); ++i) sum[i] += sent[i];
    if (rank == 7 || rank == 255) result.push_back(100 - share_of_zeros(sum));
  }
  return result;
}

// Of a rank's own gradient: 0.1 % of each matrix, f32 values and 16-bit gaps between them; vectors as they
// are.
std::vector<double> dgc_sizes() {
  constexpr double kRatio = 0.001, kBytes = 4 + 2;
  std::vector<double> sizes, sent, ratios;
  for (const Settings& settings :
       {Settings{"model.family=alexnet", "model.classes=1000", "train.batch=2"}, image_model("resnet", 50),
        Settings{"model.family=lstm", "model.layers=2", "model.hidden=1500", "model.vocab=10000",
                 "model.tie_embeddings=true", "model.seq=2", "train.batch=1"}}) {
    double dense = 0, sparse = 0;
    for (const Value& parameter : parameters_of(read_step(settings))) {
      const Shape& shape = parameter.type.shape;
      const double bytes = 4.0 * static_cast<double>(shape.elements());
      dense += bytes;
      sparse += shape.rank() < 2 ? bytes : kBytes * static_cast<double>(kept_elements(shape, kRatio));
    }
    sizes.push_back(dense / kMiB);
    sent.push_back(sparse / kMiB);
    ratios.push_back(dense / sparse);
  }
  std::vector<double> result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (const auto& column : {sizes, sent, ratios}) result.push_back(column[i]);
  }
  return result;
}

std::vector<double> epoch_of_cifar() {
  Settings settings = image_model("resnet", 18);
  settings.insert(settings.end(), {"model.stem=3x3", "model.classes=10"});
  const Step step = read_step(settings);
  constexpr double kSteps = 24;
  const auto mebibytes = [&](const std::string& exchange) {
    return kSteps * payload_bytes(step, exchange) / kMiB;
  };
  return {mebibytes(R"("all_reduce")"), mebibytes(R"({"method": "signum", "for": "*"})"),
          mebibytes(R"({"method": "power_sgd", "rank": 2})"),
          15 * mebibytes(R"({"method": "atomo", "rank": 2})")};
}

std::vector<double> epoch_of_text() {
  const Step step = read_step({"model.family=lstm", "model.layers=3", "model.hidden=650", "model.vocab=28869",
                               "model.tie_embeddings=true", "model.seq=2", "train.batch=2"});
  constexpr double kSteps = 70;
  const auto mebibytes = [&](const std::string& exchange) {
    return kSteps * payload_bytes(step, exchange) / kMiB;
  };
  return {mebibytes(R"("all_reduce")"), mebibytes(R"({"method": "signum", "for": "*"})"),
          mebibytes(R"({"method": "power_sgd", "rank": 4})")};
}

// How much faster than FedAvg with K = 5 others are, where a sum takes `sum_over_step` times as long as a
// step.
std::vector<double> speed_ups(double sum_over_step) {
  const comm::EmulatedLink link = comm::parse_emulated_link("home");
  const auto step_seconds = [&](int steps, double computing) {
    const Step step = read_step(
        {"model.family=mlp", "model.layers=2", "model.hidden=512", "model.classes=10", "train.batch=8"},
        fmt::format(
            R"({{"mesh": "data:4", "algorithm": "ring", "exchange": {{"method": "fedavg", "steps": {}}}}})",
            steps));
    const Config& config = step.setup.config;
    const StepPrograms programs(Model(config.model), config.train, config.optim, step.setup.shape, step.plan);
    return sim::step_over(
               link, step.plan, [&](int rank) { return programs.rank(rank, nullptr); }, computing)
        .step_seconds;
  };
  constexpr double kLittle = 1e-6;
  const double computing = step_seconds(1, kLittle) / sum_over_step;
  const double five = step_seconds(5, computing);
  return {five / step_seconds(10, computing), five / step_seconds(20, computing)};
}

std::vector<double> speed_ups_of_averages() {
  std::vector<double> result;
  for (const double sum_over_step : {10.8, 7.75, 15.35}) {
    for (const double factor : speed_ups(sum_over_step)) result.push_back(factor);
  }
  return result;
}

}  // namespace

Deck mit() {
  return {
      'M',
      "MIT EfficientML.ai lecture 18, \"Distributed Training Part II\"",
      {
          {.id = "M1",
           .statement =
               "bandwidth that f32 gradients need, 32·n/t, for measured steps of batch 32 on an A6000",
           .command = "trireme inspect exchange --model.family=resnet --model.layers=18 --model.classes=1000 "
                      "--link home --step-seconds 0.020",
           .figures = {{.name = "ResNet-18, parameters", .deck = 11.69, .unit = "M"},
                       {.name = "ResNet-50", .deck = 25.75, .corrected = 25.557032, .unit = "M"},
                       {.name = "Swin-T", .deck = 28.10, .unit = "M", .bound = 0.01},
                       {.name = "Swin-B", .deck = 88.01, .unit = "M", .bound = 0.01},
                       {.name = "Swin-L", .deck = 196.75, .unit = "M", .bound = 0.01},
                       {.name = "ResNet-18, 20 ms", .deck = 18.7, .unit = "Gbit/s"},
                       {.name = "ResNet-50, 63 ms", .deck = 13.1, .corrected = 12.98, .unit = "Gbit/s"},
                       {.name = "Swin-T, 119 ms", .deck = 7.6, .unit = "Gbit/s", .bound = 0.01},
                       {.name = "Swin-B, 290 ms", .deck = 9.7, .unit = "Gbit/s", .bound = 0.01},
                       {.name = "Swin-L, 523 ms", .deck = 12.0, .unit = "Gbit/s", .bound = 0.01}},
           .ours = bandwidth,
           .note = "ResNet-50 has 25,557,032 parameters."},
          {.id = "M2",
           .priority = 2,
           .kind = Kind::kSimulated,
           .statement =
               "a cluster's link costs nothing; at home steps are slower, over continents far slower",
           .command = "trireme inspect exchange --link continents --step-seconds 0.1"},
          {.id = "M5",
           .priority = 2,
           .statement = "pipelines within replicas: ranks {0, 2} and {1, 3}",
           .command = "trireme inspect plan --plan '{\"mesh\": \"pipe:2 data:2\"}'"},
          {.id = "M6",
           .priority = 2,
           .statement = "the k largest are sent, the rest is kept: nothing is lost",
           .command = "trireme verify -n 2 --plan '{\"mesh\": \"data:2\", \"exchange\": \"top_k\"}'",
           .figures = {{"lost in ten steps", 0}},
           .ours = nothing_is_lost},
          {.id = "M7",
           .kind = Kind::kMeasured,
           .statement = "4 Titan X, dropping 0 / 90 / 99 / 99.9 %: 13,100 / 14,443 / 14,740 / 14,786 words/s",
           .command = "trireme train -n 4 --link office --plan '{\"mesh\": \"data:4\", \"exchange\": "
                      "{\"method\": \"top_k\", \"ratio\": 0.01}}'"},
          {.id = "M9",
           .statement = "momentum 0.9, gradients of 1, sent at step 4: the step, in η",
           .command = "trireme verify -n 2 --plan '{\"mesh\": \"data:2\", \"exchange\": \"dgc\"}' "
                      "--optim.kind=sgd --train.clip_norm=0",
           .figures = {{.name = "with correction", .deck = 9.049, .unit = "η"},
                       {.name = "without", .deck = 4, .unit = "η"}},
           .ours = momentum_correction},
          {.id = "M10",
           .kind = Kind::kMeasured,
           .statement = "DGC at 99.9 %, ResNet-110, 8 GPUs: baseline 92.92, all of DGC 93.28",
           .command = "python3 scripts/exchange_tables --only ablation --data DATA",
           .note = "Small: ResNet-20 at 99 %."},
          {.id = "M12",
           .statement = "DGC: size of a gradient, what is sent of it, ratio",
           .command = "trireme reproduce M12",
           .figures = {{.name = "AlexNet", .deck = 232.56, .unit = "MiB"},
                       {.name = "AlexNet, sent", .deck = 0.39, .unit = "MiB", .bound = 0.013},
                       {"AlexNet, ratio", 597},
                       {.name = "\"VGG\"", .deck = 97.49, .unit = "MiB"},
                       {.name = "\"VGG\", sent", .deck = 0.35, .unit = "MiB", .bound = 0.015},
                       {"\"VGG\", ratio", 277},
                       {.name = "LSTM", .deck = 194.68, .unit = "MiB"},
                       {.name = "LSTM, sent", .deck = 0.42, .unit = "MiB", .bound = 0.013},
                       {"LSTM, ratio", 462}},
           .ours = dgc_sizes,
           .note = "What the deck calls VGG is ResNet-50 (VGG-16 has 527.8 MiB). Its AlexNet has two towers "
                   "and 60,965,224 parameters, ours one and 61,100,840."},
          {.id = "M14",
           .priority = 2,
           .statement = "sparsity in DGC's warm-up",
           .command = "trireme train -n 2 --plan '{\"mesh\": \"data:2\", \"exchange\": {\"method\": \"dgc\", "
                      "\"warmup\": 4}}' --optim.kind=sgd --train.clip_norm=0",
           .figures = {{.name = "1", .deck = 75, .unit = "%"},
                       {.name = "2", .deck = 93.75, .unit = "%"},
                       {.name = "3", .deck = 98.44, .unit = "%"},
                       {.name = "4", .deck = 99.6, .unit = "%"},
                       {.name = "5", .deck = 99.9, .unit = "%"}},
           .ours = warm_up},
          {.id = "M15",
           .priority = 2,
           .statement = "sparse sums fill up: not zero, of ranks that send 0.1 % each, 1 − (1−d)^P",
           .command = "trireme reproduce M15",
           .figures = {{.name = "8 ranks", .deck = 0.8, .unit = "%", .bound = 0.05},
                       {.name = "256 ranks", .deck = 22.6, .unit = "%", .bound = 0.05}},
           .ours = fills_up,
           .note = "Ours is counted in sums of gradients that are drawn at random."},
          {.id = "M16",
           .statement = "ResNet-18 on CIFAR-10, 16 workers: what an epoch of 24 steps sends",
           .command = "trireme reproduce M16",
           .figures = {{.name = "SGD", .deck = 1023, .unit = "MiB"},
                       {.name = "Signum", .deck = 32, .unit = "MiB"},
                       {.name = "PowerSGD, rank 2", .deck = 8, .unit = "MiB", .bound = 0.065},
                       {.name = "ATOMO, rank 2", .deck = 113, .unit = "MiB"}},
           .ours = epoch_of_cifar,
           .note = "Accuracy and times of that table are measured: `python3 scripts/exchange_tables --only "
                   "compressors`. ATOMO's number is what is gathered from 15 workers."},
          {.id = "M17",
           .statement = "LSTM on WikiText-2: what an epoch of 70 steps sends",
           .command = "trireme reproduce M17",
           .figures = {{.name = "SGD", .deck = 7730, .unit = "MiB"},
                       {.name = "Signum", .deck = 242, .unit = "MiB"},
                       {.name = "PowerSGD, rank 4", .deck = 64, .unit = "MiB"}},
           .ours = epoch_of_text,
           .note = "Perplexity and times are measured: `python3 scripts/exchange_tables --only text`."},
          {.id = "M22",
           .kind = Kind::kMeasured,
           .statement = "DGA: with correction 89.2 to 88.7 % for delays of 5 to 20, without 88.7 to 84.2 %",
           .command = "python3 scripts/exchange_tables --only delay --data DATA"},
          {.id = "M23",
           .priority = 2,
           .kind = Kind::kMeasured,
           .statement = "nobody waits as long as a sum takes no more than D steps",
           .command =
               "trireme train -n 4 --link latency=20ms,bandwidth=100Mbit --plan '{\"mesh\": \"data:4\", "
               "\"algorithm\": \"ring\", \"exchange\": {\"method\": \"delayed\", \"delay\": 8}}'"},
          {.id = "M24",
           .kind = Kind::kSimulated,
           .statement = "how much faster than FedAvg with K = 5 are K = 10 and K = 20",
           .command =
               "trireme inspect exchange --link home --step-seconds 0.1 --plan '{\"mesh\": \"data:4\", "
               "\"exchange\": {\"method\": \"fedavg\", \"steps\": 5}}'",
           .figures = {{.name = "CIFAR, K = 10", .deck = 1.51, .bound = 0.03},
                       {.name = "CIFAR, K = 20", .deck = 2.05, .bound = 0.03},
                       {.name = "ImageNet, K = 10", .deck = 1.43, .bound = 0.03},
                       {.name = "ImageNet, K = 20", .deck = 1.81, .bound = 0.03},
                       {.name = "Shakespeare, K = 10", .deck = 1.66, .bound = 0.05},
                       {.name = "Shakespeare, K = 20", .deck = 2.51, .bound = 0.1}},
           .ours = speed_ups_of_averages,
           .note =
               "How many steps a sum takes as long as is not printed. It follows from the speed-up of DGA, "
               "1 + x/5: 10.8, 7.75 and 15.35. DGA itself has several sums under way at a time there; the "
               "simulator has one. Accuracies are measured: `python3 scripts/exchange_tables --only roles`."},
      },
  };
}

}  // namespace trireme::reproduce
