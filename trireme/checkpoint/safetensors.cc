// Files around the header; see safetensors.h and safetensors_header.h.
#include "trireme/checkpoint/safetensors.h"

#include <algorithm>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

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

constexpr size_t kStretch = size_t{4} << 20;

void write_tensor(FileWriter& file, const NamedTensor& tensor, std::vector<std::byte>& buffer) {
  const size_t bytes = tensor.view.bytes();
  if (!tensor.reach.read) return file.write(tensor.view.data, bytes);
  buffer.resize(kStretch);
  for (size_t done = 0; done < bytes; done += kStretch) {
    const size_t now = std::min(kStretch, bytes - done);
    tensor.reach.read(done, buffer.data(), now);
    file.write(buffer.data(), now);
  }
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

void SafetensorsFile::read(const StoredTensor& tensor, uint64_t offset, void* to, size_t bytes) const {
  TRIREME_CHECK(offset + bytes <= tensor.bytes());
  file_.read(data_offset_ + tensor.begin + offset, to, bytes);
}

FileDigest write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                             const Metadata& metadata, const TensorData& data) {
  const Layout layout = lay_out(tensors, metadata);
  const std::string header = render_header(layout.header);
  FileWriter file(path);
  file.write(header.data(), header.size());
  std::vector<std::byte> buffer;
  for (const NamedTensor* tensor : layout.order) {
    if (data)
      file.write(data(*tensor), tensor->view.bytes());
    else
      write_tensor(file, *tensor, buffer);
  }
  return file.finish();
}

}  // namespace trireme
