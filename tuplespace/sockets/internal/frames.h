// Single frames of ZeroMQ messages. These calls continue after a signal.
#pragma once

#include <cerrno>

#include <zmq.hpp>

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace tuplespace {

// Tells the thread sanitizer that what was written before a send is visible after its receipt, as
// libzmq is not instrumented.
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

// `flags` are those of zmq_msg_recv. False: there is no frame, only with ZMQ_DONTWAIT. Throws
// zmq::error_t.
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

// Never blocks. Returns 0, EAGAIN (there is no room) or EHOSTUNREACH (a ROUTER does not know the
// id). Throws zmq::error_t for other errors.
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
