// Data of the program's own: arrays that are copied once, or samples that Python makes.
#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "python/bindings.h"
#include "python/own_model.h"
#include "trireme/data/open_data.h"

namespace trireme::python {

// What a failure of Python's code in a thread of the run is handed to; see CallingThread::keep().
class FailureKeeper {
 public:
  std::function<void(std::exception_ptr)> keep;  // null: nobody listens
};

struct DataHolder {
  std::shared_ptr<const DataSet> train, validation;  // validation: null where nothing is held out
  std::shared_ptr<FailureKeeper> failures = std::make_shared<FailureKeeper>();

  OpenedData open() const;
};

}  // namespace trireme::python
