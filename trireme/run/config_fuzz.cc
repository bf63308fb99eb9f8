// Settings from bytes of any kind: they are refused with an Error or resolved; and what was resolved, written
// as TOML, resolves to the same again. Input: TOML, then entries that start with NUL; an entry that
// starts with '-' belongs to the command line, any other to the environment.
#include <cstdint>
#include <cstdlib>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/run/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const auto parts = split(std::string_view(reinterpret_cast<const char*>(data), size), '\0');
  ConfigSources sources{.file = ConfigFile{"fuzz.toml", parts[0]}};
  for (size_t i = 1; i < parts.size(); ++i) {
    (parts[i].starts_with('-') ? sources.command_line : sources.environment).push_back(parts[i]);
  }
  std::string text;
  try {
    const ResolvedConfig resolved = resolve_config(sources);
    config_table(resolved);
    text = config_toml(resolved.config);
  } catch (const Error&) {
    return 0;
  }
  // Outside the try: a refusal here is a finding.
  if (config_toml(resolve_config({.file = ConfigFile{"again.toml", text}}).config) != text) std::abort();
  return 0;
}
