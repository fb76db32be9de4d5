#include "spare_descriptor.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace tuplespace {

SpareDescriptor::SpareDescriptor() : nothing_(eventfd(0, EFD_CLOEXEC)) {
  if (nothing_ >= 0) spare_ = fcntl(nothing_, F_DUPFD_CLOEXEC, 0);
  if (spare_ >= 0) return;
  const int error = errno;
  if (nothing_ >= 0) close(nothing_);
  throw std::system_error(error, std::generic_category(), "a spare descriptor");
}

SpareDescriptor::~SpareDescriptor() {
  close(spare_);
  close(nothing_);
}

bool SpareDescriptor::Duplicate(int descriptor) {
  return dup3(descriptor, spare_, O_CLOEXEC) >= 0;
}

void SpareDescriptor::Release() {
  dup3(nothing_, spare_, O_CLOEXEC);
}

}  // namespace tuplespace
