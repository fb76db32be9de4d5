#include "acan/model/parameter.h"

#include <cmath>
#include <utility>

namespace acan::model {

Initial UniformByInputs(std::int64_t inputs) {
  const float bound = 1.0f / std::sqrt(static_cast<float>(inputs));
  return Uniform{-bound, bound};
}

Initial XavierUniform(std::int64_t inputs, std::int64_t outputs) {
  const auto bound = static_cast<float>(std::sqrt(6.0 / static_cast<double>(inputs + outputs)));
  return Uniform{-bound, bound};
}

Parameter MatrixParameter(std::string name, std::int64_t rows, std::int64_t columns,
                          Initial initial) {
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.rows = rows;
  parameter.columns = columns;
  parameter.initial = initial;
  parameter.file_shape = {rows, columns};
  return parameter;
}

Parameter VectorParameter(std::string name, Role role, std::int64_t columns, Initial initial) {
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.role = role;
  parameter.columns = columns;
  parameter.initial = initial;
  parameter.file_shape = {columns};
  parameter.decayed = role != Role::kStatistic;
  return parameter;
}

}  // namespace acan::model
