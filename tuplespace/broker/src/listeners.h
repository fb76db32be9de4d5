// Listeners: the addresses at which a broker's socket listens, and the files of those that have
// some.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "sockets.h"

namespace tuplespace {

class Listeners {
 public:
  // `monitor` watches `router`.
  Listeners(zmq::socket_t& router, Monitor& monitor) : router_(router), monitor_(monitor) {}

  // Throws std::runtime_error with the address and why. An ipc address is this user's alone.
  void Bind(const std::string& address);
  // Does not return before the listeners are closed, which ZeroMQ does in a thread of its own: the
  // next broker can have the addresses at once.
  void Close();
  const std::vector<std::string>& endpoints() const { return endpoints_; }  // with real ports

 private:
  struct IpcFile {
    std::string path;
    dev_t device;
    ino_t inode;
  };

  void BindPrivate(const std::string& address, const std::string& path);

  zmq::socket_t& router_;
  Monitor& monitor_;
  std::vector<std::string> endpoints_;
  std::vector<IpcFile> ipc_files_;
};

}  // namespace tuplespace
