// Trained weights that never change: other tests compare runs of one program with each other, and
// would not see a change that gives all of them other weights.
//
// If such a change is intended, raise kNumericsRevision (core/include/acan/core/task.h), add a line
// to "Revisions" in docs/numerics.md, and copy the new hashes and the new revision into
// golden_hashes.h.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "acan/core/operators/operators.h"
#include "acan/core/task.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "forwarding_device.h"
#include "golden_hashes.h"
#include "golden_jobs.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace acan::testing {
namespace {

constexpr const char* kWhatToDo =
    "If the change is intended: raise kNumericsRevision in core/include/acan/core/task.h, add a "
    "line to \"Revisions\" in docs/numerics.md, and copy the new hashes and the new revision into "
    "tests/end_to_end/runs/golden_hashes.h. If it is not intended, the change would silently give "
    "users other weights.";

using Names = std::set<std::string_view>;  // of operations

constexpr std::uint64_t kMemoryBytes = 64 << 20;

// Notes which operations it runs. The operations that a CPU does in one call, like a convolution,
// reach it as the kernels and products that they consist of.
class NotingDevice final : public test::ForwardingDevice {
 public:
  explicit NotingDevice(Names& names)
      : ForwardingDevice(MakeCpuDevice({1, kMemoryBytes, std::nullopt})), names_(names) {}
  void Gemm(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
            const Matrix& b, const Matrix& c) override {
    names_.insert(RowOf(form).name);
    inner_->Gemm(form, precision, block, a, b, c);
  }
  void Launch(Kernel kernel, const KernelArgs& args) override {
    names_.insert(RowOf(kernel).name);
    inner_->Launch(kernel, args);
  }

 private:
  Names& names_;  // of the handler's thread
};

// One broker and one handler serve all jobs, because their start takes longer than the steps.
void ExpectGoldenHashes(const TestFolder& folder, const std::string& endpoint) {
  std::map<std::string, std::string> hashes;
  std::string to_copy;
  for (const GoldenJob& job : WriteGoldenJobs(folder)) {
    const Result run = RunAcan({"manager", "--connect", endpoint, job.path, "--out",
                                folder / ("out/" + job.name), "--json"});
    ASSERT_EQ(run.code, 0) << job.name << ": " << run.err;
    const auto receipt = nlohmann::json::parse(LastLine(run.out));
    EXPECT_EQ(receipt["numerics_revision"], kRevisionOfTheHashes) << kWhatToDo;
    hashes[job.name] = receipt["weights_sha256"];
    to_copy += "    {\"" + job.name + "\", \"" + hashes[job.name] + "\"},\n";
  }
  EXPECT_EQ(hashes, kGoldenHashes) << kWhatToDo << "\nThe hashes of this program:\n" << to_copy;
}

TEST(GoldenWeights, AreThoseOfTheRevision) {
  const TestFolder folder;
  const std::string endpoint = "ipc://" + (folder / "space");
  Program broker({"broker", "--listen", endpoint});
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "64MiB"});
  ExpectGoldenHashes(folder, endpoint);
}

// So a change of the bits of any operation is seen.
TEST(GoldenWeights, DependOnEveryOperation) {
  const TestFolder folder;
  const std::string endpoint = "ipc://" + (folder / "space");
  Program broker({"broker", "--listen", endpoint});
  Names reached;
  HandlerOptions options;
  options.endpoint = endpoint;
  options.name = "notes its operations";
  options.device = std::make_unique<NotingDevice>(reached);
  Handler handler(std::move(options));
  std::thread thread([&] { handler.Run(); });
  ExpectGoldenHashes(folder, endpoint);
  handler.Stop();
  thread.join();

  Names missing;
  for (std::size_t i = 0; i < kKernels; ++i) missing.insert(RowOf(static_cast<Kernel>(i)).name);
  for (std::size_t i = 0; i < kProducts; ++i) missing.insert(RowOf(static_cast<GemmForm>(i)).name);
  for (const std::string_view name : reached) missing.erase(name);
  EXPECT_EQ(missing, Names()) << "Add what uses them to golden_jobs.cpp.";
}

// A new revision needs new hashes: without a changed hash, no job trains other weights.
TEST(GoldenWeights, HaveTheHashesOfThisRevision) {
  EXPECT_EQ(kNumericsRevision, kRevisionOfTheHashes) << kWhatToDo;
}

}  // namespace
}  // namespace acan::testing
