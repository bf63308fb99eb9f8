// The page as it is sent: its frame, with a table of the runs for browsers without JavaScript.
#pragma once

#include <string>
#include <string_view>

#include "trireme/dashboard/runs.h"

namespace trireme::dashboard {

std::string escaped(std::string_view text);  // for HTML
std::string summary_page(const Runs& runs, std::string_view frame);

}  // namespace trireme::dashboard
