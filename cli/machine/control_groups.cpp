#include "control_groups.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

namespace acan::cli {
namespace {

namespace fs = std::filesystem;

// Version 1 has no word for "no limit" on memory; it uses numbers like 0x7ffffffffffff000.
constexpr std::uint64_t kNoLimit = 1ull << 62;

enum class Version : std::uint8_t { k1, k2 };

struct MemoryFiles {
  const char* limit;
  const char* used;
  const char* cache;  // a line of memory.stat
};

const MemoryFiles& MemoryFilesOf(Version version) {
  static constexpr MemoryFiles kFiles1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                       "total_inactive_file"};
  static constexpr MemoryFiles kFiles2{"memory.max", "memory.current", "inactive_file"};
  return version == Version::k1 ? kFiles1 : kFiles2;
}

// A mounted hierarchy of groups.
struct Hierarchy {
  Version version = Version::k2;
  std::string mounted_at;
  std::string shows;  // the group visible at the mount point: "/" except in containers
};

std::optional<std::uint64_t> ReadNumber(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

std::uint64_t ReclaimableIn(const fs::path& folder, const char* name) {
  std::ifstream file(folder / "memory.stat");
  std::string field;
  for (std::uint64_t value = 0; file >> field >> value;) {
    if (field == name) return value;
  }
  return 0;
}

// The limit on the memory of this one group.
std::optional<std::uint64_t> MemoryLimitIn(const fs::path& folder, Version version) {
  const auto limit = ReadNumber(folder / MemoryFilesOf(version).limit);  // "max" is no number
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

// The free memory of this one group.
std::optional<std::uint64_t> FreeIn(const fs::path& folder, Version version) {
  const MemoryFiles& files = MemoryFilesOf(version);
  const auto limit = MemoryLimitIn(folder, version);
  const auto used = ReadNumber(folder / files.used);
  if (!limit || !used) return std::nullopt;
  const std::uint64_t bound = *used - std::min(*used, ReclaimableIn(folder, files.cache));
  return *limit > bound ? *limit - bound : 0;
}

// The quota of this one group, in processors. Version 2 has "QUOTA PERIOD" in one file, where
// "max" is no quota. Version 1 has two files, where -1 is no quota.
std::optional<double> QuotaIn(const fs::path& folder, Version version) {
  double quota_us = 0, period_us = 0;
  if (version == Version::k2) {
    std::ifstream file(folder / "cpu.max");
    if (!(file >> quota_us >> period_us)) return std::nullopt;
  } else {
    std::ifstream quota(folder / "cpu.cfs_quota_us");
    std::ifstream period(folder / "cpu.cfs_period_us");
    if (!(quota >> quota_us) || !(period >> period_us)) return std::nullopt;
  }
  if (quota_us <= 0 || period_us <= 0) return std::nullopt;
  return quota_us / period_us;
}

bool Lists(const std::string& words, const std::string& word) {
  std::istringstream stream(words);
  for (std::string one; std::getline(stream, one, ',');) {
    if (one == word) return true;
  }
  return false;
}

// Lines of mountinfo: id parent device root mounted_at options... - type source super_options.
// Returns the hierarchies that can have the controller.
std::vector<Hierarchy> MountedHierarchies(const std::string& root, const std::string& controller) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string id, parent, device, word, type, source, super_options;
    Hierarchy one;
    words >> id >> parent >> device >> one.shows >> one.mounted_at;
    while (words >> word && word != "-") {
    }
    words >> type >> source >> super_options;
    if (type == "cgroup2") {
      one.version = Version::k2;
    } else if (type == "cgroup" && Lists(super_options, controller)) {
      one.version = Version::k1;
    } else {
      continue;
    }
    found.push_back(std::move(one));
  }
  return found;
}

// The group of this process in that hierarchy. /proc/self/cgroup has lines "0::/a" for version 2
// and "4:cpu,memory:/a" for version 1.
std::optional<std::string> GroupIn(const std::string& root, Version version,
                                   const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool its =
        version == Version::k2 ? line.starts_with("0::") : Lists(controllers, controller);
    if (its) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The folders from the group up to the mount point.
std::vector<fs::path> Folders(const std::string& root, const Hierarchy& hierarchy,
                              std::string group) {
  // A container may see its own group at the mount point, and still be told the group's full path.
  if (group == hierarchy.shows || group.starts_with(hierarchy.shows + "/")) {
    group = group.substr(hierarchy.shows.size());
  } else if (hierarchy.shows != "/") {
    group.clear();  // the group is not visible here; the mount point is above it
  }
  std::vector<fs::path> folders;
  const fs::path top = root + hierarchy.mounted_at;
  for (fs::path below = fs::path(group).relative_path(); !below.empty();
       below = below.parent_path()) {
    folders.push_back(top / below);
  }
  folders.push_back(top);
  return folders;
}

// The minimum of what `read` returns for the group of this process and those above it.
template <class Value>
std::optional<Value> Least(
    const std::string& root, const std::string& controller,
    const std::function<std::optional<Value>(const fs::path&, Version)>& read) {
  std::optional<Value> least;
  for (const Hierarchy& hierarchy : MountedHierarchies(root, controller)) {
    const auto group = GroupIn(root, hierarchy.version, controller);
    if (!group) continue;
    for (const fs::path& folder : Folders(root, hierarchy, *group)) {
      const std::optional<Value> value = read(folder, hierarchy.version);
      if (value && (!least || *value < *least)) least = value;
    }
  }
  return least;
}

}  // namespace

std::optional<std::uint64_t> FreeInControlGroups(const std::string& root) {
  return Least<std::uint64_t>(root, "memory", FreeIn);
}

std::optional<std::uint64_t> MemoryLimitOfControlGroups(const std::string& root) {
  return Least<std::uint64_t>(root, "memory", MemoryLimitIn);
}

std::optional<double> ProcessorQuotaOfControlGroups(const std::string& root) {
  return Least<double>(root, "cpu", QuotaIn);
}

}  // namespace acan::cli
