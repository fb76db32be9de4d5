// Uploads what a model's calls read, runs the calls, and downloads their result.
#pragma once

#include <cstddef>
#include <vector>

#include "acan/core/device.h"
#include "acan/manager/lowered_graph.h"
#include "acan/manager/model_file.h"
#include "acan/manager/row_calls.h"

namespace acan {

BufferPtr UploadWords(Device& device, const void* words, std::size_t count);
// The values of all parameters, indexed by parameter. Throws OutOfMemory as Device does.
std::vector<BufferPtr> UploadWeights(Device& device, const ModelReader& weights);
// The cosines and the sines of each rotary table, in turn.
std::vector<BufferPtr> UploadTables(Device& device, const LoweredGraph& graph);
// Allocates the buffers that are null and runs the calls. Returns all buffers.
std::vector<BufferPtr> RunToEnd(Device& device, const RowCalls& rows,
                                std::vector<BufferPtr> buffers);
// As RunToEnd; returns the rows of the calls' result. Throws Error (failure) if no single buffer
// holds the whole result.
std::vector<float> RunRows(Device& device, const RowCalls& rows, std::vector<BufferPtr> buffers);

}  // namespace acan
