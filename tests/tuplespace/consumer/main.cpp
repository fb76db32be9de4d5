// A manager, a handler and their broker in one small program, with the installed headers only.
#include <cstdio>
#include <string>
#include <thread>

#include <tuplespace/broker.h>
#include <tuplespace/client.h>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: consumer ENDPOINT\n");
    return 2;
  }
  tuplespace::BrokerOptions broker_options;
  broker_options.listen = {argv[1]};
  tuplespace::Broker broker(broker_options);
  std::thread serving([&] { broker.Run(); });

  std::string answer;
  {
    tuplespace::ClientOptions options;
    options.endpoint = argv[1];
    tuplespace::Client manager(options);
    tuplespace::Client handler(options);
    tuplespace::Tuple task;
    task.key = tuplespace::Key{"square", 12};
    task.task.emplace();
    task.task->results = {tuplespace::Key{"squared", 12}};
    manager.Put({task});

    tuplespace::Get get;
    get.pattern.fields = {tuplespace::FieldPattern::Exact(std::string("square")),
                          tuplespace::FieldPattern::Any()};
    for (const tuplespace::Grant& grant : handler.GetSome(get)) {
      const auto number = std::get<std::int64_t>(grant.key.Fields()[1]);
      tuplespace::Tuple result;
      result.key = tuplespace::Key{"squared", number};
      result.payload = tuplespace::Payload::Copy(std::to_string(number * number));
      handler.CompleteTask({grant.key, grant.fence}, {result});
    }
    const auto found = manager.ReadOne(tuplespace::Pattern::Of(tuplespace::Key{"squared", 12}));
    if (found) answer = found->payload.text();
  }
  broker.Stop();
  serving.join();
  std::printf("12 squared is %s\n", answer.c_str());
  return answer == "144" ? 0 : 1;
}
