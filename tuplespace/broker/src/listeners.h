// Listeners: the addresses at which a broker's socket listens, and the files of ipc addresses.
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

  // Throws std::runtime_error with the address and the reason. Only this user can use an ipc
  // address.
  void Bind(const std::string& address);
  // Listens again at each ipc address whose file was removed, for new clients; existing connections
  // continue. Leaves an address alone that another file has taken. Checks once a second. Returns
  // lines for the log.
  std::vector<std::string> BindLost(std::int64_t now_us);
  std::int64_t NextLookUs() const;  // INT64_MAX: no call is needed
  // Returns after ZeroMQ's own thread has closed the listeners, so that the next broker can use the
  // addresses at once.
  void Close();
  const std::vector<std::string>& endpoints() const { return endpoints_; }  // with real ports

 private:
  struct IpcFile {
    std::string path;
    dev_t device;
    ino_t inode;
    int sockets = 1;  // sockets bound there; ZeroMQ keeps those without a file until the end
    bool said_lost = false;
    bool said_taken = false;
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
