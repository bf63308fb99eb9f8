#include "trireme/kernels/product_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"
#include "trireme/base/error.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Missing = ProductChoices::Missing;

ProductKey key_of(int64_t m) {
  ProductKey key{};
  key[0] = m;
  key[18] = -1;
  return key;
}

TEST(ProductTable, PrintsAndParses) {
  const ProductTable table{"NVIDIA H200, cuBLASLt 130101",
                           {{key_of(7), {1, 2, 3, 4, 5, 6, 7, ~uint64_t{0}}}, {key_of(9), {}}}};
  const ProductTable found = parse_products(print(table), "file");
  EXPECT_EQ(found.machine, table.machine);
  EXPECT_EQ(found.choices, table.choices);
}

TEST(ProductTable, WhatIsWrongIsToldWithItsLine) {
  const std::string good = print({"a GPU", {{key_of(7), {}}}});
  EXPECT_THAT([] { parse_products("", "f"); }, ThrowsMessage<Error>(HasSubstr("f is empty")));
  EXPECT_THAT([] { parse_products("a=1\n", "f"); }, ThrowsMessage<Error>(HasSubstr("no file of products")));
  EXPECT_THAT([&] { parse_products(good + "1 2 3\n", "f"); }, ThrowsMessage<Error>(HasSubstr("f, line 3")));
  const std::string line = good.substr(good.find('\n') + 1);
  EXPECT_THAT([&] { parse_products(good + line, "f"); }, ThrowsMessage<Error>(HasSubstr("twice")));
  EXPECT_THAT([&] { parse_products(good.substr(0, good.size() - 1) + " 1\n", "f"); },
              ThrowsMessage<Error>(HasSubstr("line 2")));
}

class Choices : public testing::Test {
 protected:
  const TempFolder scratch_;
  const std::string path_ = scratch_.path() / "products.txt";
};

TEST_F(Choices, AreKeptInTheFile) {
  ProductChoices(path_, Missing::kTime, "a GPU").add(key_of(7), {1, 2});
  ProductChoices again(path_, Missing::kFirstProposed, "a GPU");
  ASSERT_NE(again.find(key_of(7)), nullptr);
  EXPECT_EQ(*again.find(key_of(7)), (ProductAlgorithm{1, 2}));
  EXPECT_EQ(again.find(key_of(8)), nullptr);
}

TEST_F(Choices, OfAnotherMachineAreRefusedOrMadeAnew) {
  ProductChoices(path_, Missing::kTime, "a GPU").add(key_of(7), {1});
  EXPECT_THAT([&] { ProductChoices(path_, Missing::kFirstProposed, "another"); },
              ThrowsMessage<Error>(HasSubstr("is for a GPU, but this is another")));
  ProductChoices anew(path_, Missing::kTime, "another");
  EXPECT_EQ(anew.find(key_of(7)), nullptr);
}

TEST_F(Choices, AFileThatIsNotThereIsTold) {
  EXPECT_THAT([&] { ProductChoices(path_, Missing::kFirstProposed, "a GPU"); },
              ThrowsMessage<Error>(HasSubstr("--tune")));
}

}  // namespace
}  // namespace trireme
