// What a number format can hold, and what it loses: the limits beyond which rounding, swamping and underflow
// set in. All are found by trying the format's own conversion.
#pragma once

#include "trireme/base/dtype.h"

namespace trireme {

// The nearest number of f32, bf16 or f16, as a float.
float rounded_to(DType format, float value);

struct FormatLimits {
  float epsilon;           // from 1 to the next number; rounding is off by at most half of it, relatively
  float largest;           // finite
  float overflows_from;    // the smallest float that becomes infinite; infinity where none does
  float smallest_normal;   // below it, numbers lose digits
  float smallest;          // above 0
  float underflows_up_to;  // the largest float that becomes 0; 0 where none does
  float counts_up_to;      // adding 1 again and again stops here: the sum swamps what is added
};

// Throws Error if `format` is not f32, bf16 or f16.
FormatLimits limits_of(DType format);

}  // namespace trireme
