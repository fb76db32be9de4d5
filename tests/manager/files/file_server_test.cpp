// What is known about files that may lie on a file server.
#include "acan/manager/file_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "acan/manager/descriptor.h"
#include "test_files.h"

namespace acan {
namespace {

TEST(FileServerTest, OnlyRegularFilesHaveASize) {
  const TestFolder folder;
  const std::string path = folder.Write("file", "12345");
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const Descriptor device(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const SizeSource source : {SizeSource::kHost, SizeSource::kServer}) {
    std::filesystem::resize_file(path, 5);
    EXPECT_EQ(SizeOfFile(file.get(), source).bytes, 5);
    std::filesystem::resize_file(path, 2);
    EXPECT_EQ(SizeOfFile(file.get(), source).bytes, 2) << "it is never an earlier one";
    EXPECT_FALSE(SizeOfFile(device.get(), source).bytes);
    EXPECT_EQ(SizeOfFile(device.get(), source).error, 0);
    EXPECT_FALSE(SizeOfFile(-1, source).bytes);
    EXPECT_EQ(SizeOfFile(-1, source).error, EBADF);
  }
}

TEST(FileServerTest, WhatTheSystemCannotSayMayLieOnOne) {
  EXPECT_TRUE(KeepsWrittenBytesOnHost(-1));
  const Descriptor local(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(KeepsWrittenBytesOnHost(local.get()));
}

}  // namespace
}  // namespace acan
