// What the forward and backward kernels of attention share: the shape, and which keys a query sees.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trireme/base/shape.h"
#include "trireme/ir/pieces.h"

namespace trireme::cpu {

struct AttentionShape {
  int64_t batch, queries, keys, groups, heads, width;  // heads: of queries, in each group
  Positions last;                                      // position that each query sees, if causal
  Positions key_at;                                    // positions of keys
  float scale;
  bool causal;
  int64_t line = -1;  // where a row finds its keys and values, if not in the row of the same number
  int64_t length;     // of the row of keys; those after it are padding, which nobody sees

  AttentionShape(const Shape& q, const Shape& k, const Attrs& attrs)
      : batch(q[0]),
        queries(q[1]),
        keys(k[1]),
        groups(q[2]),
        heads(q[3]),
        width(q[4]),
        last(attrs, queries, attrs.integer("offset", keys - queries)),
        key_at(Positions::of_keys(attrs, keys)),
        scale(static_cast<float>(attrs.real("scale"))),
        causal(attrs.integer("causal", 0) != 0),
        length(keys) {}

  // Row `b`, of which `lengths` says how long it is; without, it is whole.
  AttentionShape of_row(int64_t b, const int32_t* lengths) const {
    AttentionShape own = *this;
    if (lengths) own.length = std::clamp<int64_t>(lengths[b], 0, keys);
    return own;
  }

  int64_t q_stride() const { return groups * heads * width; }  // between positions
  int64_t k_stride() const { return groups * width; }
  int64_t q_offset(int64_t b, int64_t t, int64_t g, int64_t r) const {
    return (((b * queries + t) * groups + g) * heads + r) * width;
  }
  int64_t k_offset(int64_t b, int64_t s, int64_t g) const {
    return (((line < 0 ? b : line) * keys + s) * groups + g) * width;
  }
  int64_t stat_offset(int64_t b, int64_t t, int64_t g, int64_t r) const {
    return ((b * groups + g) * heads + r) * queries + t;
  }
  // The number of keys, from the first on, that query t sees.
  int64_t visible(int64_t t) const { return causal ? std::min(key_at.before(last[t] + 1), length) : length; }
  // The first query that sees a key.
  int64_t first_seeing(int64_t key) const { return causal ? last.before(key_at[key]) : 0; }
};

struct AttentionArrays {
  const float *q, *k, *v;
  float *o, *lse;
};

struct AttentionGradArrays {
  const float *grad, *q, *k, *v, *o, *lse;
  float *dq, *dk, *dv;
};

// A part of the gradient of one group: some blocks of keys against some units (blocks of queries of one
// head).
struct AttentionGradPart {
  int64_t batch, group;
  int64_t key_begin, key_end;
  int64_t unit_begin, unit_end;
  bool keys, queries;  // whether it writes dk and dv, and dq
};

// Positions cut into blocks of at most `limit`, evenly.
struct Blocks {
  Blocks(int64_t total_count, int64_t limit) : total(total_count), count((total_count + limit - 1) / limit) {}
  int64_t begin(int64_t i) const { return total * i / count; }
  int64_t size(int64_t i) const { return begin(i + 1) - begin(i); }

  int64_t total;
  int64_t count;
};

}  // namespace trireme::cpu
