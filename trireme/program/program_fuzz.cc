// Programs from bytes of any kind: refused with an Error, or read; what was read prints to text that parses
// to itself, and the verifier accepts it or says what is wrong, alone and as the only rank of its mesh.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/ops/table.h"
#include "trireme/program/program.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  Program program;
  try {
    program = parse_program({reinterpret_cast<const char*>(data), size}, ops());
  } catch (const Error&) {
    return 0;
  }
  // Outside a try: a refusal of our own text is a finding.
  const std::string text = print(program);
  if (print(parse_program(text, ops())) != text) std::abort();
  try {
    verify(program);
    verify(std::span(&program, 1));
  } catch (const Error&) {
  }
  return 0;
}
