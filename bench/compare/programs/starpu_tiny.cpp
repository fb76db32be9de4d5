// How many tiny tasks per second two StarPU workers finish. A task is a tile of 64 x 64 weights
// times one sample. A peer of tiny_tasks.py, which builds it; prints one JSON object.
//
//   cd bench/compare/programs
//   g++ -O3 -march=native -std=c++20 starpu_tiny.cpp -o /tmp/starpu_tiny
//       $(pkg-config --cflags --libs starpu-1.3)
//   STARPU_HOME=/tmp /tmp/starpu_tiny TASKS
//
// Needs Debian's libstarpu-dev (1.3), which stores its knowledge of the machine in
// STARPU_HOME/.starpu. As StarPU's handbook advises, all tasks are submitted before they are waited
// for, to the scheduler "eager", which takes no time to decide. Tile and sample are one handle
// each, which all tasks read; each task writes a result of its own.
#include <starpu.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kWidth = 64;
constexpr std::size_t kWarmTasks = 20000;
constexpr std::size_t kResults = 10000;  // the task that comes this much later overwrites a result
constexpr int kWorkers = 2;
constexpr char kScheduler[] = "eager";

void Multiply(void* buffers[], void*) {
  const auto* tile = reinterpret_cast<const float*>(STARPU_MATRIX_GET_PTR(buffers[0]));
  const auto* sample = reinterpret_cast<const float*>(STARPU_VECTOR_GET_PTR(buffers[1]));
  float sums[kWidth] = {};
  for (std::size_t in = 0; in < kWidth; ++in) {
    for (std::size_t out = 0; out < kWidth; ++out) {
      sums[out] += tile[in * kWidth + out] * sample[in];
    }
  }
  std::copy_n(sums, kWidth, reinterpret_cast<float*>(STARPU_VECTOR_GET_PTR(buffers[2])));
}

void Check(int code, const char* function) {
  if (code == 0) return;
  std::fprintf(stderr, "starpu_tiny: %s returned %d, not 0\n", function, code);
  std::exit(1);
}

// The data that the tasks read and write, registered with StarPU during this object's lifetime.
class Data {
 public:
  Data() {
    // Small integers, so that the sums of their products are exact in any order.
    for (std::size_t i = 0; i < tile_.size(); ++i) tile_[i] = static_cast<float>(i % 7);
    for (std::size_t i = 0; i < sample_.size(); ++i) sample_[i] = static_cast<float>(i % 5);
    starpu_matrix_data_register(&tile_handle_, STARPU_MAIN_RAM, Address(tile_[0]), kWidth, kWidth,
                                kWidth, sizeof(float));
    starpu_vector_data_register(&sample_handle_, STARPU_MAIN_RAM, Address(sample_[0]), kWidth,
                                sizeof(float));
    for (std::size_t i = 0; i < kResults; ++i) {
      starpu_vector_data_register(&result_handles_[i], STARPU_MAIN_RAM,
                                  Address(results_[i * kWidth]), kWidth, sizeof(float));
    }
  }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;
  ~Data() {
    for (starpu_data_handle_t handle : result_handles_) starpu_data_unregister(handle);
    starpu_data_unregister(sample_handle_);
    starpu_data_unregister(tile_handle_);
  }

  void Submit(starpu_codelet& codelet, std::size_t task) const {
    const int code = starpu_task_insert(&codelet, STARPU_R, tile_handle_, STARPU_R, sample_handle_,
                                        STARPU_W, result_handles_[task % kResults], 0);
    Check(code, "starpu_task_insert");
  }

  // Checks all results that `tasks` tasks have written; call it only while no task runs.
  bool ResultsAreRight(std::size_t tasks) const {
    std::vector<float> expected(kWidth);
    for (std::size_t i = 0; i < tile_.size(); ++i) {
      expected[i % kWidth] += tile_[i] * sample_[i / kWidth];
    }
    for (std::size_t i = 0; i < std::min(tasks, kResults); ++i) {
      if (!std::equal(expected.begin(), expected.end(), &results_[i * kWidth])) return false;
    }
    return true;
  }

 private:
  static std::uintptr_t Address(float& first) { return reinterpret_cast<std::uintptr_t>(&first); }

  std::vector<float> tile_ = std::vector<float>(kWidth * kWidth);
  std::vector<float> sample_ = std::vector<float>(kWidth);
  std::vector<float> results_ = std::vector<float>(kResults * kWidth);
  starpu_data_handle_t tile_handle_ = nullptr, sample_handle_ = nullptr;
  std::vector<starpu_data_handle_t> result_handles_ = std::vector<starpu_data_handle_t>(kResults);
};

double TasksPerSecond(const Data& data, starpu_codelet& codelet, std::size_t tasks) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (std::size_t task = 0; task < tasks; ++task) data.Submit(codelet, task);
  Check(starpu_task_wait_for_all(), "starpu_task_wait_for_all");
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return static_cast<double>(tasks) / seconds;
}

int Measure(std::size_t tasks) {
  if (starpu_cpu_worker_get_count() != kWorkers) {
    std::fprintf(stderr, "starpu_tiny: StarPU started %u workers, not %d: are there %d cores?\n",
                 starpu_cpu_worker_get_count(), kWorkers, kWorkers);
    return 1;
  }
  starpu_codelet codelet;
  starpu_codelet_init(&codelet);
  codelet.cpu_funcs[0] = Multiply;
  codelet.nbuffers = 3;
  codelet.modes[0] = codelet.modes[1] = STARPU_R;
  codelet.modes[2] = STARPU_W;
  const Data data;
  TasksPerSecond(data, codelet, kWarmTasks);
  const double rate = TasksPerSecond(data, codelet, tasks);
  if (!data.ResultsAreRight(tasks)) {
    std::fprintf(stderr, "starpu_tiny: a task's result is not its tile times its sample\n");
    return 1;
  }
  int major = 0, minor = 0, release = 0;
  starpu_get_version(&major, &minor, &release);
  std::printf(R"({"tasks_per_s": %.1f, "workers": %d, "scheduler": "%s", "starpu": "%d.%d.%d"})"
              "\n",
              rate, kWorkers, kScheduler, major, minor, release);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const long tasks = argc == 2 ? std::atol(argv[1]) : 0;
  if (tasks < 1) {
    std::fprintf(stderr, "usage: starpu_tiny TASKS (how many to time, 1 or more)\n");
    return 2;
  }
  starpu_conf conf;
  Check(starpu_conf_init(&conf), "starpu_conf_init");
  conf.precedence_over_environment_variables = 1;  // else it could select another scheduler
  conf.sched_policy_name = kScheduler;
  conf.ncpus = kWorkers;
  conf.ncuda = conf.nopencl = 0;
  Check(starpu_init(&conf), "starpu_init");
  const int code = Measure(static_cast<std::size_t>(tasks));
  starpu_shutdown();
  return code;
}
