// Single frames of ZeroMQ messages. A signal interrupts none of these calls.
#pragma once

#include <cerrno>

#include <zmq.hpp>

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace tuplespace {

// What was written before a send is there after its receipt. libzmq is not instrumented, so the
// thread sanitizer has to be told.
inline void BeforeSend() {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(reinterpret_cast<void*>(&BeforeSend));
#endif
}
inline void AfterReceive() {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(reinterpret_cast<void*>(&BeforeSend));
#endif
}

// `flags` of zmq_msg_recv. False: with ZMQ_DONTWAIT, there is none. Throws zmq::error_t.
inline bool ReceiveFrame(zmq::socket_t& socket, zmq::message_t& frame, int flags) {
  for (;;) {
    if (zmq_msg_recv(frame.handle(), socket.handle(), flags) >= 0) {
      AfterReceive();
      return true;
    }
    if (errno == EAGAIN) return false;
    if (errno != EINTR) throw zmq::error_t();
  }
}

// Never blocks. 0, EAGAIN (there is no room) or EHOSTUNREACH (a ROUTER does not know the id).
// Throws zmq::error_t for other errors.
inline int SendFrame(zmq::socket_t& socket, zmq::message_t& frame, bool more) {
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  BeforeSend();
  for (;;) {
    if (zmq_msg_send(frame.handle(), socket.handle(), flags) >= 0) return 0;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EHOSTUNREACH) return errno;
    throw zmq::error_t();
  }
}

}  // namespace tuplespace
