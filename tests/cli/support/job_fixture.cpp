#include "job_fixture.h"

namespace acan::testing {
namespace {

std::string GeneratedJob(const std::string& samples, const std::string& epochs) {
  return R"(
[model]
layers = [16, 40, 2]
activation = "tanh"
loss = "mse"
[data]
generated = "regression"
samples = )" +
         samples + R"(
[train]
batch = 32
epochs = )" +
         epochs + R"(
learning_rate = 0.05
)";
}

}  // namespace

std::string SmallJob() {
  return GeneratedJob("200", "3");
}
std::string EndlessJob() {
  return GeneratedJob("1000", "1000000");
}

std::string EndpointOf(Program& broker) {
  if (!broker.WaitForOut("\n")) return "";
  return broker.out().substr(0, broker.out().find('\n'));
}

}  // namespace acan::testing
