#include "driver/program_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <string_view>
#include <system_error>
#include <vector>

namespace acan::opencl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "acan cache 2\n";
constexpr std::string_view kEarlierMagic = "acan cache 1\n";  // its checksum did not cover the key
constexpr std::size_t kDigits = 64;
constexpr std::string_view kFirst = "opencl-";  // of the names
constexpr std::string_view kDraft = "-XXXXXX";
// A living process writes a file in a moment. If one takes longer, it only keeps nothing.
constexpr std::chrono::hours kOldestDraft{1};

std::string Sha256(const std::string& bytes) {
  std::array<unsigned char, 32> digest{};
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

// The checksum includes the key, because a file under another key's name is as wrong as a damaged
// one.
std::string Checksum(const std::string& key, const std::string& bytes) {
  return Sha256(Sha256(key) + bytes);
}

bool WriteAll(int fd, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (wrote <= 0) return false;
    done += static_cast<std::size_t>(wrote);
  }
  return true;
}

bool IsDraft(const std::string& name) {
  return name.starts_with(kFirst) && name.size() == kFirst.size() + kDigits + kDraft.size() &&
         name[kFirst.size() + kDigits] == kDraft.front();
}

// Removes the drafts that killed processes left.
void RemoveOldDrafts(const std::string& folder) {
  const fs::file_time_type oldest = fs::file_time_type::clock::now() - kOldestDraft;
  std::vector<fs::path> old;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!IsDraft(at->path().filename().string())) continue;
    std::error_code unknown;
    const fs::file_time_type written = fs::last_write_time(at->path(), unknown);
    if (!unknown && written < oldest) old.push_back(at->path());
  }
  for (const fs::path& draft : old) fs::remove(draft, error);
}

}  // namespace

std::string CacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/acan";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/acan";
  return "";
}

std::string ProgramCache::PathOf(const std::string& key) const {
  return fmt::format("{}/{}{}", folder_, kFirst, Sha256(key));
}

std::optional<std::string> ProgramCache::Load(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = PathOf(key);
  std::error_code ignored;
  // Opening a pipe would wait for a writer, and a device may have no end.
  if (fs::is_fifo(path, ignored) || fs::is_character_file(path, ignored)) {
    Warn(key, "is no file");
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string all;
  try {
    all = std::string(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios_base::failure&) {  // thrown by the buffer, whatever file.exceptions() is
    Warn(key, "cannot be read");
    return std::nullopt;
  }
  if (all.starts_with(kEarlierMagic)) return std::nullopt;
  const std::size_t head = kMagic.size() + kDigits;
  if (all.size() < head || !all.starts_with(kMagic)) {
    Warn(key, "is damaged");
    return std::nullopt;
  }
  std::string bytes = all.substr(head);
  if (Checksum(key, bytes) != all.substr(kMagic.size(), kDigits)) {
    Warn(key, "is damaged, or was made for something else: its checksum is wrong");
    return std::nullopt;
  }
  return bytes;
}

void ProgramCache::Warn(const std::string& key, const std::string& problem) const {
  std::fputs(fmt::format("acan: warning: {} {}; it is rebuilt\n", PathOf(key), problem).c_str(),
             stderr);
}

void ProgramCache::Store(const std::string& key, const std::string& bytes) const {
  if (folder_.empty()) return;
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) return;
  RemoveOldDrafts(folder_);
  const std::string path = PathOf(key);
  std::string draft = path + std::string(kDraft);
  const int fd = ::mkostemp(draft.data(), O_CLOEXEC);
  if (fd < 0) return;
  bool written = WriteAll(fd, std::string(kMagic) + Checksum(key, bytes) + bytes);
  written = ::close(fd) == 0 && written;
  if (!written || ::rename(draft.c_str(), path.c_str()) != 0) ::unlink(draft.c_str());
}

}  // namespace acan::opencl
