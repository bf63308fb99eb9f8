// A line drawn with characters, for terminals.
#pragma once

#include <string>
#include <vector>

namespace trireme::cli {

struct CurvePoint {
  double x = 0;
  double y = 0;
};

// `line` as '*', averaged where several points share a column, `marks` as 'o' above it. Points that are not
// finite are left out. "" when there is nothing to draw.
std::string draw_curve(const std::vector<CurvePoint>& line, const std::vector<CurvePoint>& marks,
                       int width = 72, int height = 14);

}  // namespace trireme::cli
