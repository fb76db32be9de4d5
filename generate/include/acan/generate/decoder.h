// Decoder: a trained language model on one device. It reads tokens one after the other and returns
// the logits of the token that may follow. It runs the same calls that training's tasks are made
// of, always in exact precision, so its outputs have the bits of an evaluation on every device.
//
// The whole model and the keys and values of one sample must fit into the device's memory. For one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "acan/core/device.h"
#include "acan/generate/output_graph.h"
#include "acan/manager/finished_run.h"
#include "acan/manager/row_calls.h"

namespace acan {

// Throws Error (usage) if the run's model is not a language model; the message names the run's
// folder.
void RequireLanguageModel(const FinishedRun& run);

class Decoder {
 public:
  // Uploads the run's weights. Throws Error (usage) if the model is not a language model or its
  // outputs depend on later tokens; the message names the run's folder and the reason. Throws
  // OutOfMemory as Device does, and Error as FinishedRun::OpenWeights does.
  Decoder(std::unique_ptr<Device> device, const FinishedRun& run);

  std::int64_t positions() const { return positions_; }  // the maximum of length()
  std::int64_t vocabulary_size() const { return vocabulary_size_; }
  std::int64_t length() const { return length_; }  // tokens read so far

  // Reads tokens. Returns the outputs (logits) after the last one, [vocabulary_size].
  // REQUIRES: there is at least one; each is in [0, vocabulary_size);
  // length() + tokens.size() <= positions().
  std::vector<float> Read(std::span<const std::int32_t> tokens);
  // Forgets all tokens.
  void Clear() { length_ = 0; }

 private:
  void FindNodes(const FinishedRun& run);
  std::vector<float> Compute(std::span<const std::int32_t> tokens, int last_node);

  const std::unique_ptr<Device> device_;
  const OutputGraph graph_;  // of the logits
  Training training_;
  std::int64_t positions_ = 0;
  std::int64_t vocabulary_size_ = 0;
  int last_attention_ = -1;         // its last attention; -1: none
  std::vector<BufferPtr> weights_;  // by parameter; null: not read
  std::vector<BufferPtr> tables_;   // cosines and sines of each table
  std::vector<BufferPtr> caches_;   // as RowCalls::caches
  std::int64_t length_ = 0;
};

}  // namespace acan
