// See map_kernels.h. What is here is text alone and needs no GPU.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernels/cuda/formulas_text.h"
#include "trireme/kernels/cuda/map_kernels.h"

namespace trireme::cuda {
namespace {

constexpr std::string_view kFormulas[] = {
    "add",          "affine", "div",       "erf",  "exp",       "gelu",  "gelu_grad",
    "log",          "mul",    "neg",       "relu", "relu_grad", "rsqrt", "sigmoid",
    "sigmoid_grad", "silu",   "silu_grad", "sqrt", "sub",       "tanh",  "tanh_grad"};

// Numbers as they lie in memory, widened and rounded. NVRTC would read thousands of lines for CUDA's own
// types.
constexpr std::string_view kF32 = R"(
using T = float;
__device__ __forceinline__ float widen(T x) { return x; }
__device__ __forceinline__ T narrow(float x) { return x; }
)";
constexpr std::string_view kBf16 = R"(
using T = unsigned short;
__device__ __forceinline__ float widen(T x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }
__device__ __forceinline__ T narrow(float x) { T y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
)";
constexpr std::string_view kF16 = R"(
using T = unsigned short;
__device__ __forceinline__ float widen(T x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
__device__ __forceinline__ T narrow(float x) { T y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
)";

std::string_view format_of(DType dtype) {
  return dtype == DType::f32 ? kF32 : dtype == DType::bf16 ? kBf16 : kF16;
}

// The instructions for one element. Each result is rounded as its op alone would store it.
std::string instructions(const MapCode& code) {
  std::string text;
  int number = code.inputs;
  for (const MapCode::Instruction& one : code.instructions) {
    std::vector<std::string> arguments;
    for (int operand : one.operands) arguments.push_back(fmt::format("v{}", operand));
    if (one.op == "affine") {
      for (double value : {one.attrs.real("scale", 1), one.attrs.real("shift", 0)})
        arguments.push_back(fmt::format("static_cast<float>({:.17g})", value));
    }
    text += fmt::format("    const float v{} = widen(narrow(formula::{}({})));\n", number++, one.op,
                        fmt::join(arguments, ", "));
  }
  return text;
}

// Where element `i` of input k lies, and whether packs of it do.
std::string element(const MapForm& form, size_t k, std::string_view i) {
  if (form.periods[k] == 0) return fmt::format("x{}[{}]", k, i);
  if (form.periods[k] == 1) return fmt::format("x{}[0]", k);
  return fmt::format("x{}[({}) % {}]", k, i, form.periods[k]);
}
bool in_packs(const MapForm& form, size_t k, int64_t pack) {
  return form.periods[k] % pack == 0;
}

}  // namespace

bool has_formulas(const MapCode& code) {
  return std::ranges::all_of(code.instructions, [](const MapCode::Instruction& one) {
    return std::ranges::find(kFormulas, one.op) != std::end(kFormulas);
  });
}

std::string map_source(const MapForm& form) {
  const int64_t pack = kMapPackBytes / static_cast<int64_t>(size_of(form.dtype));
  const size_t inputs = form.periods.size(), outputs = form.code.results.size();
  std::string parameters, packs, of_pack, of_one, to_pack, stores, to_one;
  for (size_t k = 0; k < inputs; ++k) {
    parameters += fmt::format("const T* x{}, ", k);
    of_one += fmt::format("    const float v{} = widen({});\n", k, element(form, k, "i"));
    if (in_packs(form, k, pack)) {
      const std::string at = form.periods[k] == 0 ? "first" : fmt::format("first % {}", form.periods[k]);
      packs += fmt::format("    const Pack a{0} = *reinterpret_cast<const Pack*>(x{0} + {1});\n", k, at);
      of_pack += fmt::format("    const float v{0} = widen(a{0}.at[j]);\n", k);
    } else {
      of_pack += fmt::format("    const float v{} = widen({});\n", k, element(form, k, "first + j"));
    }
  }
  for (size_t o = 0; o < outputs; ++o) {
    parameters += fmt::format("T* y{}, ", o);
    packs += fmt::format("    Pack r{};\n", o);
    to_pack += fmt::format("    r{}.at[j] = narrow(v{});\n", o, form.code.results[o]);
    stores += fmt::format("    *reinterpret_cast<Pack*>(y{0} + first) = r{0};\n", o);
    to_one += fmt::format("    y{}[i] = narrow(v{});\n", o, form.code.results[o]);
  }
  const std::string work = instructions(form.code);
  return fmt::format(R"({formulas}
namespace trireme::cuda {{
{format}
struct alignas(16) Pack {{ T at[{pack}]; }};
extern "C" __global__ void __launch_bounds__({threads}) {name}({parameters}long long count) {{
  const long long first = (static_cast<long long>(blockIdx.x) * {threads} + threadIdx.x) * {pack};
  if (first + {pack} <= count) {{
{packs}#pragma unroll
    for (int j = 0; j < {pack}; ++j) {{
{of_pack}{work}{to_pack}    }}
{stores}    return;
  }}
  for (long long i = first; i < count; ++i) {{
{of_one}{work}{to_one}  }}
}}
}}  // namespace trireme::cuda
)",
                     fmt::arg("formulas", kFormulasText), fmt::arg("format", format_of(form.dtype)),
                     fmt::arg("pack", pack), fmt::arg("threads", kMapCodeThreads),
                     fmt::arg("name", kMapKernel), fmt::arg("parameters", parameters),
                     fmt::arg("packs", packs), fmt::arg("of_pack", of_pack), fmt::arg("work", work),
                     fmt::arg("to_pack", to_pack), fmt::arg("stores", stores), fmt::arg("of_one", of_one),
                     fmt::arg("to_one", to_one));
}

}  // namespace trireme::cuda
