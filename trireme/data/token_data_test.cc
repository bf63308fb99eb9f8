// Token files, text folders, token windows: sizes, order, errors that name what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <set>

#include "trireme/data/test_files.h"
#include "trireme/data/text_source.h"
#include "trireme/data/token_file.h"
#include "trireme/data/token_windows.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string shorts(const std::vector<uint16_t>& ids) {
  return std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * 2);
}

std::string llmc(const std::vector<uint16_t>& ids, int32_t version = 1, int32_t extra = 0) {
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = version;
  header[2] = static_cast<int32_t>(ids.size()) + extra;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) + shorts(ids);
}

constexpr int64_t kAnyId = int64_t{1} << 31;

std::vector<int32_t> all(const TokenArray& tokens) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens.size()));
  tokens.copy(0, kAnyId, ids);
  return ids;
}

std::vector<uint16_t> counting(int count) {
  std::vector<uint16_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back(static_cast<uint16_t>(i));
  return ids;
}

// Llama 3's: 32 bits an id.
std::string llmc32(const std::vector<uint32_t>& ids, int32_t version = 7, int32_t extra = 0) {
  std::vector<int32_t> header(256);
  header[0] = 20240801;
  header[1] = version;
  header[2] = static_cast<int32_t>(ids.size()) + extra;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) +
         std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * 4);
}

TEST(TokenFile, ReadsAllFormats) {
  TempFolder folder;
  EXPECT_THAT(all(open_token_file(folder.write("a.bin", llmc({1, 2, 65535})))), ElementsAre(1, 2, 65535));
  EXPECT_THAT(all(open_token_file(folder.write("b.bin", shorts({7, 8})))), ElementsAre(7, 8));
  EXPECT_THAT(all(open_token_file(folder.write("c.bin", llmc32({1, 128000})))), ElementsAre(1, 128000));
}

TEST(TokenFile, SaysWhatIsWrong) {
  TempFolder folder;
  const auto error = [&](const std::string& bytes) {
    return error_of([&] { open_token_file(folder.write("bad.bin", bytes)); });
  };
  EXPECT_THAT(error(""), HasSubstr("0 bytes found"));
  EXPECT_THAT(error("abc"), HasSubstr("3 bytes found"));
  EXPECT_THAT(error(llmc({1, 2, 3}).substr(0, 500)), HasSubstr("header of 1024 expected"));
  EXPECT_THAT(error(llmc({1, 2, 3}, 2)), HasSubstr("version 2 found, 1 expected"));
  EXPECT_THAT(error(llmc({1, 2, 3}, 1, 1)),
              AllOf(HasSubstr("bad.bin"), HasSubstr("promises 4 tokens"), HasSubstr("1030 bytes")));
  EXPECT_THAT(error(llmc({1, 2, 3}, 1, -1)), HasSubstr("promises 2 tokens"));
  EXPECT_THAT(error(llmc32({1, 2}, 1)), HasSubstr("version 1 found, 7 expected"));
  EXPECT_THAT(error(llmc32({1, 2}, 7, 1)), AllOf(HasSubstr("promises 3 tokens"), HasSubstr("1036 bytes")));
  EXPECT_THAT(error(llmc32({1, 2}, 7, 2)), HasSubstr("promises 4 tokens"));
  EXPECT_THAT(error(llmc({}, 1, -5)), HasSubstr("promises -5 tokens"));
  EXPECT_THAT(error_of([&] { open_token_file(folder.path() / "none.bin"); }), HasSubstr("cannot open"));
}

// As numpy.save writes it: a whole number of 16-bit words, header included.
TEST(TokenFile, NumpyFilesAreNotTakenForIds) {
  TempFolder folder;
  const std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }";
  const std::string bytes = std::string("\x93NUMPY\x01\x00v\x00", 10) + header +
                            std::string(117 - header.size(), ' ') + "\n" + shorts({1, 2, 3, 4});
  for (const char* name : {"train.npy", "train.bin"})
    EXPECT_THAT(error_of([&] { open_token_file(folder.write(name, bytes)); }),
                AllOf(HasSubstr(name), HasSubstr("NumPy"), HasSubstr("tofile")));
}

TEST(TokenFile, WiderIdsAreNotTakenForMore) {
  const TempFolder folder;
  const auto written = [&]<typename Id>(Id largest) {
    std::vector<Id> ids;
    for (int i = 0; i < 300; ++i) ids.push_back(static_cast<Id>(i) * 7919 % largest);
    return folder.write("ids.bin",
                        std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id)));
  };
  const auto refusal = [](const std::filesystem::path& path) {
    return error_of([&] { open_token_file(path); });
  };
  for (const uint32_t vocab : {250u, 50257u, 128256u, 262144u})
    EXPECT_THAT(refusal(written(vocab)), HasSubstr("as in a file of 32-bit or 64-bit ids")) << vocab;
  EXPECT_THAT(refusal(written(uint64_t{50257})), HasSubstr("32-bit or 64-bit"));
  for (const uint16_t vocab : {2, 17, 250, 50257}) EXPECT_EQ(refusal(written(vocab)), "no error") << vocab;
  EXPECT_EQ(refusal(folder.write("zeros.bin", std::string(400, '\0'))), "no error");
}

TEST(TokenFile, APipeIsNotWaitedFor) {
  const TempFolder folder;
  const std::string pipe = folder.path() / "ids.bin";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { open_token_file(pipe); }), HasSubstr("not a regular file"));
}

TEST(TokenArray, JoinsAndSlicesPieces) {
  TokenArray tokens = TokenArray::of(std::vector<uint16_t>{0, 1, 2}, "a");
  tokens.append(TokenArray::of(std::vector<uint32_t>{3, 100000, 5}, "b"));
  tokens.append(tokens);
  EXPECT_THAT(all(tokens), ElementsAre(0, 1, 2, 3, 100000, 5, 0, 1, 2, 3, 100000, 5));
  EXPECT_THAT(all(tokens.slice(2, 8)), ElementsAre(2, 3, 100000, 5, 0, 1));
  EXPECT_THAT(all(tokens.slice(2, 8).slice(1, 3)), ElementsAre(3, 100000));
  for (int64_t first = 0; first < 12; ++first) {
    for (int64_t last = first; last <= 12; ++last) {
      std::vector<int32_t> part(static_cast<size_t>(last - first));
      tokens.copy(first, kAnyId, part);
      EXPECT_EQ(part, all(tokens.slice(first, last)));
    }
  }
}

TEST(TokenArray, NamesTheTokenOutsideTheVocabulary) {
  TokenArray tokens = TokenArray::of(std::vector<uint16_t>{1, 2}, "first.bin");
  tokens.append(TokenArray::of(std::vector<uint16_t>{3, 9, 4, 12}, "second.bin"));
  tokens.check(13, 12);
  EXPECT_THAT(error_of([&] { tokens.check(9, 12); }),
              AllOf(HasSubstr("second.bin"), HasSubstr("token 9 at position 1"), HasSubstr("vocabulary of 9"),
                    HasSubstr("at least 13")));
  EXPECT_THAT(error_of([&] { tokens.slice(4, 6).check(12, 12); }), HasSubstr("token 12 at position 3"));
}

// What is hashed are the ids, not how they lie in files.
TEST(TokenArray, OneScanFindsTheLargestAndTellsContentsApart) {
  TempFolder folder;
  std::vector<uint16_t> ids = counting(10000);
  const TokenArray memory = TokenArray::of(ids, "a");
  const TokenArray::Scan scan = memory.scan();
  EXPECT_EQ(scan.largest, 9999);
  EXPECT_EQ(memory.slice(5, 5).scan().largest, -1);
  EXPECT_EQ(open_token_file(folder.write("a.bin", llmc(ids))).scan().xxh64, scan.xxh64);
  TokenArray two = memory.slice(0, 4097);
  two.append(TokenArray::of(std::vector<uint32_t>(ids.begin() + 4097, ids.end()), "b"));
  EXPECT_EQ(two.scan().xxh64, scan.xxh64);
  EXPECT_NE(memory.slice(0, 9999).scan().xxh64, scan.xxh64);
  std::swap(ids[7000], ids[7001]);
  EXPECT_NE(TokenArray::of(ids, "a").scan().xxh64, scan.xxh64);
}

// Reading goes on while somebody else writes to the file: an error with the place, never a signal.
TEST(TokenArray, AFileThatChangesWhileItIsReadIsAnError) {
  TempFolder folder;
  const std::filesystem::path file = folder.write("a.bin", llmc(counting(20000)));
  const TokenArray tokens = open_token_file(file);
  std::vector<int32_t> ids(100);
  tokens.copy(15000, 20000, ids);
  EXPECT_EQ(ids[99], 15099);
  EXPECT_THAT(error_of([&] { tokens.copy(14950, 15010, ids); }),
              AllOf(HasSubstr("a.bin: token 15010 at position 15010 is outside the vocabulary of 15010"),
                    HasSubstr("written to since")));
  std::filesystem::resize_file(file, 1024 + 2 * 15050);
  tokens.copy(14950, 20000, ids);
  EXPECT_THAT(
      error_of([&] { tokens.copy(15000, 20000, ids); }),
      HasSubstr("a.bin: has 31124 bytes, but had 41024 when it was opened, and byte 31124 is needed"));
  EXPECT_THAT(
      error_of([&] { tokens.copy(19000, 20000, ids); }),
      HasSubstr("a.bin: has 31124 bytes, but had 41024 when it was opened, and byte 39024 is needed"));
  EXPECT_THAT(error_of([&] { tokens.scan(); }), HasSubstr("a.bin: has 31124 bytes"));
}

TEST(TextSource, FoldersInOrderWithoutBinaries) {
  TempFolder folder;
  folder.write("b.txt", "2");
  folder.write("a/z.txt", "1");
  folder.write("c.bin", std::string("x\0y", 3));
  folder.write(".git/config", "no");
  folder.write("build/out.txt", "no");
  folder.write("d.md", "3");
  folder.write("my-run/config.toml", "no");  // what a run left
  folder.write("my-run/metrics.jsonl", "no");
  folder.write("my-run/earlier-1/notes.txt", "no");
  std::filesystem::create_directory_symlink(folder.path(), folder.path() / "loop");
  const auto tokens = tokenize_text(folder.path(), *byte_tokenizer(), {});
  EXPECT_THAT(all(tokens), ElementsAre('1', '2', '3'));
  EXPECT_THAT(all(tokenize_text(folder.path(), *byte_tokenizer(), {.extensions = {"md"}})), ElementsAre('3'));
  EXPECT_THAT(all(tokenize_text(folder.path(), *byte_tokenizer(), {.extensions = {".md"}})),
              ElementsAre('3'));
  EXPECT_THAT(error_of([&] { tokenize_text(folder.path(), *byte_tokenizer(), {.extensions = {"rs"}}); }),
              HasSubstr("no text file found"));
  EXPECT_THAT(error_of([&] { tokenize_text(folder.path(), *byte_tokenizer(), {.limit_bytes = 2}); }),
              HasSubstr("more than 2 B of text"));
  EXPECT_THAT(error_of([&] { tokenize_text(folder.write("e.txt", ""), *byte_tokenizer(), {}); }),
              HasSubstr("empty"));
}

struct Row {
  std::vector<int32_t> ids, targets;
};
Row row_of(const TokenWindows& windows, int64_t seq, int64_t epoch, int64_t index) {
  Batch batch;
  for (const SampleTensor& tensor : windows.tensors()) {
    batch.tensors.emplace_back(tensor.name, HostTensor{});
    batch.tensors.back().second.reset(tensor.dtype, Shape{1, seq});
  }
  windows.write(epoch, index, 0, batch);
  const auto ids = batch.at("ids").row<int32_t>(0), targets = batch.at("targets").row<int32_t>(0);
  return {{ids.begin(), ids.end()}, {targets.begin(), targets.end()}};
}

// Whatever the number of tokens: windows stay inside, follow one another, and targets are one ahead.
TEST(TokenWindows, MoveWithTheEpoch) {
  for (int count = 5; count < 40; ++count) {
    const TokenWindows windows(TokenArray::of(counting(count), "t"), count, 4, WindowStart::per_epoch, 3);
    std::set<int64_t> offsets;
    for (int64_t epoch = 0; epoch < 50; ++epoch) {
      offsets.insert(windows.offset(epoch));
      for (int64_t i = 0; i < windows.size(); ++i) {
        const Row row = row_of(windows, 4, epoch, i);
        const int32_t first = static_cast<int32_t>(windows.offset(epoch) + 4 * i);
        ASSERT_THAT(row.ids, ElementsAre(first, first + 1, first + 2, first + 3));
        ASSERT_THAT(row.targets, ElementsAre(first + 1, first + 2, first + 3, first + 4));
      }
    }
    EXPECT_EQ(offsets.size(), count >= 8 ? 4u : static_cast<size_t>(count - 4)) << count;
    EXPECT_GE(windows.size() * 4 + 8, count) << "hardly a token is left out";
  }
}

TEST(TokenWindows, FixedWindowsCountEachTargetOnce) {
  for (int count = 2; count < 20; ++count) {
    const TokenWindows windows(TokenArray::of(counting(count), "t"), count, 4, WindowStart::fixed, 0);
    std::vector<int32_t> targets;
    for (int64_t i = 0; i < windows.size(); ++i) {
      const Row row = row_of(windows, 4, 7, i);
      for (size_t t = 0; t < 4; ++t) {
        if (row.targets[t] == kIgnoreTarget) continue;
        EXPECT_EQ(row.ids[t] + 1, row.targets[t]);
        targets.push_back(row.targets[t]);
      }
    }
    ASSERT_EQ(static_cast<int>(targets.size()), count - 1);
    for (int i = 1; i < count; ++i) EXPECT_EQ(targets[i - 1], i);
  }
}

TEST(TokenWindows, TooFewTokens) {
  EXPECT_THAT(
      error_of([] { TokenWindows(TokenArray::of(counting(4), "t"), 4, 4, WindowStart::per_epoch, 0); }),
      HasSubstr("4 tokens found, at least 5 expected"));
}

}  // namespace
}  // namespace trireme
