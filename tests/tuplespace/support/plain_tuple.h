// A tuple that is not a task.
#pragma once

#include <string>

#include "tuplespace/messages.h"

namespace tuplespace {

inline Tuple PlainTuple(const Key& key, const std::string& text) {
  Tuple tuple;
  tuple.key = key;
  tuple.payload = Payload::Copy(text);
  return tuple;
}

}  // namespace tuplespace
