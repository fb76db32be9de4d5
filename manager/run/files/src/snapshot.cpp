#include "acan/manager/snapshot.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/output_names.h"
#include "acan/manager/planted.h"
#include "acan/manager/unreadable.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "step-";
constexpr const char* kSuffix = ".safetensors";
constexpr const char* kUnfinishedSuffix = ".tmp";  // AtomicFile's
constexpr const char* kTrainingName = "training_id";
constexpr const char* kStateName = "run_state";
// Kept for handlers that may turn out to be wrong. Each handler that ever joined may need one more.
constexpr std::size_t kMaxFallbacks = 8;

double VersionOf(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  std::int64_t version = 0;
  const std::string_view digits = std::string_view(name).substr(std::string_view(kPrefix).size());
  std::from_chars(digits.data(), digits.data() + digits.size(), version);
  return static_cast<double>(version);
}

// Which of the `fallbacks`, newest first, is the least loss: the run goes back to the next older
// one instead. That may be farther, but the farther it goes back anyway, the less this matters. So
// the distances between those that stay grow with their age. The oldest one is the last resort.
// `newest` is the newest snapshot and `before` the one before the fallbacks. REQUIRES: there are
// two.
std::size_t LeastNeeded(const std::vector<std::string>& fallbacks, const std::string& newest,
                        const std::string& before) {
  const auto age = [&](const std::string& path) { return VersionOf(newest) - VersionOf(path); };
  std::size_t least = 0;
  double least_growth = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i + 1 < fallbacks.size(); ++i) {
    const double growth = age(fallbacks[i + 1]) / age(i == 0 ? before : fallbacks[i - 1]);
    if (growth >= least_growth) continue;
    least = i;
    least_growth = growth;
  }
  return least;
}

// Why the run must not continue from it; empty: it may.
std::string WhyBarred(const RunState& state, const BarredSnapshots& barred) {
  if (state.MayDependOn(barred.wrong)) return "may depend on results of a quarantined handler";
  if (!state.HasUnconfirmedOf(barred.in_doubt)) return "";
  return "has results that only handlers with the key of a quarantined one have confirmed";
}

}  // namespace

SnapshotFolder::SnapshotFolder(std::string folder, std::string training_id,
                               std::shared_ptr<const TrainedModel> model, int states,
                               std::int64_t steps)
    : folder_(std::move(folder)),
      training_id_(std::move(training_id)),
      model_(std::move(model)),
      states_(states),
      steps_(steps) {}

std::string SnapshotFolder::PathOf(std::int64_t version) const {
  return folder_ + "/" + SnapshotFileName(version);
}

std::unique_ptr<ModelWriter> SnapshotFolder::Begin(const RunState& state) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw FailureError(
        fmt::format("cannot make the folder for snapshots {}: {}", folder_, error.message()));
  }
  SnapshotExtras extras;
  extras.states = states_;
  extras.steps = state.version;
  extras.metadata[kTrainingName] = training_id_;
  extras.metadata[kStateName] = TextOf(state);
  return std::make_unique<ModelWriter>(PathOf(state.version), *model_, extras);
}

std::vector<std::string> SnapshotFolder::Files(const char* suffix) const {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(suffix)) paths.push_back(at->path().string());
  }
  if (error) RequireOpenedOrAbsent(folder_, error.value());
  std::sort(paths.rbegin(), paths.rend());
  return paths;
}

std::vector<std::string> SnapshotFolder::FilesUpTo(std::int64_t version) const {
  std::vector<std::string> paths = Files(kSuffix);
  std::erase_if(paths, [last = PathOf(version)](const std::string& path) { return path > last; });
  return paths;
}

void SnapshotFolder::KeepNewest(std::size_t count, std::int64_t version) const {
  try {
    RemoveAllBut(count, FilesUpTo(version));
  } catch (const Unreadable&) {  // what is not known stays
  }
}

void SnapshotFolder::RemoveAllBut(std::size_t count, const std::vector<std::string>& paths) const {
  std::error_code ignored;
  std::set<std::string> sought;  // contributors to all snapshots so far
  if (count > 0 && !paths.empty()) {
    const std::optional<RunState> newest = StateOf(paths.front());
    // Without audits, no handler will turn out to be wrong.
    if (newest && newest->audited) {
      sought.insert(newest->contributors.begin(), newest->contributors.end());
    }
  }
  std::vector<std::string> fallbacks;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::set<std::string> still;
    if (!sought.empty()) {
      const std::optional<RunState> state = StateOf(paths[i]);
      if (state) still = state->ContributorsAmong(sought);
    }
    if (i >= count && still.size() == sought.size()) {
      fs::remove(paths[i], ignored);
    } else if (i >= count) {
      fallbacks.push_back(paths[i]);
    }
    sought = std::move(still);
  }
  while (fallbacks.size() > kMaxFallbacks) {
    const auto least = LeastNeeded(fallbacks, paths.front(), paths[count - 1]);
    fs::remove(fallbacks[least], ignored);
    fallbacks.erase(fallbacks.begin() + static_cast<std::ptrdiff_t>(least));
  }
  for (const std::string& path : Files(kUnfinishedSuffix)) fs::remove(path, ignored);
}

std::optional<RunState> SnapshotFolder::StateOf(const std::string& path) const {
  try {
    const SafetensorsFile file(path);
    const auto text = file.metadata().find(kStateName);
    if (text == file.metadata().end()) return std::nullopt;
    return ParseRunState(text->second);
  } catch (const Unreadable&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void SnapshotFolder::RemoveIf(const std::function<bool(const RunState&)>& is_bad) const {
  for (const std::string& path : Files(kSuffix)) {
    const std::optional<RunState> state = StateOf(path);
    std::error_code ignored;
    if (state && is_bad(*state) && fs::remove(path, ignored)) SyncFolderOf(path);
  }
}

void SnapshotFolder::RemoveOf(const std::set<std::string>& wrong) const {
  RemoveIf([&](const RunState& state) { return state.MayDependOn(wrong); });
}

void SnapshotFolder::RemoveUnconfirmedOf(const DoubtfulKeys& keys) const {
  RemoveIf([&](const RunState& state) { return state.HasUnconfirmedOf(keys); });
}

void SnapshotFolder::RemoveNewerThan(std::int64_t version) const {
  std::error_code ignored;
  for (const std::string& path : Files(kSuffix)) {
    if (path > PathOf(version)) fs::remove(path, ignored);
  }
}

bool SnapshotFolder::RemoveUnfinished() const {
  bool removed = false;
  for (const std::string& path : Files(kUnfinishedSuffix)) removed |= RemoveUnfinishedFile(path);
  return removed;
}

bool SnapshotFolder::MakeRoom(const std::function<void()>& go_on) const try {
  if (RemoveUnfinished()) return true;
  const std::size_t before = Files(kSuffix).size();
  if (before < 2) return false;
  bool others = false;
  const auto newest = Newest([](const std::string&) {}, &others, go_on);
  if (!newest) return false;
  RemoveNewerThan(newest->state.version);  // newer ones are damaged
  KeepNewest(1, newest->state.version);
  if (Files(kSuffix).size() < before) return true;
  const std::vector<std::string> paths = FilesUpTo(newest->state.version);
  if (paths.size() < 2) return false;
  // Only fallbacks are left besides the newest one. The oldest is the last resort for all handlers.
  std::error_code error;
  return fs::remove(paths[std::max<std::size_t>(paths.size() - 2, 1)], error);
} catch (const Unreadable&) {
  return false;
}

void SnapshotFolder::Remove(std::int64_t version) const {
  std::error_code ignored;
  fs::remove(PathOf(version), ignored);
}

void SnapshotFolder::RemoveAll() const {
  try {
    RemoveAllBut(0, Files(kSuffix));
  } catch (const Unreadable&) {  // as in KeepNewest
  }
  std::error_code ignored;
  fs::remove(folder_, ignored);  // fails if something else is in it
}

std::optional<RunState> SnapshotFolder::ReadState(const SafetensorsFile& file,
                                                  const std::function<void()>& go_on,
                                                  std::string* problem, bool* others) const {
  const auto text = [&file](const char* name) {
    const auto found = file.metadata().find(name);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  if (!file.ChecksumIsRight(go_on) && !IsPlanted(ManagerBug::kSnapshotIsNotChecked)) {
    *problem = "is damaged: its checksum is wrong";
    return std::nullopt;
  }
  if (text(kTrainingName) != training_id_) {
    *others = true;
    *problem = fmt::format(
        "is of another training ({}, this one is {}): its data, model, seed or training settings "
        "differ, or an acan whose arithmetic differs wrote it",
        text(kTrainingName), training_id_);
    return std::nullopt;
  }
  std::optional<RunState> state = ParseRunState(text(kStateName));
  if (!state) {
    *others = true;
    *problem = "does not have the contents that this version of acan writes";
  } else if (state->version > steps_) {
    *problem = fmt::format("says that it is of step {}, but the training has {} steps",
                           state->version, steps_);
    return std::nullopt;
  }
  return state;
}

// Null if the file lacks tensors, as one of an earlier version of acan may.
std::shared_ptr<const ModelReader> SnapshotFolder::ReadTensors(
    const std::shared_ptr<const SafetensorsFile>& file, bool* others) const {
  try {
    auto reader =
        std::make_shared<const ModelReader>(file, *model_, ModelReader::Take::kWithStates);
    if (reader->states() == states_) return reader;
  } catch (const Unreadable&) {
    throw;
  } catch (const Error&) {  // it is of another model
  }
  *others = true;
  return nullptr;
}

std::optional<SnapshotFolder::Found> SnapshotFolder::Newest(
    const std::function<void(const std::string&)>& say, bool* others,
    const std::function<void()>& go_on, const BarredSnapshots& barred) const {
  *others = false;
  for (const std::string& path : Files(kSuffix)) {
    // Not read: it would not be used, whether or not the system can read it.
    if (barred.newest && path > PathOf(*barred.newest)) {
      say(fmt::format("snapshot {} is newer than the last good version, {}; skipping it", path,
                      *barred.newest));
      continue;
    }
    std::string problem;
    try {
      const auto file = std::make_shared<const SafetensorsFile>(path);
      const std::optional<RunState> state = ReadState(*file, go_on, &problem, others);
      if (state) problem = WhyBarred(*state, barred);
      if (state && problem.empty()) {
        if (auto tensors = ReadTensors(file, others)) {
          return Found{path, *state, std::move(tensors)};
        }
        problem = "does not have the contents that this version of acan writes";
      }
      say(fmt::format("snapshot {} {}; skipping it", path, problem));
    } catch (const Unreadable& error) {
      throw Unreadable(error,
                       fmt::format("snapshot {}; it may be intact, so the run does not begin "
                                   "without it: try again, or move the file away if it is "
                                   "lost",
                                   error.what()));
    } catch (const Error& error) {
      say(fmt::format("snapshot {}; skipping it", error.what()));
    }
  }
  return std::nullopt;
}

std::string TrainingIdOfSnapshot(const std::string& path) try {
  const SafetensorsFile file(path);
  const auto found = file.metadata().find(kTrainingName);
  return found == file.metadata().end() ? "" : found->second;
} catch (const Error&) {
  return "";
}

}  // namespace acan
