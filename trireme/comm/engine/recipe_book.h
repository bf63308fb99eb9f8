// The recipes of one group, found again by what was asked, with the operations that were made for them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/engine/operation.h"
#include "trireme/comm/engine/recipe.h"

namespace trireme::comm {

// What was asked: the packed call as it was wished (automatic is an algorithm here), and what else it depends
// on: the segment size and unit, the peer of a message, the counts of an all-to-all.
struct RecipeKey {
  uint64_t call = 0;
  uint64_t more = 0;
  friend bool operator==(const RecipeKey&, const RecipeKey&) = default;
};

struct RecipePage {
  RecipeKey key;
  std::vector<int64_t> counts;  // of an all-to-all, or units; the key holds but a hash of them
  Recipe recipe;
  uint64_t call = 0;  // the recipe's, packed: what messages carry
  bool native = false;
  std::vector<std::unique_ptr<Operation>> operations;
  Operation* idle = nullptr;
};

class RecipeBook {
 public:
  RecipeBook();

  // nullptr when it is not there.
  RecipePage* find(RecipeKey key, std::span<const int64_t> counts = {});
  // Adds one. Where there are many already, those with no operation in use are thrown away.
  RecipePage& add(std::unique_ptr<RecipePage> page);

 private:
  static constexpr size_t kMostPages = 1024;

  size_t slot_of(RecipeKey key) const;
  void insert(RecipePage& page);
  void drop_idle();

  std::vector<std::unique_ptr<RecipePage>> pages_;
  std::vector<RecipePage*> table_;  // open addressing, a power of two, at most half full
};

}  // namespace trireme::comm
