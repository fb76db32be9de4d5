// Finds out whether this process can start threads. Some libraries, such as ZeroMQ, end the process
// by a signal if they get none.
#pragma once

#include <cstddef>
#include <initializer_list>

namespace tuplespace {

struct ThreadGroup {
  std::size_t count = 0;
  std::size_t stack_bytes = 0;  // of each; 0: the system's default
};

struct ThreadTrial {
  std::size_t started = 0;
  int error = 0;  // the errno of the first thread that was refused; 0: all were started
};

// Starts these threads, until the system refuses one, and ends them again. All of them exist at the
// same time, and do nothing.
ThreadTrial TryThreads(std::initializer_list<ThreadGroup> groups);

}  // namespace tuplespace
