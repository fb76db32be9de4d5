// Tasks that are made from those of another step are the step's own tasks.
#include "acan/manager/step_tasks.h"

#include <gtest/gtest.h>

#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/schedule.h"
#include "job/job_model_cases.h"

namespace acan {
namespace {

constexpr std::int64_t kTotalSteps = 2000;

Pass PassOf(const Training& training, std::int64_t step, std::int64_t rows) {
  Pass pass;
  pass.job = "job";
  pass.step = step;
  pass.rows = rows;
  pass.optimizer = OptimizerScalarsAt(training, step, kTotalSteps);
  Training without_decay = training;
  without_decay.weight_decay = 0;
  pass.optimizer_without_decay = OptimizerScalarsAt(without_decay, step, kTotalSteps);
  return pass;
}

std::string TextOf(const tuplespace::Tuple& tuple) {
  std::string text = tuple.key.ToString() + " " + std::string(tuple.payload.text());
  const tuplespace::TaskSpec& spec = *tuple.task;
  for (const tuplespace::Key& key : spec.inputs) text += " " + key.ToString();
  for (const tuplespace::Key& key : spec.results) text += " " + key.ToString();
  for (const std::int64_t number :
       {spec.priority, std::int64_t{spec.affinity}, static_cast<std::int64_t>(spec.need_bytes),
        static_cast<std::int64_t>(spec.most_result_bytes)}) {
    text += " " + std::to_string(number);
  }
  return text;
}

void ExpectSame(const std::vector<PlannedTask>& made, const std::vector<PlannedTask>& expected) {
  ASSERT_EQ(made.size(), expected.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    ASSERT_EQ(made[i].segment, expected[i].segment);
    // Not in a message: descriptions are long and binary.
    ASSERT_TRUE(TextOf(ToTuple(made[i], 1)) == TextOf(ToTuple(expected[i], 1)))
        << expected[i].key.ToString();
  }
}

class StepTasksTest : public testing::Test {
 protected:
  void Begin(const std::string& model, const std::string& rule, std::uint64_t capacity_bytes) {
    job_ = ParseModel(model, "[train]\nepochs = 1\nbatch = 12\n" + rule);
    request_.model = LowerModel(BuildModel(*job_));
    request_.training = job_->training;
    request_.capacity_bytes = capacity_bytes;
    plan_ = MakePlan(request_, &smallest_);
    if (!plan_) plan_ = MakePlan(AtLeast(smallest_), &smallest_);
    steps_.Forget();
  }

  std::vector<PlannedTask> ExpectTasksOf(const Pass& pass) {
    const PassTasks tasks(request_.model, job_->training, *plan_);
    std::vector<PlannedTask> made = steps_.Make(tasks, pass);
    ExpectSame(made, tasks.Tasks(pass));
    return made;
  }

  void ExpectAllSteps() {
    const auto pass_of = [&](std::int64_t step, std::int64_t rows = 12) {
      return PassOf(job_->training, step, rows);
    };
    for (const std::int64_t step : {0, 1, 2, 300, 70, 1999}) ExpectTasksOf(pass_of(step));
    for (const std::int64_t step : {5, 6}) ExpectTasksOf(pass_of(step, 7));
    ExpectTasksOf(pass_of(8));
    Pass counted = pass_of(9);
    counted.counted_rows = 5;
    ExpectTasksOf(counted);
    Pass timed = pass_of(10);
    timed.timed = true;
    ExpectTasksOf(timed);
    Pass other = pass_of(11);
    other.job = "other";
    ExpectTasksOf(other);
  }

  PlanRequest AtLeast(std::uint64_t bytes) const {
    PlanRequest request = request_;
    request.capacity_bytes = bytes;
    return request;
  }

  std::optional<Job> job_;
  PlanRequest request_;
  std::uint64_t smallest_ = 0;
  std::optional<Plan> plan_;
  StepTasks steps_;
};

std::string WithoutDropout(const std::string& model) {
  return std::regex_replace(model, std::regex("(dropout\\w*|stochastic_depth_prob) = [0-9.]+"),
                            "$1 = 0.0");
}

const char* const kRules[] = {
    "optimizer = \"sgd\"\nlearning_rate = 0.1\n",
    "optimizer = \"momentum\"\nlearning_rate = 0.1\nweight_decay = 0.01\nclip_norm = 1.0\n",
    "optimizer = \"adamw\"\nlearning_rate = 0.1\nweight_decay = 0.01\ndecay = \"matrices\"\n",
    "optimizer = \"adamw\"\nlearning_rate = 0.1\nschedule = \"cosine\"\nwarmup_steps = 3\n",
};

TEST_F(StepTasksTest, ModelsOfAllKindsWithAllRules) {
  std::vector<KindCase> kinds = ModelKindCases();
  kinds.push_back({"mlp", "layers = [20, 30, 5]\nactivation = \"relu\"\n"});
  for (const KindCase& kind : kinds) {
    for (const std::string& model : {kind.model, WithoutDropout(kind.model)}) {
      for (const char* rule : kRules) {
        for (const std::uint64_t capacity : {1ull << 30, 1ull}) {
          if (capacity == 1 && rule != kRules[2]) continue;  // plans for little memory take long
          SCOPED_TRACE(kind.kind + " " + rule + std::to_string(capacity));
          ASSERT_NO_FATAL_FAILURE(Begin(model, rule, capacity));
          ASSERT_TRUE(plan_);
          ASSERT_NO_FATAL_FAILURE(ExpectAllSteps());
        }
      }
    }
  }
}

TEST_F(StepTasksTest, FrozenTilesStay) {
  Begin("layers = [20, 30, 5]\nactivation = \"relu\"\n",
        std::string(kRules[0]) + "freeze = [\"layers.0.*\"]\n", 1ull << 30);
  ASSERT_TRUE(plan_);
  ExpectAllSteps();
}

// Otherwise the tests above would pass with tasks that are made anew.
TEST_F(StepTasksTest, TasksAreKeptFromStepToStepIfTheModelHasNoDropout) {
  const auto encoders = [&](const std::string& model) {
    Begin(model, kRules[0], 1ull << 30);
    std::vector<TaskEncoder*> found;
    for (const std::int64_t step : {0, 1}) {
      found.push_back(ExpectTasksOf(PassOf(job_->training, step, 12)).front().encoder.get());
    }
    return std::pair(found[0], found[1]);
  };
  const std::string gpt = ModelKindCases().front().model;
  const auto kept = encoders(WithoutDropout(gpt));
  EXPECT_NE(kept.first, nullptr);
  EXPECT_EQ(kept.first, kept.second);
  EXPECT_EQ(encoders(gpt), (std::pair<TaskEncoder*, TaskEncoder*>()));
}

}  // namespace
}  // namespace acan
