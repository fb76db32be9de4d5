// For tests of files of models other than perceptrons: small models, writers of files whose values
// all differ, and a parser that is not the product's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/model_file.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {

inline std::shared_ptr<const TrainedModel> Build(const ModelOptions& options,
                                                 std::vector<std::string> freeze = {}) {
  Job job;
  job.model = options;
  job.freeze = std::move(freeze);
  return BuildModel(job);
}

inline model::GptOptions SmallGpt() {
  model::GptOptions options;
  options.n_layer = 1;
  options.n_head = 2;
  options.n_embd = 6;
  options.block_size = 5;
  options.vocab_size = 7;
  return options;
}

inline model::LlamaOptions SmallLlama() {
  model::LlamaOptions options;
  options.vocab_size = 7;
  options.hidden_size = 8;
  options.intermediate_size = 10;
  options.num_hidden_layers = 1;
  options.num_attention_heads = 2;
  options.max_position_embeddings = 5;
  return options;
}

// The value at a place of acan's matrix; all values differ.
inline float GraphValueAt(std::size_t tensor, std::int64_t row, std::int64_t col) {
  return static_cast<float>(tensor) * 4096.0f + static_cast<float>(row) * 64.0f +
         static_cast<float>(col) + 0.5f;
}

inline std::vector<float> Part(std::size_t tensor, std::int64_t row, std::int64_t col,
                               std::int64_t rows, std::int64_t cols) {
  std::vector<float> values;
  for (std::int64_t r = row; r < row + rows; ++r) {
    for (std::int64_t c = col; c < col + cols; ++c) values.push_back(GraphValueAt(tensor, r, c));
  }
  return values;
}

// Writes every tensor in tiles of at most `tile` x `tile`, the last tensor first.
inline void WriteTiles(ModelWriter& writer, const std::vector<TensorInfo>& tensors,
                       std::int64_t tile) {
  for (std::size_t i = tensors.size(); i-- > 0;) {
    for (std::int64_t row = 0; row < tensors[i].rows; row += tile) {
      for (std::int64_t col = 0; col < tensors[i].cols; col += tile) {
        const std::int64_t rows = std::min(tile, tensors[i].rows - row);
        const std::int64_t cols = std::min(tile, tensors[i].cols - col);
        writer.Write(i, row, col, rows, cols, Part(i, row, col, rows, cols));
      }
    }
  }
}

inline std::string WriteGraphModel(const std::string& path, const TrainedModel& model,
                                   std::int64_t tile, std::int64_t steps = 0) {
  ModelWriter writer(path, model, steps);
  WriteTiles(writer, ModelTensors(model), tile);
  return writer.Finish();
}

// The header and the values of a file, parsed without the product's reader.
struct Parsed {
  nlohmann::json header;
  std::string values;

  std::string Bytes(const std::string& name) const {
    const auto& at = header.at(name).at("data_offsets");
    return values.substr(at.at(0), at.at(1).get<std::size_t>() - at.at(0).get<std::size_t>());
  }
  std::string Whole() const {
    const std::string text = header.dump();
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(text.size() >> (8 * i) & 0xff);
    return bytes + text + values;
  }
  void Append(const std::string& name, const std::string& type, const nlohmann::json& shape,
              const std::string& bytes) {
    header[name] = {{"dtype", type},
                    {"shape", shape},
                    {"data_offsets", {values.size(), values.size() + bytes.size()}}};
    values += bytes;
  }
};

inline Parsed Parse(const std::string& path) {
  const std::string file = ReadWhole(path);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  return {nlohmann::json::parse(file.substr(8, length)), file.substr(8 + length)};
}

}  // namespace acan
