// A manager, a handler and their broker in one program, with the installed headers only.
#include <cstdio>
#include <string>
#include <thread>

#include <tuplespace/broker.h>
#include <tuplespace/client.h>

using namespace tuplespace;

std::string SquareOf(std::int64_t number, const std::string& endpoint) {
  Client manager({.endpoint = endpoint}), handler({.endpoint = endpoint});
  Tuple task{.key = Key{"square", number}, .payload = {}, .task = TaskSpec{}};
  task.task->results = {Key{"squared", number}};
  manager.Put({task});

  const Pattern squares{{FieldPattern::Exact("square"), FieldPattern::Any()}};
  for (const Grant& grant : handler.GetSome({.pattern = squares})) {
    const auto n = std::get<std::int64_t>(grant.key.Fields()[1]);
    const Payload result = Payload::Copy(std::to_string(n * n));
    handler.CompleteTask({grant.key, grant.fence}, {{.key = Key{"squared", n}, .payload = result}});
  }
  return std::string(manager.ReadOne(Pattern::Of(Key{"squared", number}))->payload.text());
}

int main(int argc, char** argv) {
  const std::string endpoint = argc > 1 ? argv[1] : "tcp://127.0.0.1:5556";
  Broker broker({.listen = {endpoint}});
  std::thread serving([&] { broker.Run(); });
  std::printf("12 squared is %s\n", SquareOf(12, endpoint).c_str());
  broker.Stop();
  serving.join();
}
