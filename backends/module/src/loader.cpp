#include "acan/module/loader.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>

#include "acan/core/ieee_mode.h"

namespace acan {
namespace {

namespace fs = std::filesystem;

LoadedModule FindModule(const std::string& backend) {
  const std::string name = "acan_" + backend + ".so";
  const std::vector<std::string> folders = ModuleFolders();
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder) / name;
    std::error_code ignored;
    if (fs::exists(path, ignored)) return LoadModuleFile(path.string());
  }
  return {nullptr, "",
          fmt::format("there is no {} in {} (ACAN_MODULE_PATH names other folders): this acan was "
                      "built without {}, or its modules are elsewhere",
                      name, fmt::join(folders, ", "), backend)};
}

}  // namespace

std::vector<std::string> ModuleFolders() {
  std::vector<std::string> folders;
  const char* variable = std::getenv("ACAN_MODULE_PATH");
  const std::string_view path = variable == nullptr ? "" : variable;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin) folders.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!folders.empty()) return folders;
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return {"."};
  const fs::path beside = program.parent_path();
  return {beside.string(), (beside.parent_path() / "lib" / "acan").string()};
}

LoadedModule LoadModuleFile(const std::string& path) {
  LoadedModule loaded;
  loaded.path = path;
  // dlopen would search the system's folders for a name without a slash.
  const std::string file = fs::absolute(path).string();
  const IeeeMode ieee;  // the library, or one that it needs, may leave another mode
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.problem = fmt::format("{} cannot be loaded: {}", path, ::dlerror());
    return loaded;
  }
  const auto* version = static_cast<const char*>(::dlsym(library, "acan_module_version"));
  if (version == nullptr) {
    loaded.problem = fmt::format("{} is not a module of acan: it has no acan_module_version", path);
    return loaded;
  }
  if (std::string_view(version) != ACAN_MODULE_VERSION) {
    loaded.problem = fmt::format("{} belongs to acan {}, but this is acan {}: build both together",
                                 path, version, ACAN_MODULE_VERSION);
    return loaded;
  }
  using Entry = DeviceModule*();
  auto* const entry = reinterpret_cast<Entry*>(::dlsym(library, "acan_module"));
  if (entry == nullptr) {
    loaded.problem = fmt::format("{} is not a module of acan: it has no acan_module", path);
    return loaded;
  }
  try {
    loaded.module = entry();
  } catch (const std::exception& error) {
    loaded.problem = fmt::format("{} does not start: {}", path, error.what());
  }
  return loaded;
}

const LoadedModule& LoadModule(std::string_view backend) {
  static std::mutex mutex;
  static auto& modules = *new std::map<std::string, LoadedModule, std::less<>>;
  const std::lock_guard lock(mutex);
  const auto it = modules.find(backend);
  if (it != modules.end()) return it->second;
  const std::string name(backend);
  return modules.emplace(name, FindModule(name)).first->second;
}

}  // namespace acan
