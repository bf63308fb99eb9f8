// Tokenizers: known ids, the way back for any bytes, agreement with the textbook merge loop, time.
#include "trireme/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "trireme/base/rng.h"
#include "trireme/data/file.h"
#include "trireme/data/test_files.h"
#include "trireme/data/test_vocabulary.h"
#include "trireme/data/word_splitter.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string random_bytes(uint64_t seed, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>(random_words({seed, 1}, i)[0]);
  return text;
}

std::vector<std::string> words_of(std::string_view text, std::string_view pattern = kGpt2Pattern) {
  const WordPattern compiled(std::string(pattern), "test");
  WordSplitter splitter(compiled, text);
  std::vector<std::string> words;
  for (std::string_view word; splitter.next(word);) words.emplace_back(word);
  return words;
}

TEST(ByteTokenizer, IsTheBytes) {
  const auto tokenizer = byte_tokenizer();
  EXPECT_THAT(tokenizer->encode(std::string("a\0\xff", 3)), ElementsAre(97, 0, 255));
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  const std::string bytes = random_bytes(1, 4096);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(bytes)), bytes);
  const int32_t wrong[] = {65, 256};
  EXPECT_THAT(error_of([&] { tokenizer->decode(wrong); }), HasSubstr("token 256 at position 1"));
}

TEST(WordSplitter, CutsAsGpt2Does) {
  EXPECT_THAT(words_of("I'm here, 42 times!"), ElementsAre("I", "'m", " here", ",", " 42", " times", "!"));
  EXPECT_THAT(words_of("a  b\n\n c "), ElementsAre("a", " ", " b", "\n\n", " c", " "));
  EXPECT_THAT(words_of("caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd"),
              ElementsAre("caf\xc3\xa9", " \xe4\xbd\xa0\xe5\xa5\xbd"));
  EXPECT_THAT(words_of("a\xc2\xa0\x62"), ElementsAre("a", "\xc2\xa0", "b"));  // a no-break space is a space
}

TEST(WordSplitter, InvalidBytesAreWordsOfTheirOwn) {
  EXPECT_THAT(words_of("ab\xff\xfe"
                       "cd"),
              ElementsAre("ab", "\xff\xfe", "cd"));
  EXPECT_THAT(words_of("\xc3"), ElementsAre("\xc3"));
  EXPECT_EQ(valid_utf8_prefix("a\xed\xa0\x80"), 1u);     // a surrogate
  EXPECT_EQ(valid_utf8_prefix("a\xc0\x80"), 1u);         // an overlong zero
  EXPECT_EQ(valid_utf8_prefix("\xf4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(valid_utf8_prefix("\xf4\x8f\xbf\xbf"), 4u);  // U+10FFFF
  EXPECT_EQ(valid_utf8_prefix("\xe0\x9f\xbf"), 0u);      // overlong
}

TEST(WordSplitter, WhatAPatternLeavesOutIsKept) {
  EXPECT_THAT(words_of("ab12cd", "[0-9]+"), ElementsAre("ab", "12", "cd"));
  EXPECT_THAT(words_of("abc", "x*"), ElementsAre("abc"));  // a pattern that matches nothing, everywhere
  EXPECT_THAT(error_of([] { words_of("a", "("); }), HasSubstr("does not compile"));
}

TEST(Bpe, MergesByRankFromTheLeft) {
  const auto tokenizer = make_bpe_tokenizer(vocabulary_of(small_merges()), "small");
  EXPECT_THAT(tokenizer->encode("hello world"), ElementsAre(259, 260, 'o', 'r', 'l', 'd'));
  EXPECT_THAT(tokenizer->encode("aaaaaaa"), ElementsAre(262, 261, 'a'));
  EXPECT_THAT(tokenizer->encode("\xc3\xa9"), ElementsAre(263));
  EXPECT_EQ(tokenizer->end_of_text(), 264);
  EXPECT_EQ(tokenizer->encode("<|endoftext|>").size(), 13u) << "text must not forge a document boundary";
  const int32_t wrong[] = {265};
  EXPECT_THAT(error_of([&] { tokenizer->decode(wrong); }), HasSubstr("outside the vocabulary"));
}

TEST(Bpe, RoundTripsArbitraryBytes) {
  const auto tokenizer = make_bpe_tokenizer(vocabulary_of(small_merges()), "small");
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string bytes = random_bytes(seed, seed);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(bytes)), bytes) << seed;
  }
}

// One word, one run of spaces, of a megabyte each: quadratic work would take minutes.
TEST(Bpe, LongWordsTakeNoLonger) {
  const auto tokenizer = make_bpe_tokenizer(vocabulary_of(small_merges()), "small");
  const std::string word(size_t{1} << 20, 'a'), spaces(size_t{1} << 20, ' ');
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer->encode(word);
  EXPECT_EQ(ids, std::vector<int32_t>(word.size() / 4, 262));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(spaces + "x")), spaces + "x");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(BpeFiles, Gpt2FilesRoundTrip) {
  const BpeVocabulary expected = vocabulary_of(small_merges());
  TempFolder folder;
  folder.write("encoder.json", encoder_json_of(expected));
  folder.write("vocab.bpe", vocab_bpe_of(small_merges()));
  const auto tokenizer = open_tokenizer("gpt2", folder.path());
  EXPECT_EQ(tokenizer->vocab_size(), 265);
  EXPECT_EQ(tokenizer->end_of_text(), 264);
  EXPECT_THAT(tokenizer->encode("hello \xc3\xa9"), ElementsAre(259, ' ', 263));
  EXPECT_EQ(open_tokenizer(folder.path().string())->vocab_size(), 265);
}

std::string tokenizer_json(std::string_view extra_model, std::string_view pre, std::string_view merges) {
  return R"({"added_tokens": [{"id": 264, "content": "<|endoftext|>", "special": true}, {"id": 265, "content": "<| odd |>"}],
    "pre_tokenizer": )" +
         std::string(pre) + R"(, "model": {"type": "BPE", )" + std::string(extra_model) + R"("vocab": )" +
         encoder_json_of(vocabulary_of(small_merges())) + R"(, "merges": )" + std::string(merges) + "}}";
}
constexpr std::string_view kByteLevel = R"({"type": "ByteLevel", "add_prefix_space": false})";

TEST(BpeFiles, TokenizerJson) {
  const auto texts = make_bpe_tokenizer(
      parse_tokenizer_json(tokenizer_json("", kByteLevel, R"(["l l", "h e", "he ll"])"), "t"), "t");
  EXPECT_THAT(texts->encode("hello"), ElementsAre(258, 'o'));
  EXPECT_EQ(texts->vocab_size(), 266);
  const int32_t odd[] = {265};
  EXPECT_EQ(texts->decode(odd), "<| odd |>");
  const auto pairs = make_bpe_tokenizer(
      parse_tokenizer_json(tokenizer_json("", kByteLevel, R"([["l","l"], ["h","e"], ["he","ll"]])"), "t"),
      "t");
  EXPECT_EQ(pairs->encode("hello hello"), texts->encode("hello hello"));
}

TEST(BpeFiles, TokenizerJsonWithAPatternAndWholeWords) {
  const std::string pre =
      R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\p{L}"}, "behavior": "Isolated"},
                              {"type": "ByteLevel", "use_regex": false}]})";
  const auto letters = make_bpe_tokenizer(
      parse_tokenizer_json(tokenizer_json("", pre, R"(["l l", "h e", "he ll"])"), "t"), "t");
  EXPECT_THAT(letters->encode("hell"), ElementsAre('h', 'e', 'l', 'l'));
  const auto whole = make_bpe_tokenizer(
      parse_tokenizer_json(tokenizer_json(R"("ignore_merges": true, )", kByteLevel, "[]"), "t"), "t");
  EXPECT_THAT(whole->encode("hello help"), ElementsAre(259, ' ', 'h', 'e', 'l', 'p'));
}

// A pattern may cut text into words that are spelt like a special token.
TEST(BpeFiles, AWholeWordIsNeverASpecialToken) {
  const std::string pre =
      R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\S+"}, "behavior": "Isolated"},
                              {"type": "ByteLevel", "use_regex": false}]})";
  const auto whole = make_bpe_tokenizer(
      parse_tokenizer_json(tokenizer_json(R"("ignore_merges": true, )", pre, "[]"), "t"), "t");
  EXPECT_THAT(whole->encode("hello"), ElementsAre(259));
  EXPECT_EQ(whole->encode("<|endoftext|>").size(), 13u);
}

// As Hugging Face does: the longest of those that begin first, before words are cut; special ones never.
TEST(BpeFiles, AddedTokensAreFoundInTextUnlessTheyAreSpecial) {
  const std::string json = R"({"added_tokens": [{"id": 264, "content": "<|endoftext|>", "special": true},
      {"id": 265, "content": "<x", "special": false}, {"id": 266, "content": "<xy>", "special": false},
      {"id": 267, "content": "   ", "special": false}],
    "pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": )" +
                           encoder_json_of(vocabulary_of(small_merges())) +
                           R"(, "merges": ["l l", "h e", "he ll"]}})";
  const auto tokenizer = make_bpe_tokenizer(parse_tokenizer_json(json, "t"), "t");
  EXPECT_THAT(tokenizer->encode("hell<xy>hell<xhell"), ElementsAre(258, 266, 258, 265, 258));
  EXPECT_THAT(tokenizer->encode("    a"), ElementsAre(267, ' ', 'a'));
  EXPECT_THAT(tokenizer->encode("<xy><xy>"), ElementsAre(266, 266));
  EXPECT_EQ(tokenizer->encode("<|endoftext|>").size(), 13u);
  const std::string stripping =
      std::string(json).replace(json.find(R"("special": false)"), 16, R"("lstrip": true)");
  EXPECT_THAT(error_of([&] { parse_tokenizer_json(stripping, "t"); }), HasSubstr("'<x' has lstrip set"));
}

// Llama 3's file: a Split by its pattern, then ByteLevel without one; whole words before merges; merges as
// pairs.
TEST(BpeFiles, Llama3CutsWordsByItsPattern) {
  const std::string pre = R"PRE({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
      "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})PRE";
  const BpeVocabulary vocabulary = parse_tokenizer_json(
      tokenizer_json(R"("ignore_merges": true, "dropout": null, "unk_token": null, "fuse_unk": false, )", pre,
                     R"([["l","l"], ["h","e"], ["he","ll"]])"),
      "t");
  EXPECT_THAT(words_of("I'LL pay 12345 dollars!!\n\n  ok", vocabulary.pattern),
              ElementsAre("I", "'LL", " pay", " ", "123", "45", " dollars", "!!\n\n", " ", " ok"));
  EXPECT_EQ(vocabulary.whole_words, BpeVocabulary::WholeWords::lookup);
}

TEST(BpeFiles, RefusesWhatItWouldGetWrong) {
  const auto parse = [](const std::string& json) {
    return error_of([&] { parse_tokenizer_json(json, "t.json"); });
  };
  EXPECT_THAT(parse(tokenizer_json("", R"({"type": "Metaspace"})", "[]")),
              HasSubstr("'Metaspace' is not supported"));
  EXPECT_THAT(parse(tokenizer_json("", "null", "[]")), HasSubstr("'null' is not supported"));
  const std::string plain = tokenizer_json("", kByteLevel, "[]");
  EXPECT_THAT(parse(std::string(plain).replace(plain.find("BPE"), 3, "Unigram")),
              HasSubstr("model type 'Unigram' is not supported"));
  EXPECT_THAT(parse(R"({"normalizer": {"type": "NFC"}, )" + plain.substr(1)),
              HasSubstr("the normalizer NFC is not supported"));
  EXPECT_THAT(parse(tokenizer_json(R"("byte_fallback": true, )", kByteLevel, "[]")),
              HasSubstr("byte_fallback"));
  EXPECT_THAT(parse(tokenizer_json(R"("end_of_word_suffix": "</w>", )", kByteLevel, "[]")),
              HasSubstr("'end_of_word_suffix' is set"));
  const std::string split = R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "%"})";
  const auto with_split = [&](std::string_view behavior) {
    return R"({"type": "Sequence", "pretokenizers": [)" +
           std::string(split).replace(split.find('%'), 1, behavior) + ", " + std::string(kByteLevel) + "]}";
  };
  EXPECT_THAT(parse(tokenizer_json("", with_split("Removed"), "[]")), HasSubstr("'Split' is not supported"));
  EXPECT_THAT(parse(tokenizer_json("", with_split("Isolated"), "[]")), HasSubstr("two word patterns"));
  EXPECT_THAT(parse(tokenizer_json("", kByteLevel, R"(["q z"])")), HasSubstr("merge 1 needs a token"));
  EXPECT_THAT(parse(tokenizer_json("", kByteLevel, R"([3])")), HasSubstr("unexpected structure"));
  EXPECT_THAT(parse("{\"model\": "), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of([] { parse_gpt2_vocabulary("{\"a\": 0}", "", "v"); }),
              HasSubstr("no token for byte 0x00"));
  EXPECT_THAT(error_of([] { parse_gpt2_vocabulary("{\"a\": 1e9}", "", "v"); }), HasSubstr("1000000000"));
  EXPECT_THAT(error_of([] { open_tokenizer("gpt3"); }), HasSubstr("did you mean gpt2?"));
  EXPECT_THAT(error_of([] { open_tokenizer("gpt2"); }), HasSubstr("tokenizer_path"));
}

// The loop as the GPT-2 paper's code has it: merge every occurrence of the best pair, look again.
std::vector<int32_t> textbook_bpe(const BpeVocabulary& vocabulary,
                                  const std::map<std::pair<int32_t, int32_t>, size_t>& ranks,
                                  std::string_view word) {
  std::vector<int32_t> ids;
  for (const char c : word) ids.push_back(vocabulary.byte_ids[static_cast<uint8_t>(c)]);
  for (;;) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      if (const auto it = ranks.find({ids[i], ids[i + 1]}); it != ranks.end())
        best = std::min(best, it->second);
    }
    if (best == SIZE_MAX) return ids;
    const auto [left, right, result] = vocabulary.merges[best];
    std::vector<int32_t> merged;
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool pair = i + 1 < ids.size() && ids[i] == left && ids[i + 1] == right;
      merged.push_back(pair ? result : ids[i]);
      if (pair) ++i;
    }
    ids = std::move(merged);
  }
}

TEST(Gpt2, KnownIds) {
  TRIREME_NEEDS_DATA(folder, "gpt2_bpe/encoder.json");
  const auto tokenizer = open_tokenizer("gpt2", folder.parent_path());
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->end_of_text(), 50256);
  EXPECT_THAT(tokenizer->encode("Hello world"), ElementsAre(15496, 995));
  EXPECT_THAT(tokenizer->encode("Hello, world!"), ElementsAre(15496, 11, 995, 0));
  EXPECT_THAT(tokenizer->encode("Hello, I'm a language model,"),
              ElementsAre(15496, 11, 314, 1101, 257, 3303, 2746, 11));
  EXPECT_THAT(tokenizer->encode("\n\n"), ElementsAre(628));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("na\xc3\xafve \xe2\x82\xac 5\xff")),
            "na\xc3\xafve \xe2\x82\xac 5\xff");
}

// nanoGPT's preparation of this text reports 301,966 and 36,059 tokens for the first 90 % and the rest.
TEST(Gpt2, TinyShakespeareCounts) {
  TRIREME_NEEDS_DATA(folder, "gpt2_bpe/encoder.json");
  TRIREME_NEEDS_DATA(text_path, "tinyshakespeare/input.txt");
  const auto tokenizer = open_tokenizer("gpt2", folder.parent_path());
  const std::string text = read_text_file(text_path);
  const size_t cut = text.size() * 9 / 10;
  const auto start = std::chrono::steady_clock::now();
  const auto train = tokenizer->encode(std::string_view(text).substr(0, cut));
  const auto rest = tokenizer->encode(std::string_view(text).substr(cut));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(train.size(), 301966u);
  EXPECT_EQ(rest.size(), 36059u);
  EXPECT_EQ(tokenizer->decode(train) + tokenizer->decode(rest), text);
  RecordProperty("tokens_per_second",
                 std::to_string(static_cast<double>(train.size() + rest.size()) / seconds));
}

TEST(Gpt2, AgreesWithTheTextbookLoop) {
  TRIREME_NEEDS_DATA(folder, "gpt2_bpe/encoder.json");
  const BpeVocabulary vocabulary = parse_gpt2_vocabulary(
      read_text_file(folder), read_text_file(folder.parent_path() / "vocab.bpe"), "gpt2");
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank)
    ranks[{vocabulary.merges[rank].left, vocabulary.merges[rank].right}] = rank;
  const auto tokenizer = make_bpe_tokenizer(vocabulary, "gpt2");
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::string word;  // letters from the front of the alphabet, so that merges chain and overlap
    for (size_t i = 0; i < 3 + seed % 90; ++i)
      word += static_cast<char>('a' + random_words({seed, 2}, i)[0] % (2 + seed % 24));
    ASSERT_EQ(tokenizer->encode(word), textbook_bpe(vocabulary, ranks, word)) << word;
  }
}

}  // namespace
}  // namespace trireme
