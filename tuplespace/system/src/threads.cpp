#include "tuplespace/threads.h"

#include <pthread.h>

#include <future>
#include <vector>

namespace tuplespace {

namespace {

void* WaitAtGate(void* gate) {
  static_cast<std::shared_future<void>*>(gate)->wait();
  return nullptr;
}

}  // namespace

ThreadTrial TryThreads(std::initializer_list<ThreadGroup> groups) {
  std::promise<void> opened;
  std::shared_future<void> gate = opened.get_future().share();
  std::size_t count = 0;
  for (const ThreadGroup& group : groups) count += group.count;
  std::vector<pthread_t> threads;
  threads.reserve(count);
  int error = 0;
  for (const ThreadGroup& group : groups) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (group.stack_bytes != 0) pthread_attr_setstacksize(&attributes, group.stack_bytes);
    for (std::size_t i = 0; error == 0 && i < group.count; ++i) {
      pthread_t thread{};
      error = pthread_create(&thread, &attributes, WaitAtGate, &gate);
      if (error == 0) threads.push_back(thread);
    }
    pthread_attr_destroy(&attributes);
  }
  opened.set_value();
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  return {threads.size(), error};
}

}  // namespace tuplespace
