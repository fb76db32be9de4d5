#include "plain_loop.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "acan/core/schedule.h"
#include "acan/manager/model_file.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/sha256.h"
#include "tuplespace/payload.h"

namespace acan::bench {
namespace {

std::uint64_t Bytes(std::int64_t rows, std::int64_t cols) {
  return 4 * static_cast<std::uint64_t>(rows * cols);
}

}  // namespace

PlainLoop::PlainLoop(Device& device, const Job& job, const SampleSet& data)
    : device_(device), job_(job), data_(data) {
  const std::int64_t batch = job.training.batch;
  total_steps_ = TotalSteps(job.training, data.samples());
  const Perceptron& model = job.perceptron();
  for (int l = 0; l < model.layer_count(); ++l) {
    const std::int64_t in = model.inputs(l);
    const std::int64_t out = model.outputs(l);
    Layer layer;
    layer.weight = MakeTensor(2 * l, out, in, in);
    layer.bias = MakeTensor(2 * l + 1, 1, out, in);
    layer.activation = device.Allocate(Bytes(batch, out));
    layer.delta = device.Allocate(Bytes(batch, out));
    if (RowOf(model.activation).gradient_takes_input)
      layer.sums = device.Allocate(Bytes(batch, out));
    layers_.push_back(std::move(layer));
  }
  inputs_ = device.Allocate(Bytes(batch, model.layers.front()));
  target_columns_ = model.loss == Loss::kCrossEntropy ? 1 : model.layers.back();
  targets_ = device.Allocate(Bytes(batch, target_columns_));
  per_row_ = device.Allocate(Bytes(batch, 2));
  loss_ = device.Allocate(Bytes(1, 2));
}

Matrix PlainLoop::View(const BufferPtr& buffer, std::int64_t rows, std::int64_t cols) const {
  return {buffer.get(), 0, rows, cols, cols};
}

PlainLoop::Tensor PlainLoop::MakeTensor(int number, std::int64_t rows, std::int64_t cols,
                                        std::int64_t fan_in) {
  Tensor tensor;
  tensor.rows = rows;
  tensor.cols = cols;
  tensor.values = device_.Allocate(Bytes(rows, cols));
  tensor.spare = device_.Allocate(Bytes(rows, cols));
  // Only for a bias: the gradient of a weight is replaced by the next weight.
  if (rows == 1) tensor.gradient = device_.Allocate(Bytes(rows, cols));
  const float bound = 1.0f / std::sqrt(static_cast<float>(fan_in));
  KernelArgs args;
  args.m[0] = View(tensor.values, rows, cols);
  args.scalars.f = {-bound, bound};
  args.scalars.i = {static_cast<std::int64_t>(job_.training.seed), number, 0, 0, cols};
  device_.Launch(Kernel::kUniform, args);
  for (int state = 0; state < StateCount(job_.training.optimizer); ++state) {
    tensor.state.push_back(device_.Allocate(Bytes(rows, cols)));
    tensor.spare_state.push_back(device_.Allocate(Bytes(rows, cols)));
    KernelArgs zero;
    zero.m[0] = View(tensor.state.back(), rows, cols);
    device_.Launch(Kernel::kFill, zero);
  }
  return tensor;
}

void PlainLoop::LoadBatch(std::int64_t step, std::int64_t rows) {
  const std::int64_t per_epoch = StepsPerEpoch(data_.samples(), job_.training.batch);
  const std::int64_t epoch = step / per_epoch;
  if (order_.first != epoch) {
    order_ = {epoch, EpochOrder(data_.samples(), job_.training.seed, epoch, job_.training.shuffle)};
  }
  const std::int64_t first = step % per_epoch * job_.training.batch;
  const std::int64_t in = job_.perceptron().layers.front();
  const auto batch = [&](const char* name, std::int64_t columns) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(rows * columns));
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t sample = order_.second[static_cast<std::size_t>(first + row)];
      data_.Copy({name, sample, epoch, {0, 1}, {0, columns}},
                 std::span(words).subspan(static_cast<std::size_t>(row * columns),
                                          static_cast<std::size_t>(columns)));
    }
    return tuplespace::Payload::Copy(words.data(), 4 * words.size());
  };
  const bool classes = job_.perceptron().loss == Loss::kCrossEntropy;
  device_.CopyIn(batch("x", in), View(inputs_, rows, in));
  device_.CopyIn(batch(classes ? "labels" : "targets", target_columns_),
                 View(targets_, rows, target_columns_));
}

double PlainLoop::ForwardAndLoss(std::int64_t rows) {
  const Perceptron& model = job_.perceptron();
  const std::int64_t block = job_.training.block;
  for (int l = 0; l < model.layer_count(); ++l) {
    Layer& layer = layers_[static_cast<std::size_t>(l)];
    const std::int64_t out = model.outputs(l);
    const BufferPtr& x = l == 0 ? inputs_ : layers_[static_cast<std::size_t>(l) - 1].activation;
    const Matrix z = View(layer.activation, rows, out);
    KernelArgs args;
    args.m = {z, z, View(layer.bias.values, 1, out)};
    const bool last = l + 1 == model.layer_count();
    if (layer.sums && !last) args.m[3] = View(layer.sums, rows, out);
    args.scalars.f[0] = model.clip_bound;
    args.scalars.i[0] = static_cast<std::int64_t>(last ? Activation::kIdentity : model.activation);
    device_.GemmThen(
        GemmForm::kForward, job_.training.precision, block, View(x, rows, model.inputs(l)),
        View(layer.weight.values, out, model.inputs(l)), z, Kernel::kBiasActivation, args);
  }
  const std::int64_t outputs = model.layers.back();
  const bool classes = model.loss == Loss::kCrossEntropy;
  KernelArgs args;
  args.m = {View(layers_.back().delta, rows, outputs),
            View(layers_.back().activation, rows, outputs),
            View(targets_, rows, classes ? 1 : outputs), Matrix{per_row_.get(), 0, rows, 1, 2}};
  if (classes) args.m[4] = Matrix{per_row_.get(), 1, rows, 1, 2};
  const auto samples = static_cast<float>(rows);
  args.scalars.f[0] = classes ? 1.0f / samples : 2.0f / (samples * static_cast<float>(outputs));
  args.scalars.i[0] = block;
  device_.Launch(classes ? Kernel::kSoftmaxCrossEntropy : Kernel::kSquaredError, args);
  KernelArgs sum;
  sum.m = {View(loss_, 1, 1), Matrix{per_row_.get(), 0, rows, 1, 2}};
  sum.scalars.i[0] = block;
  device_.Launch(Kernel::kColumnSums, sum);
  float loss = 0;
  const tuplespace::Payload bytes = device_.Download(loss_, View(loss_, 1, 1));
  std::memcpy(&loss, bytes.data(), sizeof loss);
  return static_cast<double>(loss) /
         (static_cast<double>(rows) * (classes ? 1.0 : static_cast<double>(outputs)));
}

KernelArgs PlainLoop::UpdateArgs(const Tensor& tensor, const BufferPtr& gradient,
                                 const KernelScalars& scalars) const {
  KernelArgs args;
  std::size_t next = 0;
  args.m[next++] = View(tensor.spare, tensor.rows, tensor.cols);
  for (const BufferPtr& state : tensor.spare_state)
    args.m[next++] = View(state, tensor.rows, tensor.cols);
  args.m[next++] = View(tensor.values, tensor.rows, tensor.cols);
  for (const BufferPtr& state : tensor.state)
    args.m[next++] = View(state, tensor.rows, tensor.cols);
  args.m[next] = View(gradient, tensor.rows, tensor.cols);
  args.scalars = scalars;
  return args;
}

void PlainLoop::TakeSpares(Tensor& tensor) {
  std::swap(tensor.values, tensor.spare);
  std::swap(tensor.state, tensor.spare_state);
}

void PlainLoop::BackwardAndUpdate(std::int64_t rows, const KernelScalars& scalars) {
  const Perceptron& model = job_.perceptron();
  const std::int64_t block = job_.training.block;
  const Precision precision = job_.training.precision;
  const Kernel optimizer = RowOf(job_.training.optimizer).kernel;
  for (int l = model.layer_count() - 1; l >= 0; --l) {
    Layer& layer = layers_[static_cast<std::size_t>(l)];
    const std::int64_t in = model.inputs(l);
    const std::int64_t out = model.outputs(l);
    const Matrix delta = View(layer.delta, rows, out);
    const BufferPtr& x = l == 0 ? inputs_ : layers_[static_cast<std::size_t>(l) - 1].activation;
    // The product is written where the next weights go, because the current weights are still
    // needed below.
    device_.GemmThen(GemmForm::kGradient, precision, block, delta, View(x, rows, in),
                     View(layer.weight.spare, out, in), optimizer,
                     UpdateArgs(layer.weight, layer.weight.spare, scalars));
    KernelArgs sums;
    sums.m = {View(layer.bias.gradient, 1, out), delta};
    sums.scalars.i[0] = block;
    device_.Launch(Kernel::kColumnSums, sums);
    if (l > 0) {
      Layer& below = layers_[static_cast<std::size_t>(l) - 1];
      const Matrix d_inputs = View(below.delta, rows, in);
      KernelArgs slope;
      slope.m = {d_inputs, d_inputs, View(below.sums ? below.sums : below.activation, rows, in)};
      slope.scalars.f[0] = model.clip_bound;
      slope.scalars.i[0] = static_cast<std::int64_t>(model.activation);
      device_.GemmThen(GemmForm::kBackward, precision, block, delta,
                       View(layer.weight.values, out, in), d_inputs, Kernel::kActivationGradient,
                       slope);
    }
    device_.Launch(optimizer, UpdateArgs(layer.bias, layer.bias.gradient, scalars));
    TakeSpares(layer.weight);
    TakeSpares(layer.bias);
  }
}

double PlainLoop::Step(std::int64_t step) {
  const std::int64_t per_epoch = StepsPerEpoch(data_.samples(), job_.training.batch);
  const std::int64_t first = step % per_epoch * job_.training.batch;
  const std::int64_t rows = std::min(job_.training.batch, data_.samples() - first);
  LoadBatch(step, rows);
  const double loss = ForwardAndLoss(rows);
  BackwardAndUpdate(rows, OptimizerScalarsAt(job_.training, step, total_steps_));
  return loss;
}

std::string PlainLoop::WeightsSha256() {
  Sha256 hash;
  for (const TensorInfo& info : ModelTensors(*BuildModel(job_))) {
    const auto number = static_cast<std::size_t>(info.matrix.parameter);
    const std::size_t layer = number / 2;  // its weights, then its bias
    Tensor& tensor = number % 2 == 1 ? layers_[layer].bias : layers_[layer].weight;
    const tuplespace::Payload bytes =
        device_.Download(tensor.values, View(tensor.values, tensor.rows, tensor.cols));
    hash.Add(bytes.data(), bytes.size());
  }
  return hash.Hex();
}

}  // namespace acan::bench
