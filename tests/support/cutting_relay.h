// A slow link between clients and a broker that may break in the middle of a message. It forwards
// bytes in small pieces through small buffers, at a limited rate if asked to. After a given number
// of bytes, all connections end with a reset.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace tuplespace {

// How often a test loses each link: 20 times, or as often as the environment variable
// ACAN_BROKEN_LINKS says.
inline int Losses() {
  const char* text = std::getenv("ACAN_BROKEN_LINKS");
  return text == nullptr ? 20 : std::atoi(text);
}

class CuttingRelay {
 public:
  // `broker`: tcp://ADDRESS:PORT.
  explicit CuttingRelay(const std::string& broker)
      : broker_port_(static_cast<std::uint16_t>(std::stoi(broker.substr(broker.rfind(':') + 1)))),
        listen_fd_(NewSocket()),
        told_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    if (bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listen_fd_, 16) != 0 ||
        getsockname(listen_fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      ADD_FAILURE() << "the relay cannot listen";
    }
    endpoint_ = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { Run(); });
  }
  ~CuttingRelay() {
    stopping_ = true;
    Tell();
    thread_.join();
    CloseAll();
    close(listen_fd_);
    close(told_fd_);
  }
  CuttingRelay(const CuttingRelay&) = delete;
  CuttingRelay& operator=(const CuttingRelay&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // Number of bytes forwarded in both directions.
  std::uint64_t passed() const { return passed_; }
  // Ends all connections when `bytes` bytes have passed; later connections are not cut.
  void CutAt(std::uint64_t bytes) {
    cut_at_ = bytes;
    Tell();
  }
  bool has_cut() const { return has_cut_; }
  // From now on, forwards at most this many bytes per second, of both directions together.
  void LimitTo(std::uint64_t bytes_per_second) { bytes_per_second_ = bytes_per_second; }
  // Drops everything that the broker sends, until all connections are cut.
  void DropAnswers() { drops_answers_ = true; }

 private:
  static constexpr int kBufferBytes = 8 << 10;
  static constexpr std::size_t kPieceBytes = 4 << 10;
  static constexpr unsigned kMaxPauseUs = 600;
  static constexpr std::chrono::milliseconds kTurn{5};  // of a limited rate

  struct Direction {
    std::array<char, kPieceBytes> bytes;
    std::size_t begin = 0, end = 0;
  };
  struct Link {
    int client = -1, broker = -1;
    Direction to_broker, to_client;
  };

  // Makes the thread look at what has changed, though nothing passes.
  void Tell() const {
    const std::uint64_t one = 1;
    static_cast<void>(!write(told_fd_, &one, sizeof(one)));
  }
  void HearWhatChanged() const {
    std::uint64_t count = 0;
    static_cast<void>(!read(told_fd_, &count, sizeof(count)));
  }
  static sockaddr_in Loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static int NewSocket() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int bytes = kBufferBytes, one = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
  }
  // Closes with a reset, which drops the bytes under way.
  static void Reset(int fd) {
    const linger reset{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fd);
  }
  void CloseAll() {
    for (const Link& link : links_) {
      Reset(link.client);
      Reset(link.broker);
    }
    links_.clear();
  }

  void Accept() {
    const int client = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int broker = NewSocket();
    const sockaddr_in address = Loopback(broker_port_);
    if (connect(broker, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      close(broker);
      Reset(client);
      return;
    }
    fcntl(client, F_SETFL, O_NONBLOCK);
    fcntl(broker, F_SETFL, O_NONBLOCK);
    links_.emplace_back();
    links_.back().client = client;
    links_.back().broker = broker;
  }

  // Returns false if an end has closed.
  bool Pass(int from, int to, Direction& direction, bool drops = false) {
    if (direction.begin == direction.end) {
      const ssize_t got = recv(from, direction.bytes.data(), direction.bytes.size(), 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
      direction.begin = 0;
      direction.end = got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    if (drops) direction.begin = direction.end;
    if (direction.begin == direction.end) return true;
    const ssize_t put = send(to, direction.bytes.data() + direction.begin,
                             direction.end - direction.begin, MSG_NOSIGNAL);
    if (put < 0) return errno == EAGAIN;
    direction.begin += static_cast<std::size_t>(put);
    passed_ += static_cast<std::uint64_t>(put);
    return true;
  }

  // Whether the rate is limited and the bytes of this turn have passed.
  bool MustPause() {
    const std::uint64_t rate = bytes_per_second_;
    if (rate == 0) return false;
    const auto now = std::chrono::steady_clock::now();
    if (now >= turn_begin_ + kTurn) {
      turn_begin_ = now;
      passed_before_turn_ = passed_;
    }
    return (passed_ - passed_before_turn_) * 1000 >= rate * kTurn.count();
  }

  void Run() {
    while (!stopping_) {
      // A deliberate delay that waits for nothing: it makes the link slow.
      if (MustPause()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      std::vector<pollfd> items{{listen_fd_, POLLIN, 0}, {told_fd_, POLLIN, 0}};
      for (const Link& link : links_) {
        const auto events = [](const Direction& in, const Direction& out) {
          return static_cast<short>((in.begin == in.end ? POLLIN : 0) |
                                    (out.begin == out.end ? 0 : POLLOUT));
        };
        items.push_back({link.client, events(link.to_broker, link.to_client), 0});
        items.push_back({link.broker, events(link.to_client, link.to_broker), 0});
      }
      if (poll(items.data(), items.size(), -1) < 0) continue;
      if (items[1].revents != 0) HearWhatChanged();
      for (auto link = links_.begin(); link != links_.end();) {
        const bool open = Pass(link->client, link->broker, link->to_broker) &&
                          Pass(link->broker, link->client, link->to_client,
                               /*drops=*/drops_answers_ && !has_cut_);
        if (!open) {
          // A deliberate delay that waits for nothing: its length varies what the other side is
          // doing when its connection ends.
          std::this_thread::sleep_for(std::chrono::microseconds(random_() % kMaxPauseUs));
          Reset(link->client);
          Reset(link->broker);
        }
        link = open ? std::next(link) : links_.erase(link);
        if (!has_cut_ && passed_ >= cut_at_) {
          has_cut_ = true;
          CloseAll();
          break;
        }
      }
      if (items[0].revents != 0) Accept();
    }
  }

  const std::uint16_t broker_port_;
  const int listen_fd_;
  const int told_fd_;
  std::string endpoint_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> has_cut_{false};
  std::atomic<bool> drops_answers_{false};
  std::atomic<std::uint64_t> passed_{0};
  std::atomic<std::uint64_t> cut_at_{UINT64_MAX};
  std::atomic<std::uint64_t> bytes_per_second_{0};  // 0: without a limit
  std::uint64_t passed_before_turn_ = 0;
  std::chrono::steady_clock::time_point turn_begin_;
  std::list<Link> links_;
  std::minstd_rand random_;
  std::thread thread_;
};

}  // namespace tuplespace
