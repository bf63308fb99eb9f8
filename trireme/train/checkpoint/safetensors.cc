// Files around the header; see safetensors.h and safetensors_header.h.
#include "trireme/train/checkpoint/safetensors.h"

#include <algorithm>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

std::string described(std::string_view format, const Shape& shape) {
  return fmt::format("{} {}", format, to_string(shape));
}

// Order and offsets of the tensors in a file to be written.
struct Layout {
  std::vector<const NamedTensor*> order;
  SafetensorsHeader header;
  uint64_t data_bytes = 0;
};

Layout lay_out(std::span<const NamedTensor> tensors, const Metadata& metadata) {
  Layout layout{.header = {.metadata = metadata}};
  for (const NamedTensor& tensor : tensors) layout.order.push_back(&tensor);
  std::ranges::sort(layout.order, [](const NamedTensor* a, const NamedTensor* b) {
    const size_t a_bytes = size_of(a->view.dtype), b_bytes = size_of(b->view.dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a->name < b->name;
  });
  std::set<std::string_view> names = {"__metadata__"};
  for (const NamedTensor* tensor : layout.order) {
    if (!names.insert(tensor->name).second) {
      throw_error("two tensors to be stored are named '{}'; expected distinct names other than __metadata__",
                  tensor->name);
    }
    const uint64_t begin = layout.data_bytes;
    layout.data_bytes += tensor->view.bytes();
    layout.header.tensors.push_back({tensor->name, std::string(safetensors_name(tensor->view.dtype)),
                                     tensor->view.dtype, tensor->view.shape, begin, layout.data_bytes});
  }
  return layout;
}

// At most a few of the names: a wrong checkpoint differs in hundreds.
std::string listed(const std::vector<std::string>& problems) {
  constexpr size_t kShown = 5;
  const std::span shown = std::span(problems).first(std::min(problems.size(), kShown));
  const std::string text = join(shown, "; ");
  return problems.size() <= kShown ? text : fmt::format("{}; and {} more", text, problems.size() - kShown);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  std::string prefix(std::min(kHeaderPrefixBytes, file_.bytes()), '\0');
  file_.read(0, prefix.data(), prefix.size());
  std::string json(parse_header_length(prefix, file_.bytes(), path), '\0');
  file_.read(kHeaderPrefixBytes, json.data(), json.size());
  data_offset_ = kHeaderPrefixBytes + json.size();
  header_ = parse_header(json, file_.bytes() - data_offset_, path);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(header_.tensors, name, &StoredTensor::name);
  return found == header_.tensors.end() ? nullptr : &*found;
}

void SafetensorsFile::read(const StoredTensor& tensor, void* to) const {
  file_.read(data_offset_ + tensor.begin, to, tensor.bytes());
}

void SafetensorsFile::read_all(std::span<const NamedTensor> tensors) const {
  std::map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : header_.tensors) stored[tensor.name] = &tensor;
  std::vector<std::string> problems;
  std::vector<std::pair<const StoredTensor*, void*>> reads;
  for (const NamedTensor& wanted : tensors) {
    const auto found = stored.find(wanted.name);
    if (found == stored.end()) {
      problems.push_back(fmt::format("'{}' is missing", wanted.name));
      continue;
    }
    const StoredTensor& tensor = *found->second;
    if (tensor.dtype != wanted.view.dtype || tensor.shape != wanted.view.shape) {
      problems.push_back(fmt::format("'{}' is {}, expected {}", wanted.name,
                                     described(tensor.format, tensor.shape),
                                     described(safetensors_name(wanted.view.dtype), wanted.view.shape)));
    }
    reads.emplace_back(&tensor, wanted.view.data);
    stored.erase(found);
  }
  for (const auto& [name, tensor] : stored) problems.push_back(fmt::format("'{}' is not expected", name));
  if (!problems.empty()) {
    throw_error("{}: its tensors are not those of this model: {}", path(), listed(problems));
  }
  for (const auto& [tensor, to] : reads) read(*tensor, to);
}

FileDigest write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                             const Metadata& metadata) {
  const Layout layout = lay_out(tensors, metadata);
  const std::string header = render_header(layout.header);
  FileWriter file(path);
  file.write(header.data(), header.size());
  for (const NamedTensor* tensor : layout.order) file.write(tensor->view.data, tensor->view.bytes());
  return file.finish();
}

uint64_t safetensors_bytes(std::span<const NamedTensor> tensors, const Metadata& metadata) {
  const Layout layout = lay_out(tensors, metadata);
  return render_header(layout.header).size() + layout.data_bytes;
}

}  // namespace trireme
