// A fuzzer without the fuzzing: gives it every file of the folder that is named, in order. A seed that once broke a
// reader is tried by every build this way; new ones are looked for by the preset `fuzz`.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int count, char** arguments) {
  std::vector<std::filesystem::path> seeds;
  if (count == 2) {
    for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) seeds.push_back(entry.path());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "usage: replay FOLDER, with a file in it at least\n");
    return 2;
  }
  std::ranges::sort(seeds);
  for (const std::filesystem::path& seed : seeds) {
    std::printf("%s\n", seed.c_str());
    std::fflush(stdout);
    std::ifstream file(seed, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}
