// The eigenvalues of a symmetric matrix, and those of its eigenvectors that are asked for.
//
// Householder's reflections make the matrix tridiagonal, implicit QL steps make that diagonal. Both are kept
// as what they were made of, and an eigenvector is a unit vector to which all are applied: n² operations
// each, so that callers that need few of them do not pay for all. However close eigenvalues are, the vectors
// are orthogonal to each other to the last digits: they are columns of one product of rotations.
//
// There is room for so many rotations; it was not seen to be filled by more than two thirds. Should it not be
// enough, `values` are what the matrix is along such orthogonal vectors (vᵀ·matrix·v), and not eigenvalues.
#pragma once

#include <cstdint>

#include "trireme/kernels/cpu/workspace.h"

namespace trireme::cpu {

class Eigen {
 public:
  // Of an n × n matrix, the rows of which are `stride` apart.
  Eigen(Workspace& space, int64_t n, int64_t stride);

  // The matrix's lower triangle, with the diagonal, is to be set before solve(); that overwrites it.
  double* matrix() { return matrix_; }
  void solve();

  const double* values() const { return diagonal_; }  // [n], in no order
  // The one of value `i`, of length 1; [n].
  void vector(int64_t i, double* v) const;

  int64_t rotations() const { return rotations_; }
  int64_t room() const;

 private:
  struct Rotation {
    double cosine, sine;
  };
  // One QL step: rotations of neighbours from last - 1 down to first.
  struct Sweep {
    int64_t first, last;
  };

  void make_tridiagonal();
  void make_diagonal();
  void step(int64_t first, int64_t last);

  int64_t n_, stride_;
  double* matrix_;  // reflectors in its rows, when it is tridiagonal
  double* halves_;  // half the square of each reflector's length; 0: there was nothing to reflect
  double* diagonal_;
  double* beside_;    // [i]: between i and i + 1
  double* products_;  // of the rows with a reflector, then what is to be taken off them
  double* taken_off_;
  Rotation* rotation_;
  Sweep* sweep_;
  int64_t rotations_ = 0, sweeps_ = 0;
};

}  // namespace trireme::cpu
