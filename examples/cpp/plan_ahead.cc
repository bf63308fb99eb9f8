// What a plan does to a model of your own, before anything runs on a cluster: whether it computes what one
// rank computes, what a rank's Program looks like, how long a step takes on a cluster that you do not have,
// and which plan a search finds fastest there.
#include <trireme/trireme.h>

#include <cstdio>

using namespace trireme;

// A plain network on vectors: eight layers of the same width.
ModelRecord network(int64_t width) {
  ModelRecord model{.family = "deep", .inputs = {{"x", DType::f32, {width}}, {"class", DType::i32, {}}}};
  model.logits = [=](Network& net, const ModelOptions&, ValueId x) {
    const auto linear = [&](ValueId input, const std::string& name, int64_t outputs) {
      return net.linear(input, name, outputs, Network::Store::kOutIn, Init::normal(0.02), Bias::kZeros);
    };
    for (int layer = 0; layer < 8; ++layer)
      x = net.op("gelu", {linear(x, "layers." + std::to_string(layer), width)});
    return linear(x, "out", 10);
  };
  return model;
}

// Two steps on random vectors.
parity::Training on_random_vectors(const ModelRecord& model, const TrainOptions& train) {
  parity::Training training{
      .model = model, .train = train, .shape = {.rows = train.batch / train.accumulate}};
  for (uint64_t step = 0; step < 2; ++step) {
    Batch& batch = training.batches.emplace_back();
    batch.rows = train.batch;
    batch.tensors.emplace_back("x", HostTensor()).second.reset(DType::f32, {train.batch, 16});
    batch.tensors.emplace_back("class", HostTensor()).second.reset(DType::i32, {train.batch});
    uint64_t i = 0;
    for (float& x : batch.at("x").values<float>()) x = normal({.seed = 1, .stream = step}, i++);
    for (int32_t& label : batch.at("class").values<int32_t>()) label = static_cast<int32_t>(i++ % 10);
    training.rates.push_back(0.001);
  }
  return training;
}

int main() try {
  const Plan plan = parse_plan(R"({"mesh": "pipe:2 data:2", "preset": "zero1", "schedule": "1f1b"})", "plan");

  // Small, so that this machine computes it: two ranks and one, side by side.
  parity::Reference reference(on_random_vectors(network(16), {.batch = 8, .accumulate = 2}));
  const parity::Result result = parity::verify(reference, plan);
  std::printf("against one rank: %s\n", std::string(name(result.verdict)).c_str());

  // As large as you like: Programs have no weights.
  Config config;
  config.train.batch = 1024;
  config.train.accumulate = 4;
  config.train.precision = "bf16";
  const Model model(network(8192));
  const StepPrograms programs(model, config.train, config.optim, {.rows = 256}, plan);
  const std::string text = print(programs.rank(0, nullptr));
  std::printf("the Program of rank 0 opens with\n%s\n", text.substr(0, text.find("\nstate")).c_str());

  const Cluster cluster = with_devices(read_cluster("a100"), 4);
  const sim::SimReport step =
      sim::simulate(DeviceMap(plan.mesh, cluster), [&](int rank) { return programs.rank(rank, nullptr); });
  std::printf("on %s: %.2f ms a step, %.1f GiB on the fullest device\n", cluster.name.c_str(),
              1e3 * step.step_seconds, static_cast<double>(step.fullest().memory.peak_bytes) / (1 << 30));

  const planner::SearchResult found = planner::search(plan_subject(model, config), cluster);
  std::printf("the fastest of %ld plans takes %.2f ms:\n%s\n", static_cast<long>(found.choices),
              1e3 * found.best().report.step_seconds, to_json(found.best().plan).c_str());
  return result.verdict != parity::Verdict::kBug &&
                 found.best().report.step_seconds <= 1.01 * step.step_seconds
             ? 0
             : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
