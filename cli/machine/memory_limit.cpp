#include "memory_limit.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace acan::cli {
namespace {

namespace fs = std::filesystem;

// Version 1 has no word for "no limit"; it uses numbers like 0x7ffffffffffff000.
constexpr std::uint64_t kNoLimit = 1ull << 62;

struct Version {
  const char* limit;
  const char* used;
  const char* cache;  // a line of memory.stat
};
constexpr Version kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                            "total_inactive_file"};
constexpr Version kVersion2{"memory.max", "memory.current", "inactive_file"};

// A mounted hierarchy that limits memory.
struct Hierarchy {
  const Version* version = nullptr;
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

// The free memory of this one group.
std::optional<std::uint64_t> FreeIn(const fs::path& folder, const Version& version) {
  const auto limit = ReadNumber(folder / version.limit);  // "max" is no number
  const auto used = ReadNumber(folder / version.used);
  if (!limit || *limit >= kNoLimit || !used) return std::nullopt;
  const std::uint64_t bound = *used - std::min(*used, ReclaimableIn(folder, version.cache));
  return *limit > bound ? *limit - bound : 0;
}

bool Lists(const std::string& words, const std::string& word) {
  std::istringstream stream(words);
  for (std::string one; std::getline(stream, one, ',');) {
    if (one == word) return true;
  }
  return false;
}

// Lines of mountinfo: id parent device root mounted_at options... - type source super_options.
std::vector<Hierarchy> MountedHierarchies(const std::string& root) {
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
      one.version = &kVersion2;
    } else if (type == "cgroup" && Lists(super_options, "memory")) {
      one.version = &kVersion1;
    } else {
      continue;
    }
    found.push_back(std::move(one));
  }
  return found;
}

// The group of this process in that hierarchy. /proc/self/cgroup has lines "0::/a" for version 2
// and "4:cpu,memory:/a" for version 1.
std::optional<std::string> GroupIn(const std::string& root, const Version& version) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool its =
        &version == &kVersion2 ? line.starts_with("0::") : Lists(controllers, "memory");
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

}  // namespace

std::optional<std::uint64_t> FreeInControlGroups(const std::string& root) {
  std::optional<std::uint64_t> least;
  for (const Hierarchy& hierarchy : MountedHierarchies(root)) {
    const auto group = GroupIn(root, *hierarchy.version);
    if (!group) continue;
    for (const fs::path& folder : Folders(root, hierarchy, *group)) {
      const auto free = FreeIn(folder, *hierarchy.version);
      if (free && (!least || *free < *least)) least = free;
    }
  }
  return least;
}

}  // namespace acan::cli
