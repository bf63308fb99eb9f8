// Config: the settings of a run, from a TOML file, the environment and a dict.
#include <fmt/format.h>

#include "python/settings.h"
#include "trireme/base/text.h"
#include "trireme/run/config_fields.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/run_setup.h"

namespace trireme::python {
namespace {

std::string setting_text(const std::string& name, py::handle value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>() ? "true" : "false";
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (py::hasattr(value, "__fspath__")) return py::str(value.attr("__fspath__")());
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    std::vector<std::string> parts;
    for (const py::handle one : value) parts.push_back(setting_text(name, one));
    return join(parts, ",");
  }
  if (PyNumber_Check(value.ptr()) != 0) return py::repr(py::reinterpret_borrow<py::object>(value));
  throw_error("{} is {}; a number, a string, a bool or a list of them expected", name,
              std::string(py::repr(py::reinterpret_borrow<py::object>(value))));
}

Settings settings_of(const std::optional<std::string>& path, const py::dict& settings) {
  Settings result;
  result.sources.environment = process_environment();
  if (path) result.sources.file = read_config_file(*path);
  result.sources.command_line = setting_arguments(settings);
  return result;
}

// No data is read to look at a step, but image models ask for a path. One of the user's comes later and wins.
ConfigSources without_data(ConfigSources sources) {
  sources.command_line.insert(sources.command_line.begin(), "data.path=none");
  return sources;
}

py::object value_of(const Settings& settings, const std::string& name) {
  ResolvedConfig resolved = resolve_config(without_data(settings.sources));
  for (const Field& field : config_fields(resolved.config)) {
    if (field.name != name) continue;
    if (const auto* groups = std::get_if<std::vector<ParameterGroup>*>(&field.value))
      throw_error("{} is {}; read it from toml()", name, (*groups)->empty() ? "empty" : "a list of tables");
    return std::visit(
        [](auto* value) -> py::object {
          if constexpr (!std::is_same_v<decltype(value), std::vector<ParameterGroup>*>)
            return py::cast(*value);
          return py::none();
        },
        field.value);
  }
  const std::string like = setting_like(name);
  throw_error("there is no setting {}{}", name, like.empty() ? "" : fmt::format("; did you mean {}?", like));
}

// What is not a default, and where it comes from.
std::string text_of(const Settings& settings) {
  ResolvedConfig resolved = resolve_config(without_data(settings.sources));
  std::string text;
  for (const Field& field : config_fields(resolved.config)) {
    const std::string& origin = resolved.origins.at(field.name);
    if (origin == "default" || (field.name == "data.path" && value_text(field) == "\"none\"")) continue;
    text += fmt::format("{} = {}  # {}\n", field.name, value_text(field), origin);
  }
  return text.empty() ? "# defaults\n" : text;
}

}  // namespace

std::vector<std::string> setting_arguments(const py::dict& settings) {
  std::vector<std::string> arguments;
  for (const auto& [key, value] : settings) {
    const std::string name = py::str(key);
    arguments.push_back(fmt::format("--{}={}", name, setting_text(name, value)));
  }
  return arguments;
}

StepSubject step_subject(const Settings& settings, const ModelRecord* own, const Plan& plan) {
  ResolvedConfig config = resolve_config(without_data(settings.sources), own);
  apply_plan(plan, config);
  const ModelRecord record = own ? *own : find_model(config.config.model);
  config.config.model = assumed_model(record, config.config.model);
  const StepShape shape{config.config.train.batch / config.config.train.accumulate,
                        record.usual_sample(config.config.model)};
  return {Model(record, config.config.model), config.config, shape};
}

void bind_config(py::module_& module) {
  py::class_<Settings>(module, "Config",
                       "The settings of a run: a dict over the environment over a TOML file over defaults. "
                       "Names and values are those of `trireme train`.")
      .def(py::init([](const std::optional<std::string>& path, const py::dict& settings) {
             Settings result = settings_of(path, settings);
             resolve_config(without_data(result.sources));  // mistakes are told here
             return result;
           }),
           py::arg("path") = py::none(), py::arg("settings") = py::dict())
      .def_static("unchecked", &settings_of, py::arg("path"), py::arg("settings"),
                  "Without looking at the values: for settings that are for a model of the program's own.")
      .def(
          "with_settings",
          [](Settings self, const py::dict& more) {
            for (std::string& argument : setting_arguments(more))
              self.sources.command_line.push_back(std::move(argument));
            return self;
          },
          py::arg("settings"), "The same with these settings over what was said before.")
      .def("__getitem__", &value_of, py::arg("name"), "The value of a setting, e.g. config[\"train.batch\"].")
      .def(
          "toml",
          [](const Settings& self) { return config_toml(resolve_config(without_data(self.sources)).config); },
          "All settings, as a config file.")
      .def("__repr__", &text_of);
}

}  // namespace trireme::python
