// An operation that the transport runs in its own way.
#include "trireme/comm/engine/operation.h"
#include "trireme/comm/engine/recipe_book.h"

namespace trireme::comm {
namespace {

class NativeRun final : public Operation {
 public:
  NativeRun(Engine& of, RecipePage& on, Native& native) : Operation(of, on, on.recipe), native_(native) {}

  void start(std::byte* data, std::byte*) override {
    operation_ = {.done = false,
                  .sequence = static_cast<uint32_t>(label.stream),
                  .call = label.call,
                  .data = data,
                  .bytes = recipe.bytes};
    native_.start(operation_);
    complete_ = operation_.done;
  }

  bool progress() override {
    const bool moved = native_.progress(operation_);
    complete_ = operation_.done;
    return moved || complete_;
  }

 private:
  Native& native_;
  NativeOperation operation_;
};

}  // namespace

std::unique_ptr<Operation> make_native_run(Engine& engine, RecipePage& page, Native& native) {
  return std::make_unique<NativeRun>(engine, page, native);
}

}  // namespace trireme::comm
