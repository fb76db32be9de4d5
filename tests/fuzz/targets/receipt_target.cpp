// Receipts, including the job in them.
//
// Input: the file
#include <cstring>
#include <optional>

#include "acan/core/error.h"
#include "acan/manager/job.h"
#include "acan/manager/receipt.h"
#include "memory_file.h"
#include "target.h"

namespace acan::fuzz::receipt_target {
namespace {

bool Run(std::string_view input) {
  const MemoryFile file(input);
  std::optional<Receipt> receipt;
  const HeapWatch heap;
  try {
    receipt = ReadReceipt(file.path());
  } catch (const Error& refused) {
    Require(refused.kind() == Error::Kind::kUsage && std::strlen(refused.what()) > 0,
            "a receipt is refused in another way than as a mistake of its user");
  }
  heap.RequireAtMost((1 << 20) + 1024 * input.size() + GraphBytes(input));
  if (!receipt) return false;
  const nlohmann::json json = ReceiptToJson(*receipt);
  Require(ReceiptToJson(ReceiptFromJson(json, "again")) == json,
          "a receipt changes when it is written and read");
  return true;
}

std::vector<Seed> Seeds() {
  Receipt receipt;
  receipt.job =
      JobToJson(ParseJob("[model]\nlayers = [4, 3]\n[data]\ntrain_inputs = \"x\"\n"
                         "train_labels = \"y\"\n",
                         "job", "/folder", {}));
  receipt.train_sha256 = std::string(64, 'a');
  receipt.code_version = "0.1.0";
  receipt.weights_sha256 = std::string(64, '0');
  Receipt full = receipt;
  full.test_sha256 = std::string(64, '1');
  full.handlers = {{"a/1", "cpu", 1 << 30, 12345, 7}, {"b", "cuda", 1, 1, 1}};
  full.steps = 10;
  full.epochs = 2;
  full.seconds = 1.25;
  full.tasks_done = 100;
  full.audits = {0.5, 12, 1, {{"b", "step 3 differs"}}};
  full.audit_log_head = std::string(64, 'f');
  full.test_accuracy = 0.5;
  full.test_loss = 1e-3;
  full.final_train_loss = 0;
  return {{"small", ReceiptToJson(receipt).dump()}, {"full", ReceiptToJson(full).dump(2)}};
}

std::vector<Seed> Hostile() {
  const std::size_t many = 1'000'000;
  const std::string nested = Repeated("[", many) + Repeated("]", many);
  return {
      {"nested-layers", R"({"format":"acan-receipt-1","job":{"model":{"layers":)" + nested + "}}}"},
      {"nested-format", R"({"format":)" + nested + "}"},
      {"nested", nested}};
}

const Registration registration({"receipt", Run, Seeds, Hostile});

}  // namespace
}  // namespace acan::fuzz::receipt_target
