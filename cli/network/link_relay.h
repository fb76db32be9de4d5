// LinkRelay: relays bytes between clients and a broker until a link is cut.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <random>
#include <string>
#include <thread>

namespace acan::cli {

class LinkRelay {
 public:
  // Listens immediately, on "ipc://PATH" or a free port of 127.0.0.1 ("tcp://127.0.0.1:*"), and
  // connects to `broker` (ipc:// or tcp://ADDRESS:PORT) once for each client. Throws Error
  // (failure).
  LinkRelay(const std::string& listen, const std::string& broker);
  ~LinkRelay();  // cuts all links for good
  LinkRelay(const LinkRelay&) = delete;
  LinkRelay& operator=(const LinkRelay&) = delete;

  const std::string& endpoint() const { return endpoint_; }  // for clients

  enum class Afterwards : std::uint8_t {
    kGoOn,   // bytes sent meanwhile arrive late, as after a plug was pulled and put back
    kReset,  // both ends see the connection end, and bytes on their way are lost
  };
  // Stops all bytes for `pause` on one link, drawn with `random`. False if there is no link. CutAll
  // does so on all links. Thread safe.
  bool Cut(std::chrono::milliseconds pause, Afterwards afterwards, std::mt19937_64& random);
  void CutAll(std::chrono::milliseconds pause, Afterwards afterwards);

 private:
  using Clock = std::chrono::steady_clock;
  struct Direction {
    std::string bytes;  // read but not relayed yet
    std::size_t sent = 0;
    bool ended = false;  // the sender will send no more
  };
  struct Link {
    int client_fd = -1, broker_fd = -1;
    Direction to_broker, to_client;
    Clock::time_point cut_until{};
    bool reset = false;
  };

  void Run();
  void Accept();
  // A connection to the broker, established or in progress; negative if there is none, with errno
  // set.
  int Connect() const;
  static bool Pass(int from, int to, bool readable, Direction& direction);
  static void Close(Link& link);
  static void CutLink(Link& link, std::chrono::milliseconds pause, Afterwards afterwards);
  void Wake() const;

  sockaddr_storage broker_{};
  socklen_t broker_size_ = 0;
  std::string endpoint_;
  int listen_fd_ = -1, wake_fd_ = -1;
  std::mutex mutex_;  // guards what follows
  std::list<Link> links_;
  Clock::time_point accept_at_{};  // no client is accepted before this time
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace acan::cli
