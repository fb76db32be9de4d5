#include "scratch_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "acan/core/error.h"

namespace acan::cli {
namespace {

// A socket's address holds 107 bytes; names inside the folder are short.
constexpr std::size_t kMaxFolderPath = 80;
constexpr const char* kName = "/acan-XXXXXX";

}  // namespace

ScratchFolder::ScratchFolder() {
  const char* variable = ::getenv("TMPDIR");
  std::string parent = variable == nullptr || *variable == '\0' ? "/tmp" : variable;
  if (parent.size() + std::strlen(kName) > kMaxFolderPath) parent = "/tmp";
  path_ = std::filesystem::absolute(parent).string() + kName;
  if (path_.size() > kMaxFolderPath) path_ = std::string("/tmp") + kName;
  if (::mkdtemp(path_.data()) == nullptr) {
    throw FailureError("cannot make a temporary folder in " + parent + ": " + std::strerror(errno) +
                       "; set TMPDIR to a folder that can be written to");
  }
}

ScratchFolder::~ScratchFolder() {
  Remove();
}

void ScratchFolder::Remove() {
  std::error_code ignored;  // someone else may have removed it; there is nothing left to do then
  std::filesystem::remove_all(path_, ignored);
}

void RemoveFolderOf(const std::string& ipc_endpoint) {
  const std::string prefix = "ipc://";
  if (!ipc_endpoint.starts_with(prefix)) return;
  const std::filesystem::path socket(ipc_endpoint.substr(prefix.size()));
  ::rmdir(socket.parent_path().c_str());  // refuses a folder that has anything in it
}

}  // namespace acan::cli
