// TaskBuilder: builds a task by adding buffers, calls and results one by one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acan/core/model.h"
#include "acan/core/range.h"
#include "acan/core/task.h"
#include "acan/manager/planned_task.h"

namespace acan {

class TaskBuilder {
 public:
  TaskBuilder(TaskKind kind, const Training& training);

  // A new buffer [rows, cols].
  int NewBuffer(std::int64_t rows, std::int64_t cols);
  // A buffer that the input tuple `key` fills.
  int Input(tuplespace::Key key, std::int64_t rows, std::int64_t cols);
  // Places the input tuple `key`, [rows, cols], at (row, col) of `buffer`.
  void AddPiece(int buffer, tuplespace::Key key, std::int64_t row, std::int64_t col,
                std::int64_t rows, std::int64_t cols);
  bool IsInput(int buffer) const { return is_input_[static_cast<std::size_t>(buffer)]; }
  // A buffer of the same shape that may be written: `buffer` itself unless it is an input.
  int Writable(int buffer);

  View All(int buffer) const;
  View Part(int buffer, std::int64_t row, std::int64_t col, std::int64_t rows,
            std::int64_t cols) const;

  void Gemm(GemmForm form, int a, int b, int c) { Product(form, All(a), All(b), All(c)); }
  void Product(GemmForm form, View a, View b, View c);
  void Launch(Kernel kernel, std::vector<View> views, KernelScalars scalars = {});
  // Reduces partial sums over `ranges` by the canonical tree; returns the buffer of the total. A
  // part -1 is an empty sum, which the tree skips.
  int Sum(const std::vector<int>& parts, const std::vector<Range>& ranges);

  void Put(tuplespace::Key key, View view, bool keep = false);
  void SetAffinity(int input_buffer);

  PlannedTask Finish(tuplespace::Key key, std::int64_t priority, int segment) &&;

 private:
  std::uint32_t InputIndex(tuplespace::Key key);
  void GrowIndex();

  Task task_;
  std::vector<tuplespace::Key> inputs_;
  // An index into inputs_ by the hashes of keys, with open addressing: planning looks up millions
  // of inputs, and a map would allocate a node and a copy of the key for each. Empty while there
  // are few inputs.
  std::vector<std::uint32_t> index_;
  std::vector<bool> is_input_;
  std::int32_t affinity_ = -1;
};

}  // namespace acan
