// Why a rank ends, told to the launcher that started it: the launcher says it once, where every rank would
// say the same or how the failure of another looks from its side.
#pragma once

#include <string>
#include <string_view>

namespace trireme::comm {

struct LastWords {
  enum class Kind : char {
    cause = 'c',  // this rank's own failure
    echo = 'e',   // what another rank's failure looks like from here
    order = 'o',  // no failure: all ranks end so, and rank 0 has said why; the text is not shown
    again = 'a',  // no failure: the ranks end because the launcher asked them to, to be started again
  } kind = Kind::cause;
  std::string text;  // "": nothing was said
};

// The descriptor that a rank writes to, by a variable of its environment.
inline constexpr std::string_view kLastWordsVariable = "TRIREME_LAST_WORDS_FD";

// To the launcher. False where this process has none of ours, or that does not listen: then say it yourself.
bool tell_launcher(LastWords::Kind kind, std::string_view text);
// What the rank at the other end of the pipe told; without waiting.
LastWords read_last_words(int descriptor);

}  // namespace trireme::comm
