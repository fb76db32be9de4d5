// Files that may lie on a file server. Its clients keep what they have written for a while, and
// remember sizes for some seconds, so hosts do not see the same.
#pragma once

#include <cstdint>
#include <optional>

namespace acan {

// Whether written bytes may stay on this host until they are synced: the file lies on a file server
// (NFS, SMB and the like) or behind a FUSE process, or the system cannot say.
bool KeepsWrittenBytesOnHost(int descriptor);

enum class SizeSource : std::uint8_t {
  kHost,    // as fstat(2), except that no NFS client writes anything back for it
  kServer,  // a file server is asked; on other file systems the same as kHost
};

struct FileSize {
  std::optional<std::int64_t> bytes = {};  // nullopt: not a regular file, or unknown
  int error = 0;                           // the value of errno if it is unknown
};

FileSize SizeOfFile(int descriptor, SizeSource source);

}  // namespace acan
