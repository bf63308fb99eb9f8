// orthogonalise: modified Gram-Schmidt on the columns of a tall and narrow matrix, row by row so that memory
// is read in order. One thread: there are few columns, and all ranks do the same work.
#include <cmath>
#include <cstring>

#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace {

class Columns {
 public:
  Columns(float* data, int64_t rows, int64_t columns) : data_(data), rows_(rows), columns_(columns) {}

  double product(int64_t a, int64_t b) const {
    double sum = 0;
    for (int64_t i = 0; i < rows_; ++i) sum += static_cast<double>(at(i, a)) * at(i, b);
    return sum;
  }
  void take_off(int64_t column, int64_t other, double times) {
    for (int64_t i = 0; i < rows_; ++i)
      at(i, column) = static_cast<float>(at(i, column) - times * at(i, other));
  }
  // Makes it orthogonal to those before it and of length 1; false where hardly anything is left of it.
  bool settle(int64_t column) {
    const double before = std::sqrt(product(column, column));
    for (int64_t other = 0; other < column; ++other) take_off(column, other, product(column, other));
    const double left = std::sqrt(product(column, column));
    if (!(left > kLeast * before)) return !std::isfinite(before);  // not a number: as it is
    // Once more, because much may have been taken off and with it digits.
    for (int64_t other = 0; other < column; ++other) take_off(column, other, product(column, other));
    const double length = std::sqrt(product(column, column));
    for (int64_t i = 0; i < rows_; ++i) at(i, column) = static_cast<float>(at(i, column) / length);
    return true;
  }
  void set_unit(int64_t column, int64_t row) {
    for (int64_t i = 0; i < rows_; ++i) at(i, column) = i == row ? 1.0f : 0.0f;
  }

 private:
  static constexpr double kLeast = 1e-6;

  float& at(int64_t row, int64_t column) { return data_[row * columns_ + column]; }
  float at(int64_t row, int64_t column) const { return data_[row * columns_ + column]; }

  float* data_;
  int64_t rows_, columns_;
};

void orthogonalise(const KernelContext& context) {
  const int64_t rows = context.inputs[0].shape[0], columns = context.inputs[0].shape[1];
  float* y = context.out<float>(0);
  if (y != context.in<float>(0)) std::memcpy(y, context.in<float>(0), context.inputs[0].bytes());
  Columns matrix(y, rows, columns);
  for (int64_t column = 0; column < columns; ++column) {
    bool settled = matrix.settle(column);
    for (int64_t row = 0; row < rows && !settled; ++row) {
      matrix.set_unit(column, row);
      settled = matrix.settle(column);
    }
  }
}

}  // namespace

void add_orthogonalise(KernelTable& table) {
  table.add("orthogonalise", DType::f32, {orthogonalise});
}

}  // namespace trireme::cpu
