// What a model's calls read and give, on a device.
#pragma once

#include <cstddef>
#include <vector>

#include "acan/core/device.h"
#include "acan/manager/lowered_graph.h"
#include "acan/manager/model_file.h"
#include "acan/manager/row_calls.h"

namespace acan {

BufferPtr UploadWords(Device& device, const void* words, std::size_t count);
// The values of all parameters, by parameter. Throws OutOfMemory as Device.
std::vector<BufferPtr> UploadWeights(Device& device, const ModelReader& weights);
// Cosines and sines of each table.
std::vector<BufferPtr> UploadTables(Device& device, const LoweredGraph& graph);
// Allocates the buffers that are null and runs the calls. Returns all buffers.
std::vector<BufferPtr> RunToEnd(Device& device, const RowCalls& rows,
                                std::vector<BufferPtr> buffers);
// The same; returns the rows of their result. Throws Error (failure) if it is read in parts only.
std::vector<float> RunRows(Device& device, const RowCalls& rows, std::vector<BufferPtr> buffers);

}  // namespace acan
