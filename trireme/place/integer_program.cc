#include "trireme/place/integer_program.h"

namespace trireme::place {

int IntegerProgram::add_variable(double cost, double most, bool whole) {
  cost_.push_back(cost);
  most_.push_back(most);
  whole_.push_back(whole);
  return static_cast<int>(cost_.size()) - 1;
}

void IntegerProgram::add_row(double least, double most, const std::vector<Term>& terms) {
  rows_.push_back({least, most, terms});
}

}  // namespace trireme::place
