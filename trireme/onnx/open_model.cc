// See open_model.h.
#include "trireme/onnx/open_model.h"

#include <filesystem>

#include "trireme/base/error.h"

namespace trireme::onnx {

std::string state_name(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("._-/").find(c) != std::string_view::npos;
    if (!plain) c = '_';
  }
  return name;
}

void OpenModel::keep(const std::string& name, const Tensor& constant) {
  const std::scoped_lock lock(mutex_);
  constants_.emplace(name, constant);
}

void OpenModel::read(const std::string& name, int64_t first, std::span<float> values) const {
  if (const auto stored = file_->initializers.find(name); stored != file_->initializers.end())
    return stored->second.read(first, values);
  const std::scoped_lock lock(mutex_);
  const auto constant = constants_.find(name);
  if (constant == constants_.end())
    throw_error("{}: '{}' is neither an initializer nor a constant of the graph; was the file changed?",
                file_->path, name);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(constant->second.real(first + static_cast<int64_t>(i)));
}

std::shared_ptr<OpenModel> open_model(const std::string& path) {
  namespace fs = std::filesystem;
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<OpenModel>> open;
  static std::shared_ptr<OpenModel> last;
  const std::scoped_lock lock(mutex);
  std::error_code missing;  // which read_file() reports
  const auto changed = fs::last_write_time(path, missing).time_since_epoch().count();
  std::weak_ptr<OpenModel>& known =
      open[fmt::format("{} {}", fs::absolute(path).lexically_normal().string(), changed)];
  std::shared_ptr<OpenModel> model = known.lock();
  if (!model) known = model = std::make_shared<OpenModel>(path);
  last = model;
  return model;
}

}  // namespace trireme::onnx
