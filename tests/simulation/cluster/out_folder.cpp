#include "cluster/out_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "acan/manager/file_lock.h"
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

constexpr const char* kPrefix = "acan-simulation-";

// Thousands of runs sync tens of files each. On a disk that would take most of the time.
fs::path Parent() {
  const fs::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK | X_OK) == 0 ? memory : fs::temp_directory_path();
}

// Returns a descriptor that locks a folder, or -1 if another process has locked it or it is gone.
int Lock(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -1;
  if (TryLock(fd).locked == Locked::kYes && IsFileOf(folder, fd)) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

OutFolder::OutFolder() {
  [[maybe_unused]] static const bool removed = (RemoveDead(), true);
  while (lock_ < 0) {  // another process may remove a folder before it is locked
    path_ = Parent() / (std::string(kPrefix) + "XXXXXX");
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::runtime_error("cannot make the temporary folder " + path_);
    }
    lock_ = Lock(path_);
  }
}

OutFolder::~OutFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  ::close(lock_);
}

void OutFolder::RemoveDead() {
  std::error_code ignored;
  for (fs::directory_iterator at(Parent(), ignored), end; at != end; at.increment(ignored)) {
    if (!at->path().filename().string().starts_with(kPrefix)) continue;
    const int lock = Lock(at->path());
    if (lock < 0) continue;
    fs::remove_all(at->path(), ignored);
    ::close(lock);
  }
}

bool OutFolder::HasReceipt() const {
  return fs::exists(path() + "/receipt.json");
}

Outcome OutFolder::Read() const {
  Outcome outcome;
  const Receipt receipt = ReadReceipt(path() + "/receipt.json");
  outcome.weights_sha256 = receipt.weights_sha256;
  outcome.quarantined = receipt.audits.quarantined.size();
  outcome.audits_skipped = receipt.audits.skipped;
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
    default:  // a killed writer leaves this
      bytes.resize(random.Below(bytes.size()));
      WriteAll(newest + ".1.0.tmp", bytes);
  }
  return true;
}

}  // namespace acan::simulation
