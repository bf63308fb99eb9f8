// Reads parts of tensors out of files that may have other parts.
#include "trireme/checkpoint/tensor_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string described(std::string_view format, const Shape& shape) {
  return fmt::format("{} {}", format, to_string(shape));
}

// At most a few of the names: a wrong checkpoint differs in hundreds.
std::string listed(const std::vector<std::string>& problems) {
  constexpr size_t kShown = 5;
  const std::span shown = std::span(problems).first(std::min(problems.size(), kShown));
  const std::string text = join(shown, "; ");
  return problems.size() <= kShown ? text : fmt::format("{}; and {} more", text, problems.size() - kShown);
}

template <typename T>
void widen(const std::byte* from, float* to, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof value), sizeof value);
    to[i] = static_cast<float>(value);
  }
}

}  // namespace

uint64_t TensorFiles::Tensor::bytes() const {
  uint64_t bytes = 0;
  for (const Source& source : sources) bytes += source.stored->bytes();
  return bytes;
}

TensorFiles::TensorFiles(const std::string& path) : path_(path) {
  if (path.ends_with(".json")) {
    open_index();
    return;
  }
  files_.emplace_back(path);
  for (const StoredTensor& tensor : files_[0].tensors()) {
    tensors_.push_back({tensor.name,
                        tensor.format,
                        tensor.dtype,
                        tensor.shape,
                        false,
                        {{0, &tensor, all_of(tensor.shape)}}});
  }
}

void TensorFiles::open_index() {
  const FileReader file(path_);
  constexpr uint64_t kMaxBytes = 64 << 20;
  if (file.bytes() > kMaxBytes)
    throw_error("{}: {}, expected a small file", path_, format_bytes(file.bytes()));
  std::string text(file.bytes(), '\0');
  file.read(0, text.data(), text.size());
  const TensorIndex index = parse_index(text, path_);
  check_complete(index, path_);

  std::map<std::string, size_t> numbers;
  for (const auto& [name, file_name] : index.files) numbers.emplace(file_name, 0);
  for (const auto& [name, pieces] : index.parts) {
    for (const TensorIndex::Piece& piece : pieces) numbers.emplace(piece.file, 0);
  }
  files_.reserve(numbers.size());
  for (auto& [name, number] : numbers) {
    number = files_.size();
    files_.emplace_back(fs::path(path_).parent_path() / name);
  }
  const auto add = [&](const std::string& name, const std::string& file_name, const TensorPart* part) {
    const size_t number = numbers.at(file_name);
    const StoredTensor* stored = files_[number].find(name);
    if (!stored) throw_error("{}: '{}' is said to be in {}, but is not", path_, name, file_name);
    if (part && stored->shape != part->shape()) {
      throw_error("{}: the part of '{}' in {} is {}, but {} there", path_, name, file_name,
                  to_string(part->shape()), to_string(stored->shape));
    }
    if (tensors_.empty() || tensors_.back().name != name)
      tensors_.push_back(
          {name, stored->format, stored->dtype, part ? part->whole : stored->shape, false, {}});
    if (tensors_.back().format != stored->format) {
      throw_error("{}: the parts of '{}' are {} and {}, expected one format", path_, name,
                  tensors_.back().format, stored->format);
    }
    tensors_.back().sources.push_back({number, stored, part ? *part : all_of(stored->shape)});
  };
  for (const auto& [name, file_name] : index.files) add(name, file_name, nullptr);
  for (const auto& [name, pieces] : index.parts) {
    for (const TensorIndex::Piece& piece : pieces) add(name, piece.file, &piece.part);
  }
  std::ranges::sort(tensors_, {}, &Tensor::name);
}

void TensorFiles::rename(const Naming& naming) {
  std::erase_if(tensors_, [&](Tensor& tensor) {
    const std::optional<std::string> name = naming(tensor.name);
    if (name) tensor.name = *name;
    return !name;
  });
}

void TensorFiles::add_base(TensorFiles base, const Naming& naming) {
  base.rename(naming);
  std::set<std::string> known;
  for (const Tensor& tensor : tensors_) known.insert(tensor.name);
  const size_t first = files_.size();
  for (SafetensorsFile& file : base.files_) files_.push_back(std::move(file));
  for (Tensor& tensor : base.tensors_) {
    if (!known.insert(tensor.name).second) continue;
    tensor.of_base = true;
    for (Tensor::Source& source : tensor.sources) source.file += first;
    tensors_.push_back(std::move(tensor));
  }
}

const TensorFiles::Tensor* TensorFiles::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &Tensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

bool TensorFiles::widens(const Tensor& tensor) {
  return tensor.dtype == DType::f32 || tensor.dtype == DType::bf16 || tensor.dtype == DType::f16;
}

void TensorFiles::read_run(const Tensor::Source& source, DType format, int64_t from, const TensorView& to,
                           int64_t at, int64_t elements) const {
  const size_t width = size_of(format);
  if (format == to.dtype) {
    files_[source.file].read(*source.stored, static_cast<uint64_t>(from) * width,
                             static_cast<std::byte*>(to.data) + static_cast<size_t>(at) * width,
                             static_cast<size_t>(elements) * width);
    return;
  }
  constexpr int64_t kAtOnce = 1 << 16;
  std::vector<std::byte> narrow(static_cast<size_t>(std::min(elements, kAtOnce)) * width);
  for (int64_t done = 0; done < elements; done += kAtOnce) {
    const int64_t count = std::min(kAtOnce, elements - done);
    files_[source.file].read(*source.stored, static_cast<uint64_t>(from + done) * width, narrow.data(),
                             static_cast<size_t>(count) * width);
    float* out = to.as<float>() + at + done;
    format == DType::f16 ? widen<F16>(narrow.data(), out, count) : widen<Bf16>(narrow.data(), out, count);
  }
}

void TensorFiles::read(const Tensor& tensor, const PartView& to) const {
  TRIREME_CHECK(tensor.shape == to.part.whole);
  TRIREME_CHECK((tensor.dtype == to.view.dtype || (to.view.dtype == DType::f32 && widens(tensor))));
  if (!to.view.data && !to.reach.write) return;  // another rank has the part
  std::vector<std::byte> staging(to.reach.write ? to.view.bytes() : 0);
  TensorView memory = to.view;
  if (to.reach.write) memory.data = staging.data();
  for (const Tensor::Source& source : tensor.sources) {
    for_each_common_run(source.part, to.part, [&](int64_t from, int64_t at, int64_t elements) {
      read_run(source, *tensor.dtype, from, memory, at, elements);
    });
  }
  if (to.reach.write) to.reach.write(0, staging.data(), staging.size());
}

void TensorFiles::read_all(std::span<const PartView> parts, std::string_view passed_over) const {
  std::map<std::string_view, const Tensor*> stored;
  for (const Tensor& tensor : tensors_) {
    if (passed_over.empty() || !tensor.name.starts_with(passed_over)) stored[tensor.name] = &tensor;
  }
  std::vector<std::string> problems;
  std::vector<std::pair<const Tensor*, const PartView*>> reads;
  for (const PartView& wanted : parts) {
    const auto found = stored.find(wanted.name);
    if (found == stored.end()) {
      problems.push_back(fmt::format("'{}' is missing", wanted.name));
      continue;
    }
    const Tensor& tensor = *found->second;
    const bool widened = tensor.of_base && widens(tensor) && wanted.view.dtype == DType::f32;
    if ((tensor.dtype != wanted.view.dtype && !widened) || tensor.shape != wanted.part.whole) {
      problems.push_back(fmt::format("'{}' is {}, expected {}", wanted.name,
                                     described(tensor.format, tensor.shape),
                                     described(safetensors_name(wanted.view.dtype), wanted.part.whole)));
    }
    reads.emplace_back(&tensor, &wanted);
  }
  for (const PartView& wanted : parts) stored.erase(wanted.name);
  for (const auto& [name, tensor] : stored) problems.push_back(fmt::format("'{}' is not expected", name));
  if (!problems.empty())
    throw_error("{}: its tensors are not those of this model: {}", path(), listed(problems));
  for (const auto& [tensor, to] : reads) read(*tensor, *to);
}

void TensorFiles::read_all(std::span<const NamedTensor> tensors) const {
  std::vector<PartView> parts;
  for (const NamedTensor& tensor : tensors)
    parts.push_back({tensor.name, tensor.view, all_of(tensor.view.shape), tensor.reach});
  read_all(parts);
}

}  // namespace trireme
