// Listeners: the addresses at which a broker's socket listens, and the files of those that have
// some.
#pragma once

#include <sys/types.h>

#include <cstdint>
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
  // Listens again at each ipc address whose file somebody removed, for whoever comes next: those
  // that are connected stay so. Looks once a second. Returns what is to be said of it.
  std::vector<std::string> BindLost(std::int64_t now_us);
  std::int64_t NextLookUs() const;  // INT64_MAX: it need not be called
  // Does not return before the listeners are closed, which ZeroMQ does in a thread of its own: the
  // next broker can have the addresses at once.
  void Close();
  const std::vector<std::string>& endpoints() const { return endpoints_; }  // with real ports

 private:
  struct IpcFile {
    std::string path;
    dev_t device;
    ino_t inode;
    int sockets = 1;  // that were bound there: ZeroMQ keeps those whose file is gone until the end
    bool said_lost = false;
  };

  void BindPrivate(const std::string& address, const std::string& path);
  std::string BindAgain(IpcFile& file);

  zmq::socket_t& router_;
  Monitor& monitor_;
  std::vector<std::string> endpoints_;
  std::vector<IpcFile> ipc_files_;
  std::int64_t look_us_ = 0;
};

}  // namespace tuplespace
