// Model, and the Network and Values that its function is written with.
#include <fmt/format.h>

#include "python/bindings.h"
#include "python/noting_network.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::python {
namespace {

using Attributes = std::vector<std::pair<std::string, AttrValue>>;
using NetworkPointer = std::shared_ptr<NotingNetwork>;

// How a parameter starts; nothing: as PyTorch's linear layers do, by the number of inputs.
using MaybeInit = std::optional<Init>;

Init init_or(const MaybeInit& init, int64_t inputs) {
  return init.value_or(Init::uniform(1 / std::sqrt(static_cast<double>(inputs))));
}
std::string text_of_init(const MaybeInit& init) {
  return init ? fmt::format("init {} {}", static_cast<int>(init->kind), init->scale) : "";
}

// One of a few words that an enum has in Python.
template <typename Enum>
Enum one_of(std::string_view what, const std::string& word,
            const std::vector<std::pair<std::string, Enum>>& words) {
  std::vector<std::string> known;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    known.push_back("'" + name + "'");
  }
  throw_error("{} is '{}'; {} expected", what, word, join(known, " or "));
}

Bias bias_of(const std::string& word) {
  return one_of<Bias>("bias", word,
                      {{"none", Bias::kNone}, {"zeros", Bias::kZeros}, {"uniform", Bias::kUniform}});
}
Network::Store store_of(const std::string& word) {
  return one_of<Network::Store>("store", word,
                                {{"out_in", Network::Store::kOutIn}, {"in_out", Network::Store::kInOut}});
}
TensorSplit::Side side_of(const std::string& word) {
  using Side = TensorSplit::Side;
  return one_of<Side>("split", word,
                      {{"", Side::kNone}, {"outputs", Side::kOutputs}, {"inputs", Side::kInputs}});
}

AttrValue attribute_of(const std::string& name, py::handle value) {
  if (py::isinstance<py::bool_>(value)) return static_cast<int64_t>(value.cast<bool>());
  if (py::isinstance<py::int_>(value)) return value.cast<int64_t>();
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value))
    return value.cast<std::vector<int64_t>>();
  throw_error("attribute {} is {}; an integer, a float, a string or a list of integers expected", name,
              std::string(py::repr(py::reinterpret_borrow<py::object>(value))));
}

NotedValue unary(const NotedValue& x, const std::string& op, const Attributes& attributes = {}) {
  return x.network->op(op, {x}, attributes)[0];
}
NotedValue affine(const NotedValue& x, double scale, double shift) {
  return unary(x, "affine", {{"scale", scale}, {"shift", shift}});
}
// The second operand of an op of the library is the smaller one: its shape is a suffix of the first's.
NotedValue either_way(const NotedValue& a, const NotedValue& b, const std::string& op) {
  const bool swap = a.shape().rank() < b.shape().rank();
  return swap ? a.network->op(op, {b, a}, {})[0] : a.network->op(op, {a, b}, {})[0];
}
NotedValue binary(const NotedValue& a, const NotedValue& b, const std::string& op) {
  return a.network->op(op, {a, b}, {})[0];
}

void bind_value(py::module_& module) {
  py::class_<NotedValue> value(module, "Value", "A tensor of a network in the making.");
  value.def_property_readonly("shape", [](const NotedValue& x) { return tuple_of(x.shape()); })
      .def("reshape",
           [](const NotedValue& x, const py::args& shape) {
             return unary(x, "reshape", {{"shape", shape.cast<std::vector<int64_t>>()}});
           })
      .def("transpose",
           [](const NotedValue& x, const py::args& order) {
             return unary(x, "transpose", {{"perm", order.cast<std::vector<int64_t>>()}});
           })
      .def(
          "__add__", [](const NotedValue& a, const NotedValue& b) { return either_way(a, b, "add"); },
          py::is_operator())
      .def(
          "__mul__", [](const NotedValue& a, const NotedValue& b) { return either_way(a, b, "mul"); },
          py::is_operator())
      .def(
          "__sub__", [](const NotedValue& a, const NotedValue& b) { return binary(a, b, "sub"); },
          py::is_operator())
      .def(
          "__truediv__", [](const NotedValue& a, const NotedValue& b) { return binary(a, b, "div"); },
          py::is_operator())
      .def(
          "__matmul__", [](const NotedValue& a, const NotedValue& b) { return binary(a, b, "matmul"); },
          py::is_operator())
      .def(
          "__add__", [](const NotedValue& a, double b) { return affine(a, 1, b); }, py::is_operator())
      .def(
          "__radd__", [](const NotedValue& a, double b) { return affine(a, 1, b); }, py::is_operator())
      .def(
          "__mul__", [](const NotedValue& a, double b) { return affine(a, b, 0); }, py::is_operator())
      .def(
          "__rmul__", [](const NotedValue& a, double b) { return affine(a, b, 0); }, py::is_operator())
      .def(
          "__sub__", [](const NotedValue& a, double b) { return affine(a, 1, -b); }, py::is_operator())
      .def(
          "__rsub__", [](const NotedValue& a, double b) { return affine(a, -1, b); }, py::is_operator())
      .def(
          "__truediv__", [](const NotedValue& a, double b) { return affine(a, 1 / b, 0); }, py::is_operator())
      .def("__neg__", [](const NotedValue& a) { return unary(a, "neg"); })
      .def("__repr__", [](const NotedValue& x) { return "Value" + to_string(x.shape()); });
  for (const char* op : {"exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "relu", "gelu", "silu", "softmax"})
    value.def(op, [op](const NotedValue& x) { return unary(x, op); });
  for (const char* op : {"sum", "max", "mean"}) {
    value.def(
        op,
        [op](const NotedValue& x, const std::vector<int64_t>& dims) {
          return unary(x, op, {{"dims", dims}});
        },
        py::arg("dims"));
  }
}

// `with net.scope("h.0"):`
struct ScopeOfPython {
  NetworkPointer network;
  std::string name;
};

std::vector<ValueId> open_scope(Playback& playback, const std::string& name) {
  playback.scopes.emplace_back(new Builder::Scope(playback.network.scope(name)));
  return {};
}

void bind_layers(py::class_<NotingNetwork, NetworkPointer>& network) {
  using Inputs = NotedCall::Inputs;
  using Sizes = NotedCall::Sizes;
  network
      .def(
          "linear",
          [](NotingNetwork& net, const NotedValue& x, const std::string& name, int64_t outputs,
             const MaybeInit& init, const std::string& bias, const std::string& store,
             const std::string& split, int64_t unit, int64_t blocks) {
            const TensorSplit how{side_of(split), unit, blocks};
            return net.note_one(fmt::format("linear {} {} {} {} {} {} {} {}", name, outputs,
                                            text_of_init(init), bias, store, split, unit, blocks),
                                {x}, {},
                                [=, bias = bias_of(bias), store = store_of(store)](
                                    Playback& at, const Inputs& in, const Sizes&) {
                                  return at.network.linear(in[0], name, outputs, store,
                                                           init_or(init, at.network.shape(in[0]).back()),
                                                           bias, how);
                                });
          },
          py::arg("x"), py::arg("name"), py::arg("outputs"), py::kw_only(), py::arg("init") = py::none(),
          py::arg("bias") = "uniform", py::arg("store") = "out_in", py::arg("split") = "",
          py::arg("unit") = 1, py::arg("blocks") = 1)
      .def(
          "layer_norm",
          [](NotingNetwork& net, const NotedValue& x, const std::string& name, double eps) {
            return net.note_one(fmt::format("layer_norm {} {}", name, eps), {x}, {},
                                [=](Playback& at, const Inputs& in, const Sizes&) {
                                  return at.network.layer_norm(in[0], name, eps);
                                });
          },
          py::arg("x"), py::arg("name"), py::arg("eps") = 1e-5)
      .def(
          "rms_norm",
          [](NotingNetwork& net, const NotedValue& x, const std::string& name, double eps) {
            return net.note_one(fmt::format("rms_norm {} {}", name, eps), {x}, {},
                                [=](Playback& at, const Inputs& in, const Sizes&) {
                                  return at.network.rms_norm(in[0], name, eps);
                                });
          },
          py::arg("x"), py::arg("name"), py::arg("eps") = 1e-5)
      .def(
          "batch_norm",
          [](NotingNetwork& net, const NotedValue& x, const std::string& name) {
            return net.note_one("batch_norm " + name, {x}, {},
                                [=](Playback& at, const Inputs& in, const Sizes&) {
                                  return at.network.batch_norm(in[0], name);
                                });
          },
          py::arg("x"), py::arg("name"))
      .def(
          "conv2d",
          [](NotingNetwork& net, const NotedValue& x, const std::string& name, int64_t filters,
             int64_t kernel, int64_t stride, int64_t padding, const std::string& bias) {
            const Network::Conv conv{filters, kernel, stride, padding, bias_of(bias)};
            return net.note_one(
                fmt::format("conv2d {} {} {} {} {} {}", name, filters, kernel, stride, padding, bias), {x},
                {}, [=](Playback& at, const Inputs& in, const Sizes&) {
                  return at.network.conv2d(in[0], name, conv);
                });
          },
          py::arg("x"), py::arg("name"), py::arg("filters"), py::arg("kernel"), py::kw_only(),
          py::arg("stride") = 1, py::arg("padding") = -1, py::arg("bias") = "none")
      .def(
          "max_pool2d",
          [](NotingNetwork& net, const NotedValue& x, int64_t kernel, int64_t stride, int64_t padding) {
            return net.note_one(fmt::format("max_pool2d {} {} {}", kernel, stride, padding), {x}, {},
                                [=](Playback& at, const Inputs& in, const Sizes&) {
                                  return at.network.max_pool2d(in[0], kernel, stride, padding);
                                });
          },
          py::arg("x"), py::arg("kernel"), py::arg("stride"), py::arg("padding") = 0)
      .def(
          "dropout",
          [](NotingNetwork& net, const NotedValue& x) {
            return net.note_one("dropout", {x}, {}, [](Playback& at, const Inputs& in, const Sizes&) {
              return at.network.dropout(in[0]);
            });
          },
          py::arg("x"))
      .def(
          "flatten",
          [](NotingNetwork& net, const NotedValue& x) {
            return net.note_one("flatten", {x}, {}, [](Playback& at, const Inputs& in, const Sizes&) {
              return at.network.flatten(in[0]);
            });
          },
          py::arg("x"))
      .def(
          "rope",
          [](NotingNetwork& net, const NotedValue& x, double base) {
            return net.note_one(
                fmt::format("rope {}", base), {x}, {},
                [=](Playback& at, const Inputs& in, const Sizes&) { return at.network.rope(in[0], base); });
          },
          py::arg("x"), py::arg("base") = 10000.0)
      .def(
          "attention",
          [](NotingNetwork& net, const NotedValue& q, const NotedValue& k, const NotedValue& v,
             const std::string& name, int64_t seq, bool causal) {
            const Network::Sees sees = causal ? Network::Sees::kEarlier : Network::Sees::kAll;
            return net.note_one(fmt::format("attention {} {} {}", name, seq, causal), {q, k, v}, {},
                                [=](Playback& at, const Inputs& in, const Sizes&) {
                                  return at.network.attention(in[0], in[1], in[2], name, seq, sees);
                                });
          },
          py::arg("q"), py::arg("k"), py::arg("v"), py::arg("name"), py::arg("seq"),
          py::arg("causal") = true);
}

void bind_network(py::module_& module) {
  using Inputs = NotedCall::Inputs;
  using Sizes = NotedCall::Sizes;
  py::class_<ScopeOfPython>(module, "_Scope")
      .def("__enter__",
           [](const ScopeOfPython& scope) {
             scope.network->note("scope " + scope.name, {}, {},
                                 [name = scope.name](Playback& at, const Inputs&, const Sizes&) {
                                   return open_scope(at, name);
                                 });
           })
      .def("__exit__", [](const ScopeOfPython& scope, const py::args&) {
        scope.network->note("end of scope", {}, {}, [](Playback& at, const Inputs&, const Sizes&) {
          at.scopes.pop_back();
          return std::vector<ValueId>();
        });
      });
  py::class_<NotingNetwork, NetworkPointer> network(
      module, "Network", "Layers on a graph: what a model's function is written with.");
  network
      .def(
          "scope",
          [](NetworkPointer net, const std::string& name) {
            return ScopeOfPython{std::move(net), name};
          },
          py::arg("name"), "Names what is made within it: `with net.scope(\"h.0\"): …`")
      .def(
          "op",
          [](NotingNetwork& net, const std::string& name, const py::args& inputs,
             const py::kwargs& attributes) {
            Attributes given;
            for (const auto& [key, value] : attributes)
              given.emplace_back(key.cast<std::string>(), attribute_of(key.cast<std::string>(), value));
            std::vector<NotedValue> results = net.op(name, inputs.cast<std::vector<NotedValue>>(), given);
            return results[0];
          },
          "Any op of docs/ops.md, with its attributes by name: its first result.")
      .def(
          "split",
          [](NotingNetwork& net, const NotedValue& x, int64_t dim, const std::vector<int64_t>& sizes) {
            return net.op("split", {x}, {{"dim", dim}, {"sizes", sizes}});
          },
          py::arg("x"), py::arg("dim"), py::arg("sizes"))
      .def(
          "parameter",
          [](NotingNetwork& net, const std::string& name, const std::vector<int64_t>& shape,
             const Init& init) {
            return net.note_one(
                fmt::format("parameter {} {} {}", name, to_string(shape_of(shape)), text_of_init(init)), {},
                {}, [=](Playback& at, const Inputs&, const Sizes&) {
                  return at.network.parameter(name, shape_of(shape), init);
                });
          },
          py::arg("name"), py::arg("shape"), py::arg("init"))
      .def(
          "table",
          [](NotingNetwork& net, const std::string& name, int64_t rows, int64_t width, const Init& init) {
            return net.note_one(fmt::format("table {} {} {} {}", name, rows, width, text_of_init(init)), {},
                                {}, [=](Playback& at, const Inputs&, const Sizes&) {
                                  return at.network.table(name, rows, width, init);
                                });
          },
          py::arg("name"), py::arg("rows"), py::arg("width"), py::arg("init"))
      .def(
          "embedding",
          [](NotingNetwork& net, const NotedValue& table, const NotedValue& ids) {
            return net.op("embedding", {table, ids}, {})[0];
          },
          py::arg("table"), py::arg("ids"))
      .def(
          "cross_entropy",
          [](NotingNetwork& net, const NotedValue& logits, const NotedValue& targets,
             double label_smoothing) {
            const std::vector<NotedValue> loss =
                net.note(fmt::format("cross_entropy {}", label_smoothing), {logits, targets}, {},
                         [=](Playback& at, const Inputs& in, const Sizes&) -> std::vector<ValueId> {
                           const Loss made = at.network.cross_entropy(in[0], in[1], label_smoothing);
                           return {made.sum, made.count};
                         });
            return py::make_tuple(loss[0], loss[1]);
          },
          py::arg("logits"), py::arg("targets"), py::arg("label_smoothing") = 0.0)
      .def(
          "ctc_loss",
          [](NotingNetwork& net, const NotedValue& logits, const NotedValue& labels,
             const NotedValue& frame_count, const NotedValue& label_count, int64_t blank) {
            const std::vector<NotedValue> loss =
                net.op("ctc_loss", {logits, labels, frame_count, label_count}, {{"blank", blank}});
            return py::make_tuple(loss[0], loss[1]);
          },
          py::arg("logits"), py::arg("labels"), py::arg("frame_count"), py::arg("label_count"),
          py::arg("blank") = 0)
      .def(
          "squared_error",
          [](NotingNetwork& net, const NotedValue& prediction, const NotedValue& expected) {
            const std::vector<NotedValue> loss =
                net.note("squared_error", {prediction, expected}, {},
                         [](Playback& at, const Inputs& in, const Sizes&) -> std::vector<ValueId> {
                           const Loss made = at.network.squared_error(in[0], in[1]);
                           return {made.sum, made.count};
                         });
            return py::make_tuple(loss[0], loss[1]);
          },
          py::arg("prediction"), py::arg("expected"));
  bind_layers(network);
}

// Inputs as Python names them: {"x": ("f32", [2])}.
std::vector<SampleTensor> tensors_of(const std::string& model, const py::dict& inputs) {
  std::vector<SampleTensor> tensors;
  for (const auto& [key, value] : inputs) {
    const auto name = key.cast<std::string>();
    const auto [format, shape] = value.cast<std::pair<std::string, std::vector<int64_t>>>();
    const std::optional<DType> dtype = parse_dtype(format);
    if (!dtype)
      throw_error("input {} of {} is '{}'; a number format like 'f32' or 'i32' expected", name, model,
                  format);
    tensors.push_back({name, *dtype, shape_of(shape)});
  }
  if (tensors.empty()) throw_error("{} has no inputs; {{\"x\": (\"f32\", [2])}} would be one", model);
  return tensors;
}

// One call of the model's function, for a batch of so many rows.
Notes notes_of(const ModelRecord& record, const py::function& function, bool makes_loss, int64_t rows) {
  const auto network = std::make_shared<NotingNetwork>(rows);
  py::list arguments;
  arguments.append(network);
  // Of logits the targets are no business of the function.
  const size_t count = makes_loss ? record.inputs.size() : 1;
  for (size_t i = 0; i < count; ++i) arguments.append(network->input(record.inputs[i]));
  const py::object made = function(*py::tuple(arguments));
  if (makes_loss) {
    if (!py::isinstance<py::tuple>(made) || py::len(made) != 2)
      throw_error(
          "the loss of {} returned {}; what net.cross_entropy or net.squared_error gives was expected: the sum "
          "over targets, and their count",
          record.family, std::string(py::repr(made)));
    return network->take(made.cast<std::vector<NotedValue>>());
  }
  if (!py::isinstance<NotedValue>(made))
    throw_error("the logits of {} are {}; a Value expected", record.family, std::string(py::repr(made)));
  return network->take({made.cast<NotedValue>()});
}

// Sizes that two calls of the function gave, as a function of the rows.
void fit_sizes(Notes& notes, const Notes& other, int64_t rows, int64_t other_rows, const std::string& model) {
  const auto refuse = [&](const std::string& what) {
    throw_error(
        "{} makes another network for {} rows than for {}: {}. Sizes may only be whole multiples of the rows, or "
        "not depend on them",
        model, other_rows, rows, what);
  };
  if (notes.calls.size() != other.calls.size() || notes.results != other.results)
    refuse("more or fewer calls");
  for (size_t i = 0; i < notes.calls.size(); ++i) {
    NotedCall& call = notes.calls[i];
    const NotedCall& twin = other.calls[i];
    if (call.text != twin.text || call.inputs != twin.inputs || call.sizes.size() != twin.sizes.size())
      refuse(fmt::format("'{}' and '{}'", call.text, twin.text));
    for (size_t s = 0; s < call.sizes.size(); ++s) {
      const int64_t difference = twin.sizes[s].fixed - call.sizes[s].fixed;
      if (difference % (other_rows - rows) != 0) refuse(fmt::format("'{}'", call.text));
      const int64_t per_row = difference / (other_rows - rows);
      call.sizes[s] = {call.sizes[s].fixed - rows * per_row, per_row};
    }
  }
}

void check_sizes(const Notes& notes, const Notes& other, int64_t rows, const std::string& model) {
  for (size_t i = 0; i < notes.calls.size(); ++i) {
    for (size_t s = 0; s < notes.calls[i].sizes.size(); ++s) {
      if (i < other.calls.size() && s < other.calls[i].sizes.size() &&
          notes.calls[i].sizes[s].at(rows) == other.calls[i].sizes[s].fixed)
        continue;
      throw_error("{}: a size of '{}' depends on the number of rows otherwise than by a factor", model,
                  notes.calls[i].text);
    }
  }
}

OwnModel make_model(const std::string& name, const py::dict& inputs,
                    const std::optional<py::function>& logits, const std::optional<py::function>& loss) {
  if (logits.has_value() == loss.has_value())
    throw_error("{} has {}; one of logits= and loss= expected", name,
                loss ? "logits and a loss" : "neither logits nor loss");
  OwnModel model{.record = {.family = name, .inputs = tensors_of(name, inputs)}};
  const bool makes_loss = loss.has_value();
  const py::function function = makes_loss ? *loss : *logits;
  if (!makes_loss && model.record.inputs.size() != 2)
    throw_error("{} has logits and {} inputs; two expected: what logits are made of, and the targets", name,
                model.record.inputs.size());
  // Even numbers of rows, so that functions may halve them.
  constexpr int64_t kRows = 4, kOther = 6, kThird = 10;
  Notes notes = notes_of(model.record, function, makes_loss, kRows);
  fit_sizes(notes, notes_of(model.record, function, makes_loss, kOther), kRows, kOther, name);
  check_sizes(notes, notes_of(model.record, function, makes_loss, kThird), kThird, name);
  model.notes = std::make_shared<const Notes>(std::move(notes));
  if (makes_loss) {
    model.record.loss = [notes = model.notes](Network& network, const ModelOptions&,
                                              std::span<const ValueId> values) {
      const std::vector<ValueId> made = notes->play(network, {values.begin(), values.end()});
      return Loss{made[0], made[1]};
    };
  } else {
    model.record.logits = [notes = model.notes](Network& network, const ModelOptions&, ValueId x) {
      return notes->play(network, {x})[0];
    };
  }
  return model;
}

}  // namespace

void bind_model(py::module_& module) {
  py::class_<Init>(module, "Init", "How a parameter starts.")
      .def_static("zeros", &Init::zeros)
      .def_static("ones", &Init::ones)
      .def_static("normal", &Init::normal, py::arg("deviation"))
      .def_static("uniform", &Init::uniform, py::arg("bound"));
  bind_value(module);
  bind_network(module);
  py::class_<OwnModel, std::shared_ptr<OwnModel>>(
      module, "Model",
      "A model of your own. `inputs` names the tensors of a batch with the format and shape of one sample. Of the two, "
      "`logits(net, x)` returns a Value from the first input, and the loss is the cross entropy with the second; "
      "`loss(net, *inputs)` returns what net.cross_entropy or net.squared_error gives. The function is called here, and "
      "never again.")
      .def(py::init(&make_model), py::arg("name"), py::kw_only(), py::arg("inputs"),
           py::arg("logits") = py::none(), py::arg("loss") = py::none())
      .def_property_readonly("name", [](const OwnModel& model) { return model.record.family; })
      .def("__repr__", [](const OwnModel& model) {
        std::string text = "model " + model.record.family + "\n";
        for (const NotedCall& call : model.notes->calls) text += "  " + call.text + "\n";
        return text;
      });
}

}  // namespace trireme::python
