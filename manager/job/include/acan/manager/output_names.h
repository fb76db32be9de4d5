// The names of the files that a run writes, relative to its output folder.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace acan {

inline constexpr const char* kModelName = "model.safetensors";
inline constexpr const char* kConfigName = "config.json";
inline constexpr const char* kMetricsName = "metrics.jsonl";
inline constexpr const char* kTuningName = "tuning.jsonl";
inline constexpr const char* kConflictsName = "conflicts.jsonl";
inline constexpr const char* kQuarantineName = "quarantine.jsonl";
inline constexpr const char* kJobName = "job.json";
inline constexpr const char* kReceiptName = "receipt.json";
inline constexpr const char* kVocabularyName = "vocabulary.json";  // of jobs with text only
inline constexpr const char* kGraphName = "graph.json";            // a copy of a graph file
inline constexpr const char* kSnapshotsName = "snapshots";         // a folder
inline constexpr const char* kManagerLockName = "manager.lock";    // FolderLock, no output

// All files that are outputs.
inline constexpr std::array kOutputFiles = {
    kModelName,      kConfigName, kMetricsName, kTuningName,     kConflictsName,
    kQuarantineName, kJobName,    kReceiptName, kVocabularyName, kGraphName};

// The name of the snapshot of `version` in the folder kSnapshotsName. As strings, these names have
// the order of the versions.
std::string SnapshotFileName(std::int64_t version);
// With the folder: "snapshots/step-000000000012.safetensors".
std::string SnapshotName(std::int64_t version);

// The path of the file `name` of the run that wrote the file `weights`: it lies beside
// model.safetensors, and above the folder of snapshots. Empty if there is none.
std::string FileOfWeights(const std::string& weights, const char* name);

}  // namespace acan
