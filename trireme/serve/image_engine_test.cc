// Images of many clients: each gets the probabilities that it would get alone.
#include "trireme/serve/image_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/support/error_of.h"
#include "trireme/base/rng.h"
#include "trireme/serve/request_error.h"

namespace trireme::serve {
namespace {

using ::testing::HasSubstr;

const Shape kImage{1, 28, 28};

std::unique_ptr<ImageEngine> started(Device& device, const Limits& limits) {
  ModelOptions options;
  options.family = "lenet";
  options.classes = 5;
  auto engine = std::make_unique<ImageEngine>(Model(options), kImage, device, limits);
  for (const PartView& part : engine->weights()) {
    std::vector<float> values(static_cast<size_t>(part.view.shape.elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.2f * normal({5, stream_id(part.name)}, i);
    part.reach.write(0, values.data(), values.size() * sizeof(float));
  }
  engine->start();
  return engine;
}

std::vector<float> image_of(uint64_t number) {
  std::vector<float> image(static_cast<size_t>(kImage.elements()));
  for (size_t i = 0; i < image.size(); ++i) image[i] = normal({number, 1}, i);
  return image;
}

TEST(ImageEngine, EveryClientGetsItsClasses) {
  constexpr int kClients = 6, kEach = 10;
  const std::unique_ptr<Device> device = make_cpu_device(1), other = make_cpu_device(1);
  const auto together = started(*device, {.batch = 4}), alone = started(*other, {.batch = 1});
  std::vector<std::vector<float>> found(kClients * kEach);
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      for (int i = client * kEach; i < (client + 1) * kEach; ++i)
        found[i] = together->submit({image_of(static_cast<uint64_t>(i))})[0].get();
    });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < kClients * kEach; ++i) {
    const std::vector<float> expected = alone->submit({image_of(static_cast<uint64_t>(i))})[0].get();
    EXPECT_EQ(found[i], expected) << i;
    EXPECT_NEAR(std::accumulate(expected.begin(), expected.end(), 0.0), 1, 1e-6);
  }
  EXPECT_EQ(together->counts().images, kClients * kEach);
  EXPECT_LT(together->counts().batches, kClients * kEach);
}

TEST(ImageEngine, TakesAllOfARequestOrNothing) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const auto engine = started(*device, {.batch = 2, .waiting = 3});
  std::vector<std::vector<float>> images(4, image_of(1));
  EXPECT_THAT(error_of([&] { engine->submit(images); }), HasSubstr("of 3 that may"));
  images.pop_back();
  for (std::future<std::vector<float>>& answer : engine->submit(images)) EXPECT_EQ(answer.get().size(), 5u);
  EXPECT_EQ(engine->drain(10), 0);
  EXPECT_THAT(error_of([&] { engine->submit(images); }), HasSubstr("shutting down"));
}

TEST(FormedImage, IsNormalisedAsTrainingDoes) {
  const Image grey{1, 2, {0, 0, 0, 255, 255, 255}};
  EXPECT_EQ(formed(grey, {.shape = {1, 1, 2}, .mean = {0.5f}, .deviation = {0.25f}}),
            (std::vector<float>{-2, 2}));
  const Image colour{1, 1, {255, 0, 51}};
  const std::vector<float> values =
      formed(colour, {.shape = {3, 1, 1}, .mean = {0, 0.5f, 0.2f}, .deviation = {1, 0.5f, 1}});
  EXPECT_EQ(values, (std::vector<float>{1, -1, 0}));
  EXPECT_EQ(std::ssize(formed(Image{4, 6, std::vector<uint8_t>(72, 9)},
                              {.shape = {3, 2, 2}, .mean = {0}, .deviation = {1}})),
            12);
  EXPECT_THAT(error_of([] {
                check_form({.shape = {2, 8, 8}, .mean = {0}, .deviation = {1}});
              }),
              HasSubstr("[2"));
  EXPECT_THAT(error_of([] {
                check_form({.shape = {3, 8, 8}, .mean = {0, 0}, .deviation = {1}});
              }),
              HasSubstr("2 values"));
}

}  // namespace
}  // namespace trireme::serve
