// The safetensors format: what is written reads back, and nothing but the format is read.
#include "trireme/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/tensor_files.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  void write_bytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string read_bytes() const {
    std::ostringstream bytes;
    bytes << std::ifstream(path_, std::ios::binary).rdbuf();
    return bytes.str();
  }

  const TempFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path();
  std::string path_ = folder_ / "a.safetensors";
};

std::string file_of(const std::string& json, const std::string& data) {
  const uint64_t length = json.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + json + data;
}

TEST_F(Safetensors, EveryFormatRoundTrips) {
  const DType dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8};
  std::vector<std::vector<uint8_t>> storage;
  std::vector<NamedTensor> tensors;
  for (DType dtype : dtypes) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0, 5}, Shape{1, 2, 1, 3, 1, 1, 2, 1}}) {
      const size_t bytes = TensorView{nullptr, dtype, shape}.bytes();
      auto& data = storage.emplace_back(bytes);
      std::iota(data.begin(), data.end(), static_cast<uint8_t>(storage.size() * 7));
      tensors.push_back({fmt::format("é {} {}", name(dtype), to_string(shape)), {data.data(), dtype, shape}});
    }
  }
  const Metadata metadata = {{"step", "7"}, {"quote \"", "\n"}};
  const FileDigest digest = write_safetensors(path_, tensors, metadata);

  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.tensors().size(), tensors.size());
  EXPECT_EQ(digest, digest_of(FileReader(path_)));
  EXPECT_EQ(digest.bytes, std::filesystem::file_size(path_));
  EXPECT_EQ(digest.bytes, std::filesystem::file_size(path_));
  for (const StoredTensor& tensor : file.tensors()) {
    EXPECT_EQ(tensor.begin % size_of(*tensor.dtype), 0) << tensor.name << " is not aligned";
  }
  std::vector<std::vector<uint8_t>> again;
  std::vector<NamedTensor> targets = tensors;
  for (NamedTensor& target : targets) target.view.data = again.emplace_back(target.view.bytes()).data();
  TensorFiles(path_).read_all(targets);
  EXPECT_EQ(again, storage);
}

// The bytes themselves, so that writer and reader cannot agree on something else.
TEST_F(Safetensors, WritesTheFormat) {
  int32_t small[2] = {1, 2};
  double wide = 1.0;
  write_safetensors(
      path_, std::vector<NamedTensor>{{"b", {small, DType::i32, {2}}}, {"c", {&wide, DType::f64, {}}}});
  std::string json =
      R"({"c":{"dtype":"F64","shape":[],"data_offsets":[0,8]},"b":{"dtype":"I32","shape":[2],"data_offsets":[8,16]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::string data("\0\0\0\0\0\0\xf0\x3f\1\0\0\0\2\0\0\0", 16);
  EXPECT_EQ(read_bytes(), file_of(json, data));
}

TEST_F(Safetensors, ReadsTheFormat) {
  write_bytes(file_of(R"({ "y" : {"data_offsets":[2,6],"shape":[1,1],"dtype":"F32"},
      "__metadata__":{"format":"pt"}, "x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}   )",
                      std::string("\1\0\0\0\x80\x3f", 6)));
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 2);
  EXPECT_EQ(file.tensors()[0].name, "x");
  EXPECT_EQ(file.tensors()[0].dtype, std::nullopt);  // known, though not computed with
  float value = 0;
  file.read(*file.find("y"), &value);
  EXPECT_EQ(value, 1.0f);
  EXPECT_EQ(file.find("z"), nullptr);
}

TEST_F(Safetensors, EmptyFileOfNoTensors) {
  write_safetensors(path_, {});
  EXPECT_TRUE(SafetensorsFile(path_).tensors().empty());
}

struct BadHeader {
  const char* json;
  uint64_t data_bytes;
  const char* message;
};
const BadHeader kBadHeaders[] = {
    {"", 0, "does not begin with '{'"},
    {" {}", 0, "does not begin with '{'"},
    {"[]", 0, "does not begin with '{'"},
    {"{", 0, "not JSON"},
    {"{}x", 0, "not JSON"},
    {"{} {}", 0, "not JSON"},
    {"{\"a\":1}", 0, "expected an object for each name"},
    {"{\"a\":null}", 0, "expected an object for each name"},
    {"{\"a\":[]}", 0, "holds an array; expected an object for each name"},
    {"{\"a\":{}}", 0, "found 0 of the fields"},
    {R"({"a":{"dtype":"U8","shape":[1]}})", 1, "found 2 of the fields"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}})", 1, "unknown field 'more'"},
    {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "'dtype' twice"},
    {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
     0, "two entries named 'a'"},
    {R"({"__metadata__":{},"__metadata__":{}})", 0, "two entries named '__metadata__'"},
    {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "'a' twice"},
    {R"({"__metadata__":{"a":1}})", 0, "expected a string for each key"},
    {R"({"__metadata__":{"a":{}}})", 0, "expected a string for each key"},
    {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,1]}})", 1, "unknown dtype 'F33'"},
    {R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype 'f32'"},
    {R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1, "holds 8; expected a string"},
    {R"({"a":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}})", 1, "holds an array; expected a string"},
    {R"({"a":{"dtype":"U8","shape":"1","data_offsets":[0,1]}})", 1, "expected an array"},
    {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1,
     "holds -1; expected an integer, at least 0"},
    {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1, "holds 1.0; expected an integer"},
    {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1, "expected an integer"},
    {R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1, "9 dims; at most 8"},
    {R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1, "too large"},
    {R"({"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0, "too large"},
    {R"({"a":{"dtype":"F64","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})", 0, "too large"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "1 numbers; expected 2"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1, "3 numbers; expected 2"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1, "a hole"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,2]}})", 2, "expected 1 bytes for U8 [1]"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "a hole"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
     3, "a hole"},
    {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
     3, "an overlap"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, "longer than its tensors"},
    {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1, "cut short"},
    {"{}", 1, "longer than its tensors"},
    {"{\"\xff\":{}}", 0, "not JSON"},
};

TEST(SafetensorsHeader, RefusesAllElse) {
  for (const BadHeader& bad : kBadHeaders) {
    EXPECT_THAT(error_of([&] { parse_header(bad.json, bad.data_bytes, "x.st"); }),
                AllOf(HasSubstr("x.st: "), HasSubstr(bad.message)))
        << bad.json;
  }
  // What follows a NUL would be invisible to the JSON reader.
  EXPECT_THAT(error_of([] { parse_header(std::string_view("{}\0{}", 5), 0, "x.st"); }),
              HasSubstr("NUL byte"));
}

TEST_F(Safetensors, RefusesWrongLengths) {
  const auto open = [&] { SafetensorsFile file(path_); };
  write_bytes("1234567");
  EXPECT_THAT(error_of(open), HasSubstr("7 bytes; a safetensors file has at least 8"));
  write_bytes(std::string("\xff\xff\xff\xff\0\0\0\0{}", 10));
  EXPECT_THAT(error_of(open), HasSubstr("a header of 4294967295 bytes, expected at most 100000000"));
  write_bytes(std::string("\3\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(error_of(open), HasSubstr("a header of 3 bytes in a file of 10: the file is cut short"));
  std::filesystem::remove(path_);
  EXPECT_THAT(error_of(open), HasSubstr("No such file"));
  path_ = folder_;
  EXPECT_THAT(error_of(open), HasSubstr("not a regular file"));
}

TEST_F(Safetensors, EveryTruncationAndEveryFlippedHeaderByteIsSurvived) {
  float data[3] = {1, 2, 3};
  write_safetensors(path_, std::vector<NamedTensor>{{"a", {data, DType::f32, {3}}}}, {{"k", "v"}});
  const std::string whole = read_bytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    write_bytes(whole.substr(0, length));
    EXPECT_NE(error_of([&] { SafetensorsFile file(path_); }), "no error") << length;
  }
  write_bytes(whole + '\0');
  EXPECT_NE(error_of([&] { SafetensorsFile file(path_); }), "no error");
  for (size_t at = 0; at < whole.size() - sizeof(data); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      write_bytes(flipped);
      error_of([&] { SafetensorsFile file(path_); });  // an Error or a file of other names, never a crash
    }
  }
}

TEST_F(Safetensors, ReadAllNamesEveryDifference) {
  float data[2] = {1, 2};
  write_safetensors(
      path_, std::vector<NamedTensor>{{"a", {data, DType::f32, {2}}}, {"extra", {data, DType::f32, {1}}}});
  const TensorFiles file(path_);
  float target[2] = {-1, -1};
  EXPECT_THAT(error_of([&] {
                file.read_all(std::vector<NamedTensor>{{"a", {target, DType::f32, {2, 1}}},
                                                       {"b", {target, DType::f32, {1}}}});
              }),
              AllOf(HasSubstr("'a' is F32 [2], expected F32 [2,1]"), HasSubstr("'b' is missing"),
                    HasSubstr("'extra' is not expected")));
  EXPECT_EQ(target[0], -1) << "something was read although the tensors differ";
}

TEST_F(Safetensors, WriterRefusesNamesThatCouldNotBeReadBack) {
  float x = 0;
  const TensorView view{&x, DType::f32, {1}};
  const auto write = [&](std::vector<NamedTensor> tensors) {
    return error_of([&] { write_safetensors(path_, tensors); });
  };
  EXPECT_THAT(write({{"a", view}, {"a", view}}), HasSubstr("named 'a'"));
  EXPECT_THAT(write({{"__metadata__", view}}), HasSubstr("__metadata__"));
  EXPECT_THAT(write({{"\xff", view}}), HasSubstr("not valid UTF-8"));
}

// More than are read at once: 65,536.
TEST_F(Safetensors, LargeTensorsOf16BitsAreWidenedWhole) {
  constexpr int64_t kElements = 150000;
  std::vector<uint16_t> halves(kElements);
  // The upper half of an f32: exact in both.
  for (int64_t i = 0; i < kElements; ++i)
    halves[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(i / 1000 + 1)) >> 16);
  write_safetensors(path_, std::vector<NamedTensor>{{"a", {halves.data(), DType::bf16, {kElements}}}});
  const TensorFiles file(path_);
  std::vector<float> found(kElements);
  const Shape shape{kElements};
  file.read(*file.find("a"), {"a", {found.data(), DType::f32, shape}, all_of(shape)});
  for (int64_t i = 0; i < kElements; ++i)
    ASSERT_EQ(found[i], std::bit_cast<float>(static_cast<uint32_t>(halves[i]) << 16)) << i;
  EXPECT_NE(found[0], found[70000]);
}

}  // namespace
}  // namespace trireme
