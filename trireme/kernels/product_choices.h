// Which of cuBLASLt's algorithms computes a product: what the library proposes first, unless a file says
// otherwise. Such a file is made once for a kind of GPU and a version of the library, by timing what the
// library proposes; a run that is given one computes with the same algorithms, and so the same bits, wherever
// it runs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// What a product of f32 matrices may be made of. kTf32: factors rounded to the 10 bits of TF32.
enum class F32Products { kF32, kTf32 };

using ProductKey = std::array<int64_t, 19>;        // all that the choice depends on; see gemm.cu
using ProductAlgorithm = std::array<uint64_t, 8>;  // the library's own words

class ProductChoices {
 public:
  enum class Missing { kFirstProposed, kTime };  // what is done about a product that has no choice yet

  ProductChoices() = default;
  // `machine` names the GPU and the version of the library. kTime starts a file where there is none, and
  // begins anew where it is of another machine; otherwise both are an Error.
  ProductChoices(std::string path, Missing missing, std::string machine);

  const ProductAlgorithm* find(const ProductKey& key) const;  // null where there is none
  Missing missing() const { return missing_; }
  void add(const ProductKey& key, const ProductAlgorithm& algorithm);  // and writes the file

 private:
  std::string path_;
  Missing missing_ = Missing::kFirstProposed;
  std::string machine_;
  std::map<ProductKey, ProductAlgorithm> choices_;
};

// The text of a file: the machine's name, and a line for each product. Throws an Error that names the line.
struct ProductTable {
  std::string machine;
  std::map<ProductKey, ProductAlgorithm> choices;
};
std::string print(const ProductTable& table);
ProductTable parse_products(std::string_view text, std::string_view path);

}  // namespace trireme
