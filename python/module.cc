// The extension module _trireme: the one exception class, and the nouns of bindings.h. Errors of the library
// become trireme.Error with the library's text.
#include "python/bindings.h"
#include "trireme/base/error.h"
#include "trireme/run/run_folder.h"

PYBIND11_MODULE(_trireme, module) {
  using namespace trireme::python;
  module.doc() = "The bindings of the package trireme, which is what programs import.";
  module.attr("__version__") = std::string(trireme::version());
  auto& error = py::register_exception<trireme::Error>(module, "Error", PyExc_RuntimeError);
  error.doc() =
      "What a person can mend: settings, files, peers. Its text says what was found, what was expected and "
      "what to do.";
  error.attr("__module__") = "trireme";
  bind_config(module);
  bind_plan(module);
  bind_inspect(module);
  bind_simulate(module);
  bind_verify(module);
  bind_arrays(module);
  bind_model(module);
  bind_data(module);
  bind_trainer(module);
  bind_train(module);
}
