// What a server and its workers run (plan/agreement.h): segments that put gradients and weights into messages
// and take them out again, and lists of actions, of which the two ends of a message have the same name.
//
//   worker      step       forward and backward alone
//               push R     gradients, running statistics, loss, count and whether it is asked to stop into
//                          one message, to the server
//               pull R     weights and running statistics from there, and whether the run is over
//   server      push R     the message from rank R, into a slot of its own
//               step       what the slots have added up, the update, weights into one message
//               pull R     that message to rank R
//               give       that message anew, where it says something else than before
//               meet       weights of all others to the first of several servers, which evaluates
//
// Of several servers each has an update of some parameters, and a worker as many messages.
// A worker runs its two in every step. In which order the server runs those of all workers is for it to
// say: as messages come (arrival_policy.h).
#pragma once

#include <string>

#include "trireme/exchange/agreement_record.h"
#include "trireme/plan/agreement.h"

namespace trireme {

// Of a server: the number of the slot into which the message of a worker (counted from 0) of a step comes, of
// as many as server_slots().
int server_slots(const Servers& servers);
int push_slot(const Servers& servers, int worker, int64_t step);

std::string push_state(int server);
inline constexpr std::string_view kOver = "over";  // input of `give`, output of `pull`: of these
inline constexpr float kGoesOn = 0, kIsThrough = 1, kIsStopped = 2;
inline constexpr std::string_view kAsked = "asked";  // input of `push`: 0, or this worker is asked to stop

}  // namespace trireme
