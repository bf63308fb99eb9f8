// Ten steps on a GPU are ten steps on the CPU: in f32 within 1e-4 of the loss and 1e-3 of the largest weight
// of a tensor (of a ResNet each step by itself), in bf16 within its own rounding; the same bits in every run;
// and a checkpoint moves between the two. Ranks that share a GPU do what one rank does there. Skipped without
// a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "golden.h"
#include "tests/support/temp_folder.h"
#include "trireme/comm/context.h"
#include "trireme/exchange/agreement_record.h"
#include "trireme/run/run_setup.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/parity/verify.h"
#include "trireme/train/rank_states.h"
#include "trireme/train/rank_steps.h"

namespace trireme::parity {
namespace {

constexpr double kDeviceLossBound = 1e-4, kDeviceWeightBound = 1e-3, kHalfFactor = 3, kHalfBound = 0.01;
// What a relu at its kink, which opens on one device and not on the other, may do to a step's gradient as a
// whole, and in how many steps of ten it may show: on the CPU moved by 5e-7 it was 0.027, and three.
constexpr double kKinkBound = 0.1;
constexpr int kKinkSteps = 5;

// Models of goldens with experts in the place of feed-forward layers; they have no recorded weights. All but
// mixtral drop choices; gshard draws its second ones, and deepseek_v3 has a bias and groups of experts.
struct ExpertCase {
  const char *name, *golden;
  MoeOptions moe;
};
const ExpertCase kExpertCases[] = {
    {"gpt_gshard", "gpt", {.experts = 4, .gate = "gshard", .capacity = 1, .z_loss = 0.01}},
    {"gpt_switch", "gpt", {.experts = 5, .gate = "switch", .capacity = 1, .groups = 2}},
    {"llama_mixtral", "llama", {.experts = 4, .gate = "mixtral", .shared = 1}},
    {"llama_deepseek_v3",
     "llama",
     {.experts = 8,
      .top_k = 2,
      .gate = "deepseek_v3",
      .capacity = 1.25,
      .expert_groups = 4,
      .top_groups = 2}},
};

std::vector<std::string> case_names() {
  std::vector<std::string> names = golden_names();
  // attention_padded has no CUDA kernel (kNoCudaKernels).
  for (const char* name : {"seq2seq", "lstm_seq2seq"}) std::erase(names, name);
  for (const ExpertCase& one : kExpertCases) names.emplace_back(one.name);
  return names;
}

Golden read_case(const std::string& name) {
  const auto found = std::ranges::find(kExpertCases, name, &ExpertCase::name);
  if (found == std::end(kExpertCases)) return read_golden(name);
  Golden golden = read_golden(found->golden);
  golden.model.moe = found->moe;
  return golden;
}

struct DeviceOutcome {
  std::vector<StepResult> results;
  Evaluation evaluation;
  States states;
};

DeviceOutcome train_on(const Golden& golden, const std::string& device_kind) {
  const std::unique_ptr<Device> device = make_device({.kind = device_kind, .threads = 4});
  Trainer trainer(golden.model, golden.train, golden.optim, golden.shape, *device);
  EXPECT_EQ(trainer.program().peak_bytes(), trainer.executor().allocated_bytes());
  if (golden.model.moe.experts > 0)
    trainer.initialise(golden.seed);
  else
    start(trainer, golden);
  std::vector<StepResult> results = train(trainer, golden, 0, golden.steps());
  Evaluation evaluation;
  Batch batch = make_batch(golden, 0);
  trainer.evaluate(batch, evaluation);
  return {std::move(results), evaluation, read_states(trainer)};
}

double largest_of(const std::vector<float>& values) {
  double largest = 0;
  for (float value : values) largest = std::max<double>(largest, std::abs(value));
  return largest;
}

// A state that is rounding errors alone, as Adam's of a bias of keys, whose gradient is zero, is held to the
// largest of its kind: m, v, or a weight.
double scale_of(const std::string& name, const States& states) {
  const auto kind = [](const std::string& of) {
    return of.starts_with("m.") || of.starts_with("v.") ? of.substr(0, 2) : "";
  };
  double largest = 0;
  for (const auto& [other, values] : states) {
    if (kind(other) == kind(name)) largest = std::max(largest, largest_of(values));
  }
  constexpr double kRounding = 1e-6;
  const double own = largest_of(states.at(name));
  return own > kRounding * largest ? own : largest;
}

class CudaParity : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

void write_states(Trainer& trainer, const States& states) {
  for (const auto& list : {trainer.model_tensors(), trainer.optimizer_tensors()}) {
    for (const NamedTensor& tensor : list) {
      const std::vector<float>& values = states.at(tensor.name);
      tensor.reach.write(0, values.data(), values.size() * sizeof(float));
    }
  }
}

double distance_between(const std::vector<float>& values, const std::vector<float>& from) {
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) squares += std::pow(static_cast<double>(values[i]) - from[i], 2);
  return std::sqrt(squares);
}

// Each step from the CPU's states. A ResNet has some hundred thousand relus, one or another within rounding
// of its kink: in free runs the CPU's own weights, moved by 3e-7 at the start, end up to 0.4 apart after ten
// steps.
void expect_steps_of_the_cpu(const Golden& golden, const std::string& name_of_case) {
  const std::unique_ptr<Device> cpu_device = make_device({.kind = "cpu", .threads = 4}),
                                gpu_device = make_device({.kind = "cuda"});
  Trainer cpu(golden.model, golden.train, golden.optim, golden.shape, *cpu_device),
      gpu(golden.model, golden.train, golden.optim, golden.shape, *gpu_device);
  start(cpu, golden);
  start(gpu, golden);
  double worst_loss = 0;
  std::vector<double> worst;  // of each step, relative to a tensor's norm
  for (int64_t step = 0; step < golden.steps(); ++step) {
    const double expected_loss = train(cpu, golden, step, step + 1)[0].loss,
                 loss = train(gpu, golden, step, step + 1)[0].loss;
    worst_loss = std::max(worst_loss, std::abs(loss / expected_loss - 1));
    const States expected = read_states(cpu), found = read_states(gpu);
    worst.push_back(0);
    for (const auto& [name, values] : expected) {
      const double norm = distance_between(values, std::vector<float>(values.size(), 0.0f));
      if (norm > 0) worst.back() = std::max(worst.back(), distance_between(found.at(name), values) / norm);
    }
    write_states(gpu, expected);
  }
  EXPECT_LE(worst_loss, kDeviceLossBound / 10);  // which has no kinks
  EXPECT_LE(*std::ranges::max_element(worst), kKinkBound);
  EXPECT_LE(std::ranges::count_if(worst, [](double one) { return one > kDeviceLossBound; }), kKinkSteps);
  std::ranges::sort(worst);
  fmt::print("{:<18} f32   each step: loss {:.1e}, states {:.1e}, {:.1e} in the median step\n", name_of_case,
             worst_loss, worst.back(), worst[worst.size() / 2]);
}

TEST_P(CudaParity, TenStepsAreThoseOfTheCpu) {
  Golden golden = read_case(GetParam());
  if (golden.model.family == "resnet") return expect_steps_of_the_cpu(golden, GetParam());
  golden.model.dropout = 0.1;  // where the model has any
  const DeviceOutcome cpu = train_on(golden, "cpu"), gpu = train_on(golden, "cuda"),
                      again = train_on(golden, "cuda");
  double worst_loss = 0, worst_weight = 0;
  for (int64_t step = 0; step < golden.steps(); ++step) {
    EXPECT_NEAR(gpu.results[step].loss, cpu.results[step].loss, kDeviceLossBound * cpu.results[step].loss)
        << "step " << step;
    EXPECT_EQ(again.results[step].loss, gpu.results[step].loss) << "step " << step << ", run again";
    worst_loss = std::max(worst_loss, std::abs(gpu.results[step].loss / cpu.results[step].loss - 1));
  }
  for (const auto& [name, expected] : cpu.states) {
    const std::vector<float>& found = gpu.states.at(name);
    EXPECT_TRUE(again.states.at(name) == found) << name << " has other bits when run again";
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i)
      worst = std::max<double>(worst, std::abs(static_cast<double>(found[i]) - expected[i]));
    const double scale = scale_of(name, cpu.states);
    EXPECT_LE(worst, kDeviceWeightBound * scale) << name;
    if (scale > 0) worst_weight = std::max(worst_weight, worst / scale);
  }
  EXPECT_NEAR(gpu.evaluation.loss, cpu.evaluation.loss, kDeviceLossBound * cpu.evaluation.loss);
  EXPECT_EQ(gpu.evaluation.count, cpu.evaluation.count);
  fmt::print("{:<18} f32   largest difference: loss {:.1e}, weight {:.1e}\n", GetParam(), worst_loss,
             worst_weight);
}

// How far rounding to bf16 moves a run is seen on the CPU, which also runs it in f32; the GPU, which rounds
// in other places, may be a few times as far from there. Gradients in f32 leave its products unrounded, those
// in bf16 do not, so that the two differ by rounding.
TEST_P(CudaParity, TenStepsInBf16FollowTheCpu) {
  Golden golden = read_case(GetParam());
  const DeviceOutcome exact = train_on(golden, "cpu");
  golden.train.precision = "bf16";
  const DeviceOutcome cpu = train_on(golden, "cpu");
  double moved = 0;
  for (int64_t step = 0; step < golden.steps(); ++step)
    moved = std::max(moved, std::abs(cpu.results[step].loss - exact.results[step].loss));
  for (const char* gradients : {"f32", "bf16"}) {
    golden.train.weight_precision = golden.train.gradient_precision = gradients;
    const DeviceOutcome gpu = train_on(golden, "cuda"), again = train_on(golden, "cuda");
    double worst = 0;
    for (int64_t step = 0; step < golden.steps(); ++step) {
      const double loss = exact.results[step].loss;
      EXPECT_NEAR(gpu.results[step].loss, loss, kHalfFactor * moved + kHalfBound * loss)
          << gradients << ", step " << step;
      EXPECT_EQ(again.results[step].loss, gpu.results[step].loss)
          << gradients << ", step " << step << ", run again";
      worst = std::max(worst, std::abs(gpu.results[step].loss - loss));
    }
    fmt::print("{:<18} bf16, gradients in {:<4}  largest distance from f32: GPU {:.1e}, CPU {:.1e}\n",
               GetParam(), gradients, worst, moved);
  }
}

// But for the norm, whose squares are added up in another order.
TEST_P(CudaParity, WeightsIn16BitsChangeNoBits) {
  Golden golden = read_case(GetParam());
  golden.train.precision = "bf16";
  golden.train.clip_norm = 0;
  const DeviceOutcome wide = train_on(golden, "cuda");
  golden.train.weight_precision = "bf16";
  const DeviceOutcome half = train_on(golden, "cuda");
  for (int64_t step = 0; step < golden.steps(); ++step)
    EXPECT_EQ(half.results[step].loss, wide.results[step].loss) << "step " << step;
  for (const auto& [name, expected] : wide.states) EXPECT_TRUE(half.states.at(name) == expected) << name;
  EXPECT_EQ(half.evaluation.loss, wide.evaluation.loss);
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaParity, testing::ValuesIn(case_names()),
                         [](const auto& param) { return param.param; });

// Five steps on one device, a checkpoint, and five on the other.
TEST(CudaCheckpoint, MovesBetweenCpuAndGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const Golden golden = read_golden("gpt");
  const DeviceOutcome cpu = train_on(golden, "cpu");
  const TempFolder scratch;
  const std::string folder = scratch.path();
  for (const auto& [first, second] : {std::pair("cpu", "cuda"), std::pair("cuda", "cpu")}) {
    std::filesystem::remove_all(folder);
    const std::unique_ptr<Device> before_device = make_device({.kind = first}),
                                  after_device = make_device({.kind = second});
    Trainer before(golden.model, golden.train, golden.optim, golden.shape, *before_device),
        after(golden.model, golden.train, golden.optim, golden.shape, *after_device);
    start(before, golden);
    train(before, golden, 0, 5);
    const RankStates share = states_to_write(before, {});
    Checkpoints(folder, 1).save({.step = 5}, share.model, share.optimizer);
    after.initialise(99);
    const LoadedCheckpoint found = *Checkpoints(folder, 1).load_latest();
    const RankStates states = states_of(after);
    found.model.read_all(states.model);
    found.optimizer.read_all(states.optimizer);
    const std::vector<StepResult> results = train(after, golden, 5, 10);
    EXPECT_NEAR(results.back().loss, cpu.results.back().loss, kDeviceLossBound * cpu.results.back().loss)
        << first << " to " << second;
  }
  std::filesystem::remove_all(folder);
}

// Ranks as threads of one process on one GPU.
class CudaPlans : public testing::TestWithParam<std::pair<std::string, std::string>> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
  enum class Kept { kF32, kIn16Bits };
  static void expect_rounding_alone(int64_t microbatches, const std::vector<Plan>& plans,
                                    Kept kept = Kept::kF32, const MoeOptions& moe = {}) {
    Golden golden = read_golden(GetParam().first);
    golden.model.moe = moe;
    golden.train.accumulate = microbatches;
    Training training{golden.model, golden.train, golden.optim, golden.shape, {}, {}};
    training.train.precision = GetParam().second;
    training.train.device = "cuda";
    if (kept == Kept::kIn16Bits)
      training.train.weight_precision = training.train.gradient_precision = GetParam().second;
    for (int64_t step = 0; step < 2; ++step) {
      training.batches.push_back(make_batch(golden, step));
      training.rates.push_back(golden.rates[step]);
    }
    Reference reference(std::move(training));
    for (const Plan& plan : plans) {
      const Result result = verify(reference, plan);
      EXPECT_LE(result.verdict, Verdict::kRounding)
          << plan.preset << " on " << to_string(plan.mesh) << ": " << result.reason;
      fmt::print("{:<6} {:<5} {:<24} {:<24} {}, {:.2f} of what rounding may do\n", GetParam().first,
                 GetParam().second, plan.preset, to_string(plan.mesh), name(result.verdict), result.worst);
    }
  }
  static Plan plan(const std::string& preset, const std::string& mesh) {
    return {.mesh = parse_mesh(mesh), .preset = preset};
  }
};

TEST_P(CudaPlans, DifferFromOneRankByRoundingAlone) {
  expect_rounding_alone(
      1, {plan("data", "data:2"), plan("megatron", "tensor:2"), plan("zero3", "data:2"),
          plan("megatron+zero1", "data:2 tensor:2"), plan("megatron+sequence+zero2", "data:2 tensor:2")});
}

TEST_P(CudaPlans, WithAPipelineToo) {
  std::vector<Plan> plans = {plan("data", "pipe:2"), plan("megatron", "pipe:2 data:2 tensor:2")};
  for (Plan& one : plans) one.schedule = "1f1b";
  expect_rounding_alone(2, plans);
}

TEST_P(CudaPlans, WithStatesIn16BitsToo) {
  if (GetParam().second == "f32") GTEST_SKIP() << "there are none in f32";
  expect_rounding_alone(1, {plan("data", "data:2"), plan("zero1", "data:2"), plan("megatron", "tensor:2")},
                        Kept::kIn16Bits);
}

TEST_P(CudaPlans, WithExpertsToo) {
  if (GetParam().second != "f32") GTEST_SKIP() << "rounding to 16 bits turns choices over";
  expect_rounding_alone(
      1, {plan("data", "data:2"), plan("expert", "expert:2"), plan("expert+megatron", "expert:2 tensor:2")},
      Kept::kF32, {.experts = 4, .gate = "mixtral", .capacity = 1, .z_loss = 0.01});
}

TEST_P(CudaPlans, WithStatesThatRestElsewhereToo) {
  std::vector<Plan> plans(3, plan("data", "data:1"));
  plans[0].offload = Plan::Offload{.folder = testing::TempDir()};
  plans[1].offload = Plan::Offload{.folder = "", .weights = true, .gradients = true};
  plans[2] = plan("zero1", "data:2");
  plans[2].offload = plans[1].offload;
  expect_rounding_alone(2, plans);
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaPlans,
                         testing::Values(std::pair("gpt", "f32"), std::pair("gpt", "bf16"),
                                         std::pair("llama", "f32"), std::pair("llama", "bf16")),
                         [](const auto& param) { return param.param.first + "_" + param.param.second; });

Plan exchange_plan(const std::string& exchange) {
  return parse_plan(fmt::format(R"({{"mesh": "data:2", "exchange": {}}})", exchange), "a plan of the test");
}

// Of each rank, a thread, after six steps.
std::vector<States> states_on(const std::string& device_kind, const Plan& plan,
                              const std::string& optimizer = "adamw") {
  Golden golden = read_golden("gpt");
  golden.optim.kind = optimizer;
  if (optimizer == "sgd") golden.train.clip_norm = 0;  // signum will not have it
  std::vector<States> states(static_cast<size_t>(plan.mesh.ranks()));
  comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device =
        make_device({.kind = device_kind, .links = context.device_links()});
    Trainer trainer(golden.model, golden.train, golden.optim, golden.shape, *device,
                    {plan, context.rank(), &communicator});
    trainer.initialise(3);
    train(trainer, golden, 0, 6);
    states[context.rank()] = read_states(trainer);
  });
  return states;
}

// Launches are noted down with what times them, and must be made once all the same.
TEST(CudaTimer, TellsEveryNodeAndChangesNoBits) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const Golden golden = read_golden("gpt");
  const std::unique_ptr<Device> device = make_device({.kind = "cuda"});
  Trainer plain(golden.model, golden.train, golden.optim, golden.shape, *device),
      timed(golden.model, golden.train, golden.optim, golden.shape, *device);
  start(plain, golden);
  start(timed, golden);
  train(plain, golden, 0, 4);
  train(timed, golden, 0, 1);
  std::map<std::pair<int, int>, int> told;
  double seconds = 0;
  timed.executor().time([&](int segment, int node, double spent) {
    ++told[{segment, node}];
    EXPECT_GT(spent, 0);
    seconds += spent;
  });
  train(timed, golden, 1, 3);
  timed.executor().time(nullptr);
  train(timed, golden, 3, 4);
  EXPECT_TRUE(read_states(timed) == read_states(plain));
  EXPECT_GT(told.size(), 50u);
  for (const auto& [node, times] : told) EXPECT_EQ(times % 2, 0);
  fmt::print("{} nodes take {:.1f} us each\n", told.size(),
             1e6 * seconds / static_cast<double>(2 * told.size()));
}

// Ranks on one GPU that agree by an exchange, against the same ranks on the CPU.
class CudaExchange : public testing::TestWithParam<const char*> {};

TEST_P(CudaExchange, SixStepsAreThoseOfTheCpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const Plan plan = exchange_plan(GetParam());
  const std::vector<States> cpu = states_on("cpu", plan), gpu = states_on("cuda", plan);
  double worst = 0;
  for (size_t rank = 0; rank < cpu.size(); ++rank) {
    for (const auto& [name, expected] : cpu[rank]) {
      const double norm = distance_between(expected, std::vector<float>(expected.size(), 0.0f));
      const double distance = distance_between(gpu[rank].at(name), expected);
      EXPECT_LE(distance, kDeviceWeightBound * norm) << name << " of rank " << rank;
      if (norm > 0) worst = std::max(worst, distance / norm);
    }
  }
  fmt::print("{:<44} largest difference of a state {:.1e}\n", GetParam(), worst);
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaExchange,
                         testing::Values(R"({"method": "all_reduce", "wire": "bf16"})",
                                         R"({"method": "all_reduce", "wire": "f16"})",
                                         R"({"method": "local", "steps": 2})",
                                         R"({"method": "fedavg", "steps": 2})",
                                         R"({"method": "diloco", "steps": 2})",
                                         R"({"method": "delayed", "delay": 2})", R"("d_psgd")", R"("sgp")"));

// Of each rank after six steps, and in which order it took messages: that of `orders`, or, where there is
// none, as they come.
std::vector<States> states_as_messages_come(const std::string& device_kind, const Plan& plan,
                                            std::vector<ArrivalOrder>& orders) {
  constexpr int64_t kSteps = 6;
  const Golden golden = read_golden("gpt");
  std::vector<States> states(static_cast<size_t>(plan.mesh.ranks()));
  const std::vector<ArrivalOrder> replay =
      std::exchange(orders, std::vector<ArrivalOrder>(static_cast<size_t>(plan.mesh.ranks())));
  comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const RankOptions ranks{plan, context.rank(), &communicator};
    const std::unique_ptr<Device> device = make_device({.kind = device_kind});
    Trainer trainer(step_program(golden.model, golden.train, golden.optim, golden.shape, *device, ranks),
                    golden.train, golden.shape, *device, between_steps(ranks));
    trainer.initialise(3);
    context.world().barrier().wait();
    const auto number = static_cast<size_t>(context.rank());
    RankSteps steps(ranks, trainer, 0, kSteps, replay.empty() ? std::nullopt : std::optional(replay[number]));
    const bool works = step_half(plan.agreement, context.rank()) == StepHalf::kGradients;
    StepResult result;
    for (int64_t step = 0; works ? result.over == StepResult::Over::kNo : step < kSteps; ++step) {
      Batch batch = make_batch(golden, step);
      result = steps.step(batch, step, golden.rates[step % golden.steps()]);
    }
    if (!works) steps.arrivals()->finish(ArrivalDriver::Why::kThrough);
    if (!works) orders[number] = steps.arrivals()->take_order();
    if (!works) states[number] = read_states(trainer);
  });
  return states;
}

// Ranks that go by arrivals, on one GPU, in the order that they had on the CPU.
TEST(CudaArrivals, AreThoseOfTheCpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const char* exchange :
       {R"({"method": "d_psgd", "staleness": 2})", R"("ad_psgd")", R"("server")", R"("async_server")"}) {
    const Plan plan =
        parse_plan(fmt::format(R"({{"mesh": "data:4", "exchange": {}}})", exchange), "a plan of the test");
    std::vector<ArrivalOrder> orders;
    const std::vector<States> cpu = states_as_messages_come("cpu", plan, orders),
                              gpu = states_as_messages_come("cuda", plan, orders);
    for (size_t rank = 0; rank < cpu.size(); ++rank) {
      for (const auto& [name, expected] : cpu[rank]) {
        const double norm = distance_between(expected, std::vector<float>(expected.size(), 0.0f));
        EXPECT_LE(distance_between(gpu[rank].at(name), expected), kDeviceWeightBound * norm)
            << exchange << ": " << name << " of rank " << rank;
      }
    }
  }
}

// Where gradients are compressed, rounding may decide which elements are sent or how a sign falls, and the
// two go apart by as much; but ranks stay equal to the last bit.
class CudaCompressed : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(CudaCompressed, RanksStayEqualAndNearTheCpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto& [exchange, optimizer] = GetParam();
  const Plan plan = exchange_plan(exchange);
  const States common = states_on("cpu", {.mesh = plan.mesh}, optimizer)[0];
  const std::vector<States> cpu = states_on("cpu", plan, optimizer), gpu = states_on("cuda", plan, optimizer);
  double worst = 0;
  for (const auto& [name, _] : common) {
    EXPECT_EQ(gpu[0].at(name), gpu[1].at(name)) << name;
    const std::vector<float>& expected = cpu[0].at(name);
    const double norm = distance_between(expected, std::vector<float>(expected.size(), 0.0f));
    const double distance = distance_between(gpu[0].at(name), expected);
    EXPECT_LE(distance, 0.05 * norm) << name;
    if (norm > 0) worst = std::max(worst, distance / norm);
  }
  fmt::print("{:<64} largest difference of a state {:.1e}\n", exchange, worst);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CudaCompressed,
    testing::Values(std::pair(R"({"method": "top_k", "ratio": 0.1})", "adamw"),
                    std::pair(R"({"method": "dgc", "ratio": 0.1, "warmup": 0})", "sgd"),
                    std::pair(R"({"method": "dgc", "ratio": 0.1, "warmup": 0, "sampled": 0.1})", "sgd"),
                    std::pair(R"("threshold")", "adamw"), std::pair(R"("one_bit")", "adamw"),
                    std::pair(R"("signum")", "sgd"), std::pair(R"("terngrad")", "adamw"),
                    std::pair(R"({"method": "qsgd", "bits": 4})", "adamw"),
                    std::pair(R"("power_sgd")", "adamw")));

TEST(CudaExchangeRefusal, NamesTheMethod) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  EXPECT_THAT([] { states_on("cuda", exchange_plan(R"("atomo")")); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("an exchange by atomo")));
}

}  // namespace
}  // namespace trireme::parity
