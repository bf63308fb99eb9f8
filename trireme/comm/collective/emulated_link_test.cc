#include "trireme/comm/collective/emulated_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;

std::string refusal(const char* text) {
  return error_of([&] { parse_emulated_link(text); });
}

TEST(EmulatedLink, IsReadAndTold) {
  const EmulatedLink link = parse_emulated_link("latency=50ms,bandwidth=100Mbit,jitter=5ms");
  EXPECT_DOUBLE_EQ(link.latency_seconds, 0.05);
  EXPECT_DOUBLE_EQ(link.bytes_per_second, 12.5e6);
  EXPECT_DOUBLE_EQ(link.jitter_seconds, 0.005);
  EXPECT_EQ(to_text(link), "latency 50 ms, jitter 5 ms, 100 Mbit/s");
  EXPECT_DOUBLE_EQ(link.costs().alpha_seconds, 0.0525);
  EXPECT_DOUBLE_EQ(link.costs().beta_seconds_per_byte, 8e-8);
  EXPECT_EQ(to_text(parse_emulated_link("home")), "home: latency 20 ms, 100 Mbit/s");
  EXPECT_EQ(to_text(parse_emulated_link("home,jitter=1500us,bandwidth=2.5Gbit")),
            "home: latency 20 ms, jitter 1.5 ms, 2.5 Gbit/s");
  EXPECT_EQ(to_text(parse_emulated_link("latency=0s")), "latency 0 ns");
}

TEST(EmulatedLink, PresetsAreReadByTheirNames) {
  std::vector<std::string> names;
  for (const EmulatedLink& link : emulated_links()) {
    names.push_back(link.name);
    EXPECT_EQ(parse_emulated_link(link.name), link);
  }
  EXPECT_THAT(names, testing::ElementsAre("cluster", "datacenter", "office", "home", "continents"));
}

TEST(EmulatedLink, RefusesWhatItIsNot) {
  EXPECT_THAT(refusal("hom"), HasSubstr("did you mean 'home'"));
  EXPECT_THAT(refusal("latency=50"), HasSubstr("a number and a unit expected, one of ns, us, ms, s"));
  EXPECT_THAT(refusal("latency=fast"), HasSubstr("latency=fast"));
  EXPECT_THAT(refusal("latency=-1ms"), HasSubstr("latency=-1ms; from 0 to 60s expected"));
  EXPECT_THAT(refusal("latency=61s"), HasSubstr("from 0 to 60s"));
  EXPECT_THAT(refusal("bandwidth=0Mbit"), HasSubstr("from 8Kbit"));
  EXPECT_THAT(refusal("bandwidth=100MB"), HasSubstr("one of Kbit, Mbit, Gbit"));
  EXPECT_THAT(refusal("bandwidth=nanMbit"), HasSubstr("bandwidth=nanMbit"));
  EXPECT_THAT(refusal("jitter"), HasSubstr("jitter"));
  EXPECT_THAT(refusal("latency=1ms,home"), HasSubstr("'home'"));
  EXPECT_THAT(refusal(""), HasSubstr("''"));
}

}  // namespace
}  // namespace trireme::comm
