// A small hash table: finding a recipe is on the path of every collective, where a node-based map would cost
// as much as the collective itself.
#include "trireme/comm/engine/recipe_book.h"

#include <algorithm>

namespace trireme::comm {

RecipeBook::RecipeBook() : table_(64) {}

size_t RecipeBook::slot_of(RecipeKey key) const {
  const uint64_t mixed = (key.call ^ key.more * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
  return (mixed >> 32) & (table_.size() - 1);
}

RecipePage* RecipeBook::find(RecipeKey key, std::span<const int64_t> counts) {
  for (size_t slot = slot_of(key); table_[slot] != nullptr; slot = (slot + 1) & (table_.size() - 1)) {
    RecipePage& page = *table_[slot];
    if (page.key == key && std::ranges::equal(page.counts, counts)) return &page;
  }
  return nullptr;
}

RecipePage& RecipeBook::add(std::unique_ptr<RecipePage> page) {
  if (pages_.size() >= kMostPages) drop_idle();
  page->call = page->recipe.call.pack();
  pages_.push_back(std::move(page));
  if (pages_.size() * 2 > table_.size()) {
    table_.assign(table_.size() * 2, nullptr);
    for (const auto& each : pages_) insert(*each);
  } else {
    insert(*pages_.back());
  }
  return *pages_.back();
}

void RecipeBook::insert(RecipePage& page) {
  size_t slot = slot_of(page.key);
  while (table_[slot] != nullptr) slot = (slot + 1) & (table_.size() - 1);
  table_[slot] = &page;
}

void RecipeBook::drop_idle() {
  std::erase_if(pages_, [](const std::unique_ptr<RecipePage>& page) {
    return std::ranges::all_of(
        page->operations, [](const auto& operation) { return operation->state == Operation::State::idle; });
  });
  std::ranges::fill(table_, nullptr);
  for (const auto& page : pages_) insert(*page);
}

}  // namespace trireme::comm
