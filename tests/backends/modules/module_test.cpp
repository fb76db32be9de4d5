// Modules: which are loaded, which are refused with which message, and that exceptions pass
// through.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <new>

#include "acan/core/error.h"
#include "acan/module/loader.h"
#include "float_mode.h"

namespace acan::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string kModules = ACAN_TEST_MODULES;  // a folder

TEST(ModuleLoader, RefusesAnotherVersionAndNamesBoth) {
  const LoadedModule old = LoadModuleFile(kModules + "/acan_old.so");
  EXPECT_EQ(old.module, nullptr);
  EXPECT_THAT(old.problem,
              AllOf(HasSubstr("acan_old.so"), HasSubstr("0.0.9 with interface 00000000"),
                    HasSubstr("this is acan " ACAN_MODULE_VERSION)));
}

TEST(ModuleLoader, RefusesWhatIsNoModule) {
  EXPECT_THAT(LoadModuleFile(kModules + "/acan_no.so").problem,
              HasSubstr("is not a module of acan: it has no acan_module_version"));
}

TEST(ModuleLoader, LeavesTheThreadsArithmeticAsItWas) {
  EXPECT_THAT(LoadModuleFile(kModules + "/acan_flushing.so").problem,
              HasSubstr("is not a module of acan"));
  EXPECT_FALSE(Flushes());
}

TEST(ModuleLoader, PassesOnTheLinkersWords) {
  EXPECT_THAT(LoadModuleFile("/nowhere/acan_gone.so").problem,
              AllOf(HasSubstr("/nowhere/acan_gone.so cannot be loaded"),
                    HasSubstr("No such file or directory")));
  const std::string text =
      (std::filesystem::temp_directory_path() / ("acan-module-test-" + std::to_string(::getpid())))
          .string();
  std::ofstream(text) << "not a shared object";
  EXPECT_THAT(LoadModuleFile(text).problem, HasSubstr("file too short"));
  std::filesystem::remove(text);
}

TEST(ModuleLoader, SearchesTheGivenFoldersOnly) {
  ASSERT_EQ(::setenv("ACAN_MODULE_PATH", (":/nowhere:" + kModules + ":").c_str(), 1), 0);
  EXPECT_EQ(ModuleFolders(), (std::vector<std::string>{"/nowhere", kModules}));
  EXPECT_NE(LoadModule("throwing").module, nullptr);
  EXPECT_EQ(LoadModule("throwing").path, kModules + "/acan_throwing.so");
  EXPECT_THAT(LoadModule("imagined").problem,
              AllOf(HasSubstr("acan_imagined.so"), HasSubstr("/nowhere, " + kModules),
                    HasSubstr("ACAN_MODULE_PATH")));
  ASSERT_EQ(::unsetenv("ACAN_MODULE_PATH"), 0);
  const std::vector<std::string> folders = ModuleFolders();
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_THAT(folders[1], ::testing::EndsWith("lib/acan"));
}

TEST(ModuleExceptions, ComeThroughWithTheirTypes) {
  DeviceModule* const module = LoadModuleFile(kModules + "/acan_throwing.so").module;
  ASSERT_NE(module, nullptr);
  const auto make = [&](int index) { return [=] { module->Make({index, std::nullopt, 0}); }; };
  try {
    make(0)();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_STREQ(error.what(), "usage");
  }
  EXPECT_THAT(make(1), ThrowsMessage<Error>("failure"));
  EXPECT_THAT(make(2), ThrowsMessage<OutOfMemory>("memory"));
  EXPECT_THAT(make(3), ThrowsMessage<DeviceLost>("lost"));
  EXPECT_THAT(make(4), ThrowsMessage<std::invalid_argument>("argument"));
  EXPECT_THROW(make(5)(), std::bad_alloc);
  EXPECT_THAT(make(6), ThrowsMessage<std::runtime_error>("runtime"));
}

}  // namespace
}  // namespace acan::test
