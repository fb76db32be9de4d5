#include "uploads.h"

#include <algorithm>
#include <cstring>

#include "acan/core/error.h"
#include "acan/core/rotary_angles.h"
#include "acan/core/run_calls.h"

namespace acan {

BufferPtr UploadWords(Device& device, const void* words, std::size_t count) {
  return device.Upload(tuplespace::Payload::Copy(words, 4 * count));
}

std::vector<BufferPtr> UploadWeights(Device& device, const ModelReader& weights) {
  std::vector<BufferPtr> buffers;
  const std::vector<TensorInfo>& tensors = weights.Tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = tensors[i];
    if (tensor.matrix.state != ParameterState::kValue) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.rows * tensor.cols));
    weights.Read(i, 0, 0, tensor.rows, tensor.cols, values);
    const auto parameter = static_cast<std::size_t>(tensor.matrix.parameter);
    buffers.resize(std::max(buffers.size(), parameter + 1));
    buffers[parameter] = UploadWords(device, values.data(), values.size());
  }
  return buffers;
}

std::vector<BufferPtr> UploadTables(Device& device, const LoweredGraph& graph) {
  std::vector<BufferPtr> buffers;
  for (const RotaryTable& table : graph.tables()) {
    const RotaryTables angles = MakeRotaryTables(0, table.positions, table.head_size, table.base);
    buffers.push_back(UploadWords(device, angles.cosine.data(), angles.cosine.size()));
    buffers.push_back(UploadWords(device, angles.sine.data(), angles.sine.size()));
  }
  return buffers;
}

std::vector<BufferPtr> RunToEnd(Device& device, const RowCalls& rows,
                                std::vector<BufferPtr> buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i]) buffers[i] = device.Allocate(rows.task.buffers[i].bytes());
  }
  RunCalls(device, rows.task, buffers);
  return buffers;
}

std::vector<float> RunRows(Device& device, const RowCalls& rows, std::vector<BufferPtr> buffers) {
  buffers = RunToEnd(device, rows, std::move(buffers));
  if (rows.result.buffer < 0) throw FailureError("the model's outputs are read in parts only");
  const auto result = static_cast<std::size_t>(rows.result.buffer);
  const tuplespace::Payload payload =
      device.Download(buffers[result], MatrixOf(rows.task, buffers, rows.result));
  std::vector<float> values(payload.size() / sizeof(float));
  std::memcpy(values.data(), payload.data(), payload.size());
  return values;
}

}  // namespace acan
