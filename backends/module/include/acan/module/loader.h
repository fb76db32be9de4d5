// Finds and loads device modules. They are looked for in the folders of ACAN_MODULE_PATH (separated
// by ':') and nowhere else if that is set; without it beside the program and in ../lib/acan from
// there.
#pragma once

#include <string>
#include <vector>

#include "acan/module/module.h"

namespace acan {

// The backends that have modules, in the order in which users see them.
inline constexpr const char* kModuleBackends[] = {"cuda", "opencl"};

struct LoadedModule {
  DeviceModule* module = nullptr;  // lives as long as the process
  std::string path;                // of its file; empty: there is none
  std::string problem;             // why `module` is null: a whole sentence, with dlopen's words
};

// The folders that are searched, in order.
std::vector<std::string> ModuleFolders();

// The module of `backend`, loaded by the first call. Thread safe.
const LoadedModule& LoadModule(const std::string& backend);

// One file, not remembered: LoadModule without the search.
LoadedModule LoadModuleFile(const std::string& path);

}  // namespace acan
