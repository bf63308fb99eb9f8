// Everything that any part of the system must know about an op, in one record: index rule, type rule,
// gradient, cost. The records stand in ops/; kernels are bound to the same names in kernels/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/ir/collective.h"
#include "trireme/ir/index_rule.h"

namespace trireme {

class Builder;
class GradBuilder;
class RingBuilder;
using ValueId = int;
inline constexpr ValueId kNoValue = -1;

// The dtype of one operand. kFormat: the number format of the instance, which all such operands share.
enum class DTypeRule { kFormat, kF32, kI32, kI64, kU8, kAny };

// Why an op has no gradient. Written down, never implied by absence.
struct NotDifferentiable {
  std::string_view reason;
};
// Adds the backward nodes and returns one gradient per input; kNoValue where an input has none.
using GradientRule = std::vector<ValueId> (*)(GradBuilder&);

struct Cost {
  double flops = 0;
  double bytes = 0;  // least traffic to memory: each operand once
};

// Output `output` may be written over input `input`, element by element.
struct InPlace {
  int output;
  int input;
};

struct OpRecord {
  std::string_view name;
  IndexRule (*index)(const OpInstance&) = nullptr;
  // Dtypes of operands in order; operands past the end of a list are kFormat.
  std::vector<DTypeRule> inputs = {};
  std::vector<DTypeRule> outputs = {};
  // Attributes that must be there and be numbers. What else an op demands of them, `index` checks.
  std::vector<std::string_view> numbers = {};
  // For the one kind of op whose result format is an attribute (cast); null otherwise.
  DType (*output_dtype)(const OpInstance&) = nullptr;
  std::variant<NotDifferentiable, GradientRule> gradient = NotDifferentiable{"not stated"};
  // Which results a gradient may come in through. kFirst: the others are statistics for the backward op.
  enum class Results { kFirst, kAll } differentiable = Results::kFirst;
  double (*flops)(const OpInstance&,
                  const IndexRule&) = nullptr;  // null: one per element of the largest operand
  std::vector<InPlace> in_place = {};
  // The output is the input's memory under another shape; nothing is computed.
  enum class Memory { kOwn, kShared } memory = Memory::kOwn;
  // Of a collective: all ranks along the mesh axis that its attribute `axis` names run it together. It sends
  // in the call or, where that is taken apart in time, in its start.
  struct Collective {
    CollectiveKind kind;
    enum class Phase { kCall, kStart, kWait } phase = Phase::kCall;
    bool sends() const { return phase != Phase::kWait; }
  };
  std::optional<Collective> collective = {};
  // A collective that may be under way while other nodes run: the ops that start it and wait for it. What a
  // start makes is undefined until the wait, which alone may read it.
  struct InTime {
    std::string_view start = "", wait = "";       // "": it may not
    bool (*allows)(const OpInstance&) = nullptr;  // null: all instances
    // That one start takes, kMost at most. kOneHere: one, started where it stands and no earlier, so that
    // what was passed on does not lie in memory long before it is read.
    enum class Tensors { kOne, kMany, kOneHere } tensors = Tensors::kOne;
    static constexpr int kMost = 64;
  } in_time = {};
  // Whether the op is linear in all its inputs together: inputs that are sums of parts then give results that
  // are sums of parts, so nothing needs to be added up before it. Null: it is not.
  bool (*linear)(const OpInstance&) = nullptr;
  // The same results from smaller ops that can be split in more ways, at the price of more passes over
  // memory; used where a plan splits them so (passes/expand.h). `name` is that of the first result; what is
  // made on the way is named after it. Null: there are none.
  std::vector<ValueId> (*expand)(Builder& builder, const std::vector<ValueId>& inputs, const Attrs& attrs,
                                 const std::string& name) = nullptr;
  // Adjusts the attributes for the part [begin, end) of index `index` when the op is split along it, for
  // ops whose attributes speak of extents or positions. Null: the attributes hold for any part.
  void (*localize)(Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t end) = nullptr;
  // Whether a part may as well be pieces of several blocks. kPositions: no, it is one run. kExtents: yes,
  // since `localize` looks at end − begin alone. kPieces: yes, where they are equal and equally far apart;
  // `localize` is given the first of them, and the attributes of ir/pieces.h tell of the others.
  enum class Localizes { kPositions, kExtents, kPieces } localizes = Localizes::kPositions;
  // Of an op that mixes the positions of a sequence: the index of its heads, which do not mix. What is split
  // by positions may be split by heads for it, and back (Pins::by_heads). "": there is none.
  std::string_view heads = "";
  // Of an op on images: the same op with channels last (ir/channels_last.h), in all operands of four dims. A
  // device may compute it at less cost (passes/channels_last.h).
  struct ChannelsLast {
    std::string_view op = "";  // "": there is none
    enum class Makes { kImages, kWeights } makes = Makes::kImages;
    enum class When { kAlways, kFollowing } when = When::kFollowing;  // kFollowing: others made images lie so
  } channels_last = {};
  // Of an op that takes some inputs whole of which ranks along an axis have parts: the same with those parts
  // passed round a ring, so that no rank has all of them (passes/ring.h). Results are those of the op, but of
  // what is an addend on each rank, `returns`, this rank's part of the sum.
  struct Ring {
    std::vector<int> travels = {}, returns = {};             // inputs; outputs
    std::vector<ValueId> (*make)(RingBuilder& r) = nullptr;  // null: there is none
  } ring = {};
  // The op whose speed on a device it has, being computed by the same kernels. "": by its own name.
  std::string_view timed_as = "";
};

// Whether the op may be given pieces of an index as its part, rather than one run.
inline bool takes_pieces(const OpRecord& op) {
  return !op.localize || op.localizes != OpRecord::Localizes::kPositions;
}

// The types of the results; throws an Error in the words of the rule when the inputs do not fit.
std::vector<TensorType> infer_types(const OpRecord& op, const std::vector<TensorType>& inputs,
                                    const Attrs& attrs);
Cost cost_of(const OpRecord& op, const std::vector<TensorType>& inputs, const Attrs& attrs);
// The same where the types of the results are known.
Cost cost_of(const OpRecord& op, const std::vector<TensorType>& inputs,
             const std::vector<TensorType>& outputs, const Attrs& attrs);
// Bytes that a rank sends in a node of this op; 0 for all but collectives, and for their waits.
double bytes_sent(const OpRecord& op, const std::vector<TensorType>& inputs,
                  const std::vector<TensorType>& outputs, const Attrs& attrs);

// The closed set of ops, by name.
class OpTable {
 public:
  void add(OpRecord record);
  const OpRecord* find(std::string_view name) const;  // null when there is none
  const OpRecord& at(std::string_view name) const;    // an Error with the nearest name otherwise
  std::vector<std::string> names() const;

 private:
  std::map<std::string, OpRecord, std::less<>> records_;
};

}  // namespace trireme
