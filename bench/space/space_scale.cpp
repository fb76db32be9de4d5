// Does the cost of a task in the space grow with the number of handlers or of stored tuples?
// Measures the space alone, without sockets. Every task has two inputs: one that all tasks share,
// and the result of its predecessor in one of 1,000 chains. It measures processor time, which other
// load disturbs less, because the space is one thread that never waits. Each repeat runs the
// configurations of a comparison one after the other, so that the remaining disturbance affects all
// of them.
//
//   space_scale [--tasks N] [--repeats N]      prints one JSON object
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tuplespace/space.h"

namespace {

using namespace tuplespace;  // NOLINT(google-build-using-namespace): a program of one file

constexpr int kChains = 1000;
constexpr int kBatch = 1000;

struct Config {
  const char* name;
  int handlers;
  int other_tuples;
};

struct Granted {
  int handler;
  LeaseRef lease;
};

double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

class Cluster {
 public:
  explicit Cluster(const Config& config) : payload_(Payload::Copy(std::string(64, 'x'))) {
    Deliver(space_.Step(ClientJoined{"manager"}, now_us_));
    for (int i = 0; i < config.handlers; ++i) {
      names_.push_back(std::string("h").append(std::to_string(i)));
      space_.Step(ClientJoined{names_.back()}, now_us_);
    }
    // Keys between those of the results, in an order unrelated to theirs.
    Put others;
    for (int i = 0; i < config.other_tuples; ++i) {
      const auto at = static_cast<std::int64_t>(i) * 7919 % config.other_tuples;
      others.tuples.push_back(Plain(Key{"r", at, "other", i}));
      if (others.tuples.size() == kBatch || i + 1 == config.other_tuples) {
        Deliver(Ask(std::exchange(others, {})));
      }
    }
  }

  // Processor seconds for `tasks` tasks, from the first put to the last completion.
  double Run(int tasks) {
    const double begin = ProcessorSeconds();
    Put first{{Plain(Key{"s", 0})}};
    for (int i = 0; i < kChains; ++i) first.tuples.push_back(Plain(Key{"r", i - kChains}));
    Deliver(Ask(std::move(first)));
    for (int handler = 0; handler < static_cast<int>(names_.size()); ++handler) Fetch(handler);
    for (int begin_task = 0; begin_task < tasks; begin_task += kBatch) {
      Put batch;
      for (int i = begin_task; i < std::min(tasks, begin_task + kBatch); ++i) {
        batch.tuples.push_back(TaskOf(i));
      }
      Deliver(Ask(std::move(batch)));
      Work(begin_task / 2);  // stay ahead of the handlers, as a manager does
    }
    Work(tasks);
    const double took = ProcessorSeconds() - begin;
    const Stats stats = space_.GetStatistics();
    if (done_ != tasks || stats.counters.completed != static_cast<std::uint64_t>(tasks)) {
      throw std::runtime_error("only " + std::to_string(done_) + " of " + std::to_string(tasks) +
                               " tasks were completed");
    }
    return took;
  }

 private:
  Tuple Plain(Key key) const {
    Tuple tuple;
    tuple.key = std::move(key);
    tuple.payload = payload_;
    return tuple;
  }
  Tuple TaskOf(int index) const {
    Tuple tuple = Plain(Key{"t", index});
    tuple.task = TaskSpec{};
    tuple.task->inputs = {Key{"s", 0}, Key{"r", index - kChains}};
    tuple.task->results = {Key{"r", index}};
    tuple.task->need_bytes = static_cast<std::uint64_t>(1 + index % 7) << 10;
    return tuple;
  }

  std::span<Outgoing> Ask(RequestBody body) {
    return space_.Step(Incoming{"manager", {++next_id_, std::move(body)}}, ++now_us_);
  }
  void Fetch(int handler) {
    Get get;
    get.pattern = {{FieldPattern::Exact("t"), FieldPattern::Any()}, false};
    get.offer_bytes = 1 << 20;
    get.with_inputs = true;
    Deliver(space_.Step(Incoming{names_[handler], {++next_id_, std::move(get)}}, ++now_us_));
  }
  // Handlers complete and ask again until `until` tasks are done or none is in flight.
  void Work(int until) {
    while (!granted_.empty() && done_ < until) {
      Granted work = std::move(granted_.front());
      granted_.pop_front();
      const std::int64_t index = std::get<std::int64_t>(work.lease.key.Fields()[1]);
      Complete complete{std::move(work.lease), {Plain(Key{"r", index})}};
      Deliver(space_.Step(Incoming{names_[work.handler], {++next_id_, std::move(complete)}},
                          ++now_us_));
      ++done_;
      Fetch(work.handler);
    }
  }
  void Deliver(std::span<Outgoing> actions) {
    for (Outgoing& action : actions) {
      auto& reply = std::get<Reply>(action.message);
      if (const auto* error = std::get_if<RequestError>(&reply.body))
        throw std::runtime_error(error->text);
      auto* grants = std::get_if<Grants>(&reply.body);
      if (grants == nullptr) continue;
      for (Grant& grant : grants->grants) {
        granted_.push_back({std::atoi(action.client.c_str() + 1), {grant.key, grant.fence}});
      }
    }
  }

  Payload payload_;
  Space space_;
  std::int64_t now_us_ = 0;
  RequestId next_id_ = 0;
  std::vector<ClientId> names_;
  std::deque<Granted> granted_;
  int done_ = 0;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void Print(const char* name, const std::vector<double>& values) {
  std::printf("\"%s\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}", name, Median(values),
              *std::min_element(values.begin(), values.end()),
              *std::max_element(values.begin(), values.end()));
}

void Main(int tasks, int repeats) {
  const std::vector<Config> configs = {{"10_handlers_1e3_tuples", 10, 1000},
                                       {"1000_handlers_1e3_tuples", 1000, 1000},
                                       {"1000_handlers_1e6_tuples", 1000, 1'000'000}};
  std::vector<std::vector<double>> us_per_task(configs.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t c = 0; c < configs.size(); ++c) {
      us_per_task[c].push_back(Cluster(configs[c]).Run(tasks) * 1e6 / tasks);
    }
  }
  std::vector<double> by_handlers;
  std::vector<double> by_tuples;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    by_handlers.push_back(us_per_task[1][repeat] / us_per_task[0][repeat]);
    by_tuples.push_back(us_per_task[2][repeat] / us_per_task[1][repeat]);
  }
  std::printf(
      "{\"bench\": \"space_scale\", \"tasks\": %d, \"repeats\": %d,\n \"cpu_us_per_task\": {",
      tasks, repeats);
  for (std::size_t c = 0; c < configs.size(); ++c) {
    std::printf(c == 0 ? "\n  " : ",\n  ");
    Print(configs[c].name, us_per_task[c]);
  }
  std::printf("},\n ");
  Print("ratio_1000_to_10_handlers", by_handlers);
  std::printf(",\n ");
  Print("ratio_1e6_to_1e3_tuples", by_tuples);
  std::printf("}\n");
}

int Number(const char* flag, const char* text) {
  const int value = std::atoi(text);
  if (value < 1 || value > 1'000'000) {
    throw std::invalid_argument(std::string(flag) + " " + text + ": must be 1 to 1000000");
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int tasks = 100'000;
    int repeats = 5;
    for (int i = 1; i < argc; i += 2) {
      const std::string_view flag = argv[i];
      if ((flag != "--tasks" && flag != "--repeats") || i + 1 == argc) {
        throw std::invalid_argument("usage: space_scale [--tasks N] [--repeats N]");
      }
      (flag == "--tasks" ? tasks : repeats) = Number(argv[i], argv[i + 1]);
    }
    Main(tasks, repeats);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "space_scale: %s\n", error.what());
    return 1;
  }
  return 0;
}
