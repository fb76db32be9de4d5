// RunFiles: what a manager must know of its folder before it changes anything there.
#include "run_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "acan/manager/output_names.h"
#include "lone_run.h"
#include "test_files.h"

namespace acan {
namespace {

namespace fs = std::filesystem;

class RunFilesTest : public ::testing::Test {
 protected:
  RunFilesTest() { fs::create_directory(folder_.Path("out")); }

  static RunSettings SettingsOf(const std::string& out_dir) {
    RunSettings settings;
    settings.out_dir = out_dir;
    return settings;
  }
  RunFiles& Open() {
    return files_.emplace(
        run_.context, claim_,
        tuplespace::ClientOptions{.endpoint = "ipc:///nobody-is-there", .name = "test", .id = {}},
        [] {});
  }
  std::string Out(const std::string& name) const { return folder_.Path("out/" + name); }

  const TestFolder folder_;
  LoneRun run_{SettingsOf(folder_.Path("out"))};
  FolderClaim claim_{run_.context, nullptr};
  std::optional<RunFiles> files_;
};

// The run would notice it only when it has removed the results of an earlier one.
TEST_F(RunFilesTest, NameAFolderThatStandsInTheWayOfAFile) {
  for (const char* name : {kConfigName, kVocabularyName, kGraphName, kModelName, kReceiptName}) {
    SCOPED_TRACE(name);
    fs::create_directories(Out(name) + "/something");
    ExpectError([&] { Open(); }, {Out(name) + ": ", "irectory"}, Error::Kind::kFailure);
    fs::remove_all(Out(name));
    EXPECT_NO_THROW(Open());
  }
}

// In a folder of a group, it may be another user's.
TEST_F(RunFilesTest, NameALogThatCannotBeWritten) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write to every file";
  const std::string path = folder_.Write("out/" + std::string(kTuningName), "");
  fs::permissions(path, fs::perms::owner_read);
  ExpectError([&] { Open(); }, {path + ": cannot open: Permission denied"}, Error::Kind::kFailure);
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_NO_THROW(Open());
}

// A job that is done would be trained anew, and its results removed for that.
TEST_F(RunFilesTest, DoNotTakeAReceiptThatCannotBeOpenedForNone) {
  const RunFiles& files = Open();
  EXPECT_EQ(files.ReceiptText(), std::nullopt);
  const std::string path = folder_.Write("out/" + std::string(kReceiptName), "{}");
  EXPECT_EQ(files.ReceiptText(), "{}");
  fs::remove(path);
  fs::create_symlink(kReceiptName, path);
  const std::string problem = path + ": cannot open: Too many levels of symbolic links";
  ExpectError([&] { files.ReceiptText(); }, {problem});
  ExpectError([&] { files.NewReceipt(); }, {problem});
}

}  // namespace
}  // namespace acan
