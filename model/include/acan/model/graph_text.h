// Graph files: a model's graph as JSON text, written by people or by other programs.
// docs/graph_files.md defines the format. Pure: the caller reads and writes the files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "acan/model/graph.h"
#include "acan/model/presets.h"

namespace acan::model {

inline constexpr std::string_view kGraphFormat = "acan-graph-1";

// Limits of a graph file.
inline constexpr std::int64_t kMaxGraphFileBytes = std::int64_t{1} << 26;
inline constexpr std::size_t kMaxGraphInputs = 64;
inline constexpr std::size_t kMaxGraphParameters = 1 << 20;
inline constexpr std::size_t kMaxGraphOutputs = 1024;
inline constexpr std::size_t kMaxGraphOperands = 4096;  // of one node
inline constexpr std::size_t kMaxGraphNameBytes = 512;
inline constexpr std::int64_t kMaxGraphElements = std::int64_t{1} << 40;  // of all parameters

// Builds the graph of the text, for training or for evaluation. In evaluation, dropout does
// nothing, and batch norms use their running statistics. Both graphs have the same parameters in
// the same order, as presets do. Throws Error (usage) that begins with `name` and names the input,
// parameter or node, what was found and what is expected.
Graph ReadGraph(std::string_view text, const std::string& name, Mode mode);

// The text from which ReadGraph builds the same graph. REQUIRES: `training` was made by a
// preset or by ReadGraph in the mode kTraining, and has no gradients.
std::string WriteGraph(const Graph& training);

}  // namespace acan::model
