// The parts of a text make the text that `trireme sample` prints, and none is given too early.
#include "trireme/serve/completion_text.h"

#include <gtest/gtest.h>

#include <random>

#include "trireme/base/text.h"

namespace trireme::serve {
namespace {

std::string all_of_text(const std::string& bytes, std::vector<std::string> stops = {}) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer("bytes", "");
  CompletionText text(*tokenizer, std::move(stops));
  std::string all;
  for (const char byte : bytes) {
    const std::string part = text.add(static_cast<uint8_t>(byte));
    EXPECT_EQ(printable(part), part) << "a part of a character";
    all += part;
  }
  return all + text.finish();
}

TEST(CompletionText, IsWhatSamplePrints) {
  for (const char* bytes : {"plain", "m\xc3\xa4\xc3\x9f", "\xe2\x82\xac\xf0\x9f\x9a\xa2", "\xc3", "a\xe2\x82",
                            "\xc3(\xa9", "\xff\xfe", "\x1b[0m"})
    EXPECT_EQ(all_of_text(bytes), printable(bytes));
  std::mt19937 random(1);
  const std::string_view likely = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\xa2\xff\x80\n";
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes += likely[random() % likely.size()];
    EXPECT_EQ(all_of_text(bytes), printable(bytes));
  }
}

TEST(CompletionText, EndsBeforeTheFirstStop) {
  EXPECT_EQ(all_of_text("one. two. three", {". t"}), "one");
  EXPECT_EQ(all_of_text("aab aac", {"aac", "zz"}), "aab ");
  EXPECT_EQ(all_of_text("a\xe2\x82\xac"
                        "b",
                        {"\xe2\x82\xac"}),
            "a");
  EXPECT_EQ(all_of_text("abc", {"bcd"}), "abc");  // only begun
  EXPECT_EQ(all_of_text("xabcaby", {"abd", "caby"}), "xab");
}

TEST(CompletionText, HoldsBackWhatMayBecomeAStop) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer("bytes", "");
  CompletionText text(*tokenizer, {"END"});
  EXPECT_EQ(text.add('a'), "a");
  EXPECT_EQ(text.add('E'), "");
  EXPECT_EQ(text.add('N'), "");
  EXPECT_EQ(text.add('E'), "EN");
  EXPECT_EQ(text.add('N'), "");
  EXPECT_EQ(text.add('D'), "");
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.add('x'), "");
  EXPECT_EQ(text.finish(), "");
}

TEST(CompletionText, TokensBehindTheVocabularyAreNothing) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer("bytes", "");
  CompletionText text(*tokenizer, {});
  EXPECT_EQ(text.add('a') + text.add(300) + text.add('b'), "ab");
}

}  // namespace
}  // namespace trireme::serve
