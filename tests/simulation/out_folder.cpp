#include "out_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "acan/manager/receipt.h"
#include "nlohmann/json.hpp"

namespace acan::simulation {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace

OutFolder::OutFolder() {
  // Thousands of runs sync tens of files each: on a disk that would be most of the time.
  const fs::path memory = "/dev/shm";
  const bool use_memory = ::access(memory.c_str(), W_OK | X_OK) == 0;
  path_ = (use_memory ? memory : fs::temp_directory_path()) / "acan-simulation-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) {
    throw std::runtime_error("cannot make the temporary folder " + path_);
  }
}

OutFolder::~OutFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

bool OutFolder::HasReceipt() const {
  return fs::exists(path() + "/receipt.json");
}

Outcome OutFolder::Read() const {
  Outcome outcome;
  outcome.weights_sha256 = ReadReceipt(path() + "/receipt.json").weights_sha256;
  std::ifstream file(path() + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) {
      for (const char* depends : {"samples_per_s", "handlers", "reissued"}) json.erase(depends);
      outcome.metrics.push_back(json.dump());
    } else {
      outcome.metrics.push_back("no JSON: " + line);
    }
  }
  return outcome;
}

bool OutFolder::DamageSnapshot(Random& random) const {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator at(path() + "/snapshots", error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".safetensors") paths.push_back(at->path());
  }
  if (paths.empty()) return false;
  const std::string& newest = *std::max_element(paths.begin(), paths.end());
  std::string bytes = ReadAll(newest);
  if (bytes.empty()) return false;
  switch (random.Below(3)) {
    case 0:
      bytes.resize(random.Below(bytes.size()));
      WriteAll(newest, bytes);
      break;
    case 1:
      bytes[random.Below(bytes.size())] ^= static_cast<char>(1 << random.Below(8));
      WriteAll(newest, bytes);
      break;
    default:  // what a writer that was killed leaves
      bytes.resize(random.Below(bytes.size()));
      WriteAll(newest + ".1.0.tmp", bytes);
  }
  return true;
}

}  // namespace acan::simulation
