// Finds and loads device modules. If ACAN_MODULE_PATH (folders separated by ':') is set, only its
// folders are searched; otherwise the program's folder and ../lib/acan relative to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "acan/module/module.h"

namespace acan {

// The backends that have modules, in the order in which the program shows them to users.
inline constexpr const char* kModuleBackends[] = {"cuda", "opencl"};

struct LoadedModule {
  DeviceModule* module = nullptr;  // lives as long as the process
  std::string path;                // of the module's file; empty: there is none
  std::string problem;             // why `module` is null, as a whole sentence with dlopen's words
};

// The folders that are searched, in order.
std::vector<std::string> ModuleFolders();

// The module of `backend`, loaded by the first call. Thread safe.
const LoadedModule& LoadModule(std::string_view backend);

// Loads one file and does not remember it: LoadModule without the search.
LoadedModule LoadModuleFile(const std::string& path);

}  // namespace acan
