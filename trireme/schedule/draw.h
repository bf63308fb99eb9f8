// A pipeline's timeline to look at.
#pragma once

#include <string>

#include "trireme/schedule/timeline.h"

namespace trireme {

// "step 33, bubble 9.09 %", with what else there is to say of the times.
std::string caption(const Timeline& line);

// A line for each stage, a character for each unit of time, `columns` at most: F0 forward of microbatch 0, B
// backward, W weight, U update, without the number where there is no room, small letters where it is not the
// stage's first chunk, points where it does nothing.
std::string draw_text(const Pipeline& pipeline, const Timeline& line, int columns = 160);

// The same as a picture: turns are coloured by their phase, paler for later chunks, with the microbatch's
// number where there is room; bubbles are what is left of a stage's grey bar; messages are thin lines from
// where they leave to where they are used. `title` is text without markup.
std::string draw_svg(const Pipeline& pipeline, const Timeline& line, const std::string& title);

}  // namespace trireme
