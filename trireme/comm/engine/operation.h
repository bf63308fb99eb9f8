// Operation: one call under way on one rank. Kept and used again by the recipe it belongs to.
#pragma once

#include <cstdint>
#include <memory>

#include "trireme/comm/engine/recipe.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

class Engine;
struct RecipePage;

class Operation {
 public:
  enum class State : uint8_t { idle, running, finished, failed };

  Operation(Engine& of, RecipePage& on, const Recipe& what) : engine(of), page(on), recipe(what) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // `output` is data but for all_to_all. Does what can be done at once.
  virtual void start(std::byte* data, std::byte* output) = 0;
  // Does what can be done without waiting; true when that was anything.
  virtual bool progress() = 0;
  bool complete() const { return complete_; }

  Engine& engine;
  RecipePage& page;
  const Recipe& recipe;
  State state = State::idle;
  Label label;
  uint64_t start_ticks = 0;
  uint64_t end_ticks = 0;
  uint64_t movements = 0;         // how often progress() found something to do: whether it still lives
  uint32_t record = 0;            // of the recorder
  Operation* previous = nullptr;  // among the live ones of the transport
  Operation* next = nullptr;      // there, or among the idle ones of the recipe

 protected:
  bool complete_ = false;
};

// By Steps, on the messages of the transport.
std::unique_ptr<Operation> make_steps_run(Engine& engine, RecipePage& page, Transport& transport);
// By the transport's own way.
std::unique_ptr<Operation> make_native_run(Engine& engine, RecipePage& page, Native& native);

}  // namespace trireme::comm
