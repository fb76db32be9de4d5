#include "space_place.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "child_watch.h"
#include "tuplespace/broker.h"

namespace acan::bench {
namespace {

namespace ts = tuplespace;

class BrokerThread : public Server {
 public:
  BrokerThread(zmq::context_t& context, const std::string& endpoint)
      : broker_(At(context, endpoint)) {
    endpoint_ = endpoint;
    thread_ = std::thread([this] { broker_.Run(); });
  }
  ~BrokerThread() override {
    broker_.Stop();
    thread_.join();
  }

 private:
  static ts::BrokerOptions At(zmq::context_t& context, const std::string& endpoint) {
    ts::BrokerOptions options;
    options.listen = {endpoint};
    options.context = &context;
    return options;
  }
  ts::Broker broker_;
  std::thread thread_;
};

// Sends each message back, or to the client that its first frame names. One frame of one byte ends
// the loop.
void Forward(zmq::socket_t& router) {
  std::vector<zmq::message_t> frames;
  for (;;) {
    frames.clear();
    do {
      if (!router.recv(frames.emplace_back())) frames.pop_back();
    } while (frames.empty() || frames.back().more());
    if (frames.size() == 2 && frames.back().size() == 1) return;
    const std::size_t first = frames.size() == 3 ? 1 : 0;  // [from, to, bytes] or [from, bytes]
    router.send(frames[first], zmq::send_flags::sndmore);
    router.send(frames[first + 1], zmq::send_flags::none);
  }
}

class ForwardThread : public Server {
 public:
  ForwardThread(zmq::context_t& context, const std::string& endpoint)
      : context_(context), router_(context, zmq::socket_type::router) {
    router_.bind(endpoint);
    endpoint_ = endpoint;
    thread_ = std::thread([this] { Forward(router_); });
  }
  ~ForwardThread() override {
    zmq::socket_t dealer(context_, zmq::socket_type::dealer);
    dealer.connect(endpoint_);
    dealer.send(zmq::str_buffer("x"), zmq::send_flags::none);
    thread_.join();
  }

 private:
  zmq::context_t& context_;
  zmq::socket_t router_;
  std::thread thread_;
};

class Forked : public Server {
 public:
  // `serve` runs in the child: it binds, writes the endpoint to the descriptor, and serves.
  explicit Forked(const std::function<void(int)>& serve) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("the benchmark cannot make a pipe");
    ChildWatch::Begin();
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("the benchmark cannot fork a broker process");
    if (pid_ == 0) {
      ChildWatch::Forget();
      close(ends[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      try {
        serve(ends[1]);
      } catch (const std::exception&) {
        _exit(1);  // the parent sees the pipe end
      }
      _exit(0);
    }
    close(ends[1]);
    std::array<char, 512> buffer;
    for (ssize_t got; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
      endpoint_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    close(ends[0]);
    if (endpoint_.empty()) throw std::runtime_error("the benchmark's broker process did not start");
  }
  ~Forked() override {
    const ChildWatch::MayEnd may_end;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  static void Announce(int fd, const std::string& endpoint) {
    [[maybe_unused]] const auto written = write(fd, endpoint.data(), endpoint.size());
    close(fd);
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace

ts::BrokerAccess Keys::ForBroker() const {
  const ts::Pattern everything{{ts::FieldPattern::Any()}, true};
  return {
      broker,
      {{"all",
        {{{ts::Operation::kRead, ts::Operation::kPut, ts::Operation::kRetire}, everything, {}}}}},
      {{"bench", client.public_key, "all"}}};
}

ts::ClientAccess Keys::ForClient() const {
  return {"bench", client, broker.public_key};
}

Place::Place(const std::string& transport, std::optional<Keys> keys)
    : transport_(transport), keys_(std::move(keys)) {
  if (transport != "inproc" && transport != "ipc" && transport != "tcp") {
    throw std::invalid_argument("transport \"" + transport +
                                "\" is unknown; inproc, ipc and tcp are known");
  }
}

std::unique_ptr<Server> Place::StartBroker() {
  const std::string endpoint = NextEndpoint();
  if (transport_ == "inproc") return std::make_unique<BrokerThread>(context_, endpoint);
  return std::make_unique<Forked>([&](int ready) {
    ts::BrokerOptions options;
    options.listen = {endpoint};
    if (keys_) options.access = keys_->ForBroker();
    ts::Broker broker(options);
    Forked::Announce(ready, broker.endpoints().front());
    broker.Run();
  });
}

std::unique_ptr<Server> Place::StartForwarder() {
  const std::string endpoint = NextEndpoint();
  if (transport_ == "inproc") return std::make_unique<ForwardThread>(context_, endpoint);
  return std::make_unique<Forked>([&](int ready) {
    zmq::context_t context;
    zmq::socket_t router(context, zmq::socket_type::router);
    router.bind(endpoint);
    Forked::Announce(ready, router.get(zmq::sockopt::last_endpoint));
    Forward(router);
  });
}

std::unique_ptr<ts::Client> Place::Connect(const Server& server,
                                           std::shared_ptr<ts::SharedPool> pool,
                                           bool shared_memory) {
  ts::ClientOptions options;
  options.endpoint = server.endpoint();
  options.name = "benchmark";
  options.pool = std::move(pool);
  options.shared_memory = shared_memory;
  if (keys_) options.access = keys_->ForClient();
  // Over ipc and tcp, every client has its own context, as separate processes have.
  if (transport_ == "inproc") options.context = &context_;
  return std::make_unique<ts::Client>(options);
}

std::string Place::NextEndpoint() {
  if (transport_ == "tcp") return "tcp://127.0.0.1:*";
  const std::string name = "s" + std::to_string(++servers_);
  return transport_ == "ipc" ? folder_.Endpoint(name) : "inproc://" + name;
}

}  // namespace acan::bench
