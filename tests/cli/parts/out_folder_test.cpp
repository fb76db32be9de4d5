#include "out_folder.h"

#include <filesystem>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program.h"

namespace acan::cli {
namespace {

using ::testing::IsEmpty;
using testing::TestFolder;
namespace fs = std::filesystem;

TEST(EmptyFoldersTest, AreRemovedIfTheyDidNotExistAndAreEmpty) {
  const TestFolder folder;
  for (const std::string& made : {folder / "out/o", folder / "out/o/"}) {
    std::optional<EmptyFolders> empty(made);
    fs::create_directories(made);
    empty.reset();
    EXPECT_THAT(folder.Names(), IsEmpty()) << made;
  }
  std::optional<EmptyFolders> empty(folder / "out/o");
  folder.Write("out/other", "");
  fs::create_directory(folder / "out/o");
  empty.reset();
  EXPECT_FALSE(fs::exists(folder / "out/o"));
  EXPECT_TRUE(fs::exists(folder / "out/other"));
}

// The user has moved the outputs elsewhere.
TEST(EmptyFoldersTest, LinksInTheirPlacesStay) {
  const TestFolder folder;
  for (const bool is_empty : {true, false}) {
    std::optional<EmptyFolders> empty(folder / "out/o");
    fs::create_directories(folder / "moved");
    if (!is_empty) folder.Write("moved/model.safetensors", "");
    fs::create_directories(folder / "out");
    fs::create_directory_symlink(folder / "moved", folder / "out/o");
    empty.reset();
    EXPECT_TRUE(fs::is_symlink(folder / "out/o")) << is_empty;
    EXPECT_TRUE(fs::is_directory(folder / "moved")) << is_empty;
    fs::remove_all(folder / "out");
  }
}

}  // namespace
}  // namespace acan::cli
