// embedding: rows of a table by id, of any format. Its gradient sorts the tokens by id first, so that
// each row of the table is written once, by one thread, and its tokens are added in their order.
#include <algorithm>
#include <cstring>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/elementwise.h"

namespace trireme::cpu {
namespace {

void embedding(const KernelContext& context) {
  const TensorView& table = context.inputs[0];
  const int32_t* ids = context.in<int32_t>(1);
  const std::byte* from = static_cast<const std::byte*>(table.data);
  std::byte* to = static_cast<std::byte*>(context.outputs[0].data);
  const int64_t rows = table.shape[0], width = table.shape[1];
  const int64_t row_bytes = width * static_cast<int64_t>(size_of(table.dtype));
  const int64_t offset = context.attrs.integer("row_offset", 0);
  pool_of(context).parallel_for(context.inputs[1].elements(), row_grain(width),
                                [=](int64_t begin, int64_t end) {
                                  for (int64_t i = begin; i < end; ++i) {
                                    const int64_t row = ids[i] - offset;
                                    if (row >= 0 && row < rows) {
                                      std::memcpy(to + i * row_bytes, from + row * row_bytes, row_bytes);
                                    } else {
                                      std::memset(to + i * row_bytes, 0, row_bytes);
                                    }
                                  }
                                });
}

// Tokens in the order of their rows: those of row r are order[starts[r] … starts[r + 1]). Tokens of rows
// that are not in the table are left out.
struct TokensByRow {
  int32_t* starts;  // [rows + 1]
  int32_t* order;   // [tokens]

  static size_t bytes(int64_t rows, int64_t tokens) { return (rows + 1 + tokens) * sizeof(int32_t); }

  TokensByRow(std::byte* memory, int64_t rows, const int32_t* ids, int64_t tokens, int64_t offset)
      : starts(reinterpret_cast<int32_t*>(memory)), order(starts + rows + 1) {
    const auto for_tokens = [&](const auto& visit) {
      for (int64_t i = 0; i < tokens; ++i) {
        const int64_t row = ids[i] - offset;
        if (row >= 0 && row < rows) visit(i, row);
      }
    };
    std::fill_n(starts, rows + 1, 0);
    for_tokens([&](int64_t, int64_t row) { ++starts[row]; });
    int32_t total = 0;
    for (int64_t row = 0; row <= rows; ++row) total += std::exchange(starts[row], total);
    // Placing the tokens moves each start to the next row's, so they are moved back by one at the end.
    for_tokens([&](int64_t i, int64_t row) { order[starts[row]++] = static_cast<int32_t>(i); });
    std::copy_backward(starts, starts + rows, starts + rows + 1);
    starts[0] = 0;
  }
};

void embedding_grad(const KernelContext& context) {
  const float* dy = context.in<float>(0);
  float* dtable = context.out<float>(0);
  const int64_t rows = context.outputs[0].shape[0], width = context.outputs[0].shape[1];
  const TokensByRow tokens(context.workspace, rows, context.in<int32_t>(1), context.inputs[1].elements(),
                           context.attrs.integer("row_offset", 0));
  pool_of(context).parallel_for(rows, row_grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = dtable + row * width;
      std::fill_n(to, width, 0.0f);
      for (int32_t i = tokens.starts[row]; i < tokens.starts[row + 1]; ++i) {
        const float* from = dy + tokens.order[i] * width;
        for (int64_t k = 0; k < width; ++k) to[k] += from[k];
      }
    }
  });
}

size_t embedding_grad_workspace(const KernelShape& shape) {
  return TokensByRow::bytes(shape.outputs[0].shape[0], shape.inputs[1].shape.elements());
}

}  // namespace

void add_embedding(KernelTable& table) {
  add_for_all_formats(table, "embedding", {embedding});
  table.add("embedding_grad", DType::f32, {embedding_grad, embedding_grad_workspace});
}

}  // namespace trireme::cpu
