// Byte-level BPE. Within a word the adjacent pair with the lowest rank (the leftmost of equals) is merged
// until no pair has a rank. Symbols form a linked list and candidate pairs a heap, so a word of n bytes
// costs O(n log n); short words, which are nearly all of them, are looked up in a cache.
#include <algorithm>
#include <bit>
#include <bitset>
#include <mutex>
#include <unordered_map>

#include "trireme/base/error.h"
#include "trireme/data/file.h"
#include "trireme/data/tokenizer.h"
#include "trireme/data/word_splitter.h"

namespace trireme {
namespace {

constexpr int32_t kNone = -1;
constexpr size_t kCachedWordBytes = 64;           // longer words hardly repeat
constexpr size_t kCachedWords = size_t{1} << 18;  // bounds the cache to some tens of MB

// (left id, right id) -> rank and result: a hash table with linear probing, at most half full.
class MergeTable {
 public:
  struct Entry {
    uint64_t pair = kEmpty;
    uint32_t rank = 0;
    int32_t result = 0;
  };

  explicit MergeTable(const std::vector<BpeVocabulary::Merge>& merges)
      : entries_(std::bit_ceil(2 * merges.size() + 2)) {
    for (uint32_t rank = 0; rank < merges.size(); ++rank) {
      const auto [left, right, result] = merges[rank];
      Entry& entry = entries_[slot(key(left, right))];
      if (entry.pair == kEmpty)
        entry = {key(left, right), rank, result};  // of two equal merges the first counts
    }
  }

  const Entry* find(int32_t left, int32_t right) const {
    const Entry& entry = entries_[slot(key(left, right))];
    return entry.pair == kEmpty ? nullptr : &entry;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no pair: ids are not negative
  static uint64_t key(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(left) << 32) | static_cast<uint32_t>(right);
  }
  size_t slot(uint64_t pair) const {
    size_t i = (pair * 0x9E3779B97F4A7C15u) >> 32;
    for (;; ++i) {
      i &= entries_.size() - 1;
      if (entries_[i].pair == pair || entries_[i].pair == kEmpty) return i;
    }
  }
  std::vector<Entry> entries_;
};

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(BpeVocabulary vocabulary, std::string name)
      : name_(std::move(name)),
        vocabulary_(std::move(vocabulary)),
        pattern_(vocabulary_.pattern, name_),
        merges_(vocabulary_.merges) {
    // Of several that begin at one place, the longest is found.
    std::ranges::sort(vocabulary_.in_text, std::ranges::greater(),
                      [&](int32_t id) { return vocabulary_.tokens[id].size(); });
    for (const int32_t id : vocabulary_.in_text)
      begins_token_.set(static_cast<uint8_t>(vocabulary_.tokens[id][0]));
    if (vocabulary_.whole_words == BpeVocabulary::WholeWords::lookup) {
      for (size_t id = 0; id < vocabulary_.tokens.size(); ++id)
        whole_words_.emplace(vocabulary_.tokens[id], static_cast<int32_t>(id));
      for (const int32_t id : vocabulary_.special) whole_words_.erase(vocabulary_.tokens[id]);
    }
  }

  std::string name() const override { return name_; }
  int32_t vocab_size() const override { return static_cast<int32_t>(vocabulary_.tokens.size()); }
  std::optional<int32_t> end_of_text() const override { return vocabulary_.end_of_text; }

  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    const std::lock_guard lock(mutex_);
    for (;;) {
      const auto [at, id] = next_in_text(text);
      encode_words(text.substr(0, at), ids);
      if (id == kNone) return;
      ids.push_back(id);
      text.remove_prefix(at + vocabulary_.tokens[id].size());
    }
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= vocab_size()) {
        throw_error("decode: token {} at position {} is outside the vocabulary of {} ({} tokens)", ids[i], i,
                    name_, vocab_size());
      }
      text += vocabulary_.tokens[ids[i]];
    }
    return text;
  }

 private:
  struct Range {
    uint32_t begin, count;
  };
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // kNone at the ends
  };
  // A pair seen at `position`. It is stale when either symbol has changed since.
  struct Candidate {
    uint32_t rank;
    int32_t position, left, right, result;
    bool operator<(const Candidate& other) const {  // std heaps keep the largest on top
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };

  struct Found {
    size_t at;   // the end of the text when there is none
    int32_t id;  // kNone then
  };
  // The first token of `in_text` that the text has.
  Found next_in_text(std::string_view text) const {
    if (begins_token_.none()) return {text.size(), kNone};
    for (size_t at = 0; at < text.size(); ++at) {
      if (!begins_token_[static_cast<uint8_t>(text[at])]) continue;
      for (const int32_t id : vocabulary_.in_text) {
        if (text.substr(at).starts_with(vocabulary_.tokens[id])) return {at, id};
      }
    }
    return {text.size(), kNone};
  }

  // The caller holds the lock.
  void encode_words(std::string_view text, std::vector<int32_t>& ids) const {
    WordSplitter words(pattern_, text);
    for (std::string_view word; words.next(word);) {
      if (word.size() > kCachedWordBytes) {
        merge_word(word, ids);
        continue;
      }
      auto it = cache_.find(word);
      if (it == cache_.end()) {
        if (cache_.size() >= kCachedWords) {
          cache_.clear();
          cached_ids_.clear();
        }
        const size_t begin = cached_ids_.size();
        merge_word(word, cached_ids_);
        it = cache_
                 .emplace(word, Range{static_cast<uint32_t>(begin),
                                      static_cast<uint32_t>(cached_ids_.size() - begin)})
                 .first;
      }
      const auto begin = cached_ids_.begin() + it->second.begin;
      ids.insert(ids.end(), begin, begin + it->second.count);
    }
  }

  void consider(int32_t position) const {
    if (position == kNone || symbols_[position].next == kNone) return;
    const int32_t left = symbols_[position].id, right = symbols_[symbols_[position].next].id;
    if (const MergeTable::Entry* merge = merges_.find(left, right)) {
      heap_.push_back({merge->rank, position, left, right, merge->result});
      std::push_heap(heap_.begin(), heap_.end());
    }
  }

  // Appends the ids of one word. Uses scratch memory of the object: the caller holds the lock.
  void merge_word(std::string_view word, std::vector<int32_t>& ids) const {
    if (!whole_words_.empty()) {
      if (const auto it = whole_words_.find(word); it != whole_words_.end()) {
        ids.push_back(it->second);
        return;
      }
    }
    if (word.size() > INT32_MAX)
      throw_error("{}: a single word of {} bytes; split the text", name_, word.size());
    const int32_t count = static_cast<int32_t>(word.size());
    symbols_.clear();
    heap_.clear();
    for (int32_t i = 0; i < count; ++i) {
      symbols_.push_back(
          {vocabulary_.byte_ids[static_cast<uint8_t>(word[i])], i - 1, i + 1 == count ? kNone : i + 1});
    }
    for (int32_t i = 0; i < count; ++i) consider(i);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Candidate best = heap_.back();
      heap_.pop_back();
      Symbol& left = symbols_[best.position];
      if (left.id != best.left || left.next == kNone || symbols_[left.next].id != best.right) continue;
      Symbol& right = symbols_[left.next];
      left.id = best.result;
      left.next = right.next;
      right.id = kNone;  // gone: candidates that start here are stale
      if (left.next != kNone) symbols_[left.next].previous = best.position;
      consider(left.previous);
      consider(best.position);
    }
    for (int32_t i = count == 0 ? kNone : 0; i != kNone; i = symbols_[i].next) ids.push_back(symbols_[i].id);
  }

  const std::string name_;
  BpeVocabulary vocabulary_;
  const WordPattern pattern_;
  const MergeTable merges_;
  std::bitset<256> begins_token_;                              // bytes that a token of in_text begins with
  std::unordered_map<std::string_view, int32_t> whole_words_;  // views of vocabulary_.tokens

  mutable std::mutex mutex_;  // guards what follows
  mutable std::unordered_map<std::string, Range, TextHash, std::equal_to<>> cache_;
  mutable std::vector<int32_t> cached_ids_;
  mutable std::vector<Symbol> symbols_;
  mutable std::vector<Candidate> heap_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_bpe_tokenizer(BpeVocabulary vocabulary, std::string name) {
  return std::make_shared<BpeTokenizer>(std::move(vocabulary), std::move(name));
}

std::shared_ptr<const Tokenizer> open_bpe_tokenizer(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  constexpr size_t kMaxVocabularyBytes = size_t{256} << 20;
  const bool folder = fs::is_directory(path);
  const fs::path json = folder ? path / "tokenizer.json" : path;
  if (folder && fs::exists(path / "encoder.json") && fs::exists(path / "vocab.bpe")) {
    return make_bpe_tokenizer(
        parse_gpt2_vocabulary(read_text_file(path / "encoder.json", kMaxVocabularyBytes),
                              read_text_file(path / "vocab.bpe", kMaxVocabularyBytes), path.string()),
        "gpt2");
  }
  if (!fs::exists(json)) {
    throw_error(
        "{}: no tokenizer found; expected encoder.json and vocab.bpe, or tokenizer.json, in this folder",
        path.string());
  }
  return make_bpe_tokenizer(parse_tokenizer_json(read_text_file(json, kMaxVocabularyBytes), json.string()),
                            json.parent_path().filename().string());
}

}  // namespace trireme
