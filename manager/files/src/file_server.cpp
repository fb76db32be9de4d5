#include "acan/manager/file_server.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>

namespace acan {

bool KeepsWrittenBytesOnHost(int descriptor) {
  struct statfs info = {};
  if (::fstatfs(descriptor, &info) != 0) return true;
  switch (static_cast<std::uint32_t>(info.f_type)) {
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case AFS_FS_MAGIC:
    case V9FS_MAGIC:
    case FUSE_SUPER_MAGIC:
      return true;
    default:
      return false;
  }
}

// An NFS client writes back all that it keeps of a file before it answers with times, which fstat
// asks for. The size alone does not need that.
FileSize SizeOfFile(int descriptor, SizeSource source) {
  const int how = source == SizeSource::kServer ? AT_STATX_FORCE_SYNC : AT_STATX_SYNC_AS_STAT;
  struct statx now = {};
  if (::statx(descriptor, "", AT_EMPTY_PATH | how, STATX_TYPE | STATX_SIZE, &now) == 0) {
    if (!S_ISREG(now.stx_mode)) return {};
    return {static_cast<std::int64_t>(now.stx_size), 0};
  }
  // Some containers refuse statx.
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) return {std::nullopt, errno};
  if (!S_ISREG(status.st_mode)) return {};
  return {status.st_size, 0};
}

}  // namespace acan
