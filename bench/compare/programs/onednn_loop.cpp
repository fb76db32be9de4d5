// A training written by hand with oneDNN: fully connected layers, relu, mean squared error, SGD. It
// has one process with OpenMP threads, no graph, and allocates no buffer during training. Bias and
// relu are post-operations of the forward products, and a weight's update is a post-operation of
// its gradient product (weights += -rate * delta^T * inputs), so no weight gradient is ever
// written. A peer of training.py; prints one JSON object.
//
//   cd bench/compare/programs
//   g++ -O3 -march=native -fopenmp -std=c++20 onednn_loop.cpp -o /tmp/onednn_loop -ldnnl
//   OMP_NUM_THREADS=2 /tmp/onednn_loop BATCH STEPS WARM_STEPS RATE LAYER LAYER...
//
// Needs Debian's libdnnl-dev (2.6).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <utility>
#include <vector>

namespace {

using dnnl::memory;

struct Layer {
  memory::dim inputs, outputs;
  std::vector<float> weights, bias;      // [outputs, inputs], [outputs]
  std::vector<float> activation, delta;  // [batch, outputs]
  dnnl::matmul forward, backward, update;
};

class Net {
 public:
  Net(const std::vector<memory::dim>& sizes, memory::dim batch, float rate)
      : batch_(batch), rate_(rate) {
    std::mt19937 random(1);
    for (std::size_t l = 0; l + 1 < sizes.size(); ++l) {
      Layer layer{sizes[l], sizes[l + 1], {}, {}, {}, {}, {}, {}, {}};
      const float bound = 1.0f / std::sqrt(static_cast<float>(layer.inputs));
      std::uniform_real_distribution<float> draw(-bound, bound);
      layer.weights.resize(layer.inputs * layer.outputs);
      for (float& value : layer.weights) value = draw(random);
      layer.bias.assign(layer.outputs, 0.0f);
      layer.activation.resize(batch * layer.outputs);
      layer.delta.resize(batch * layer.outputs);
      MakeProducts(layer, /*last=*/l + 2 == sizes.size());
      layers_.push_back(std::move(layer));
    }
  }

  double Step(const float* inputs, const float* targets) {
    const float* from = inputs;
    for (Layer& layer : layers_) {
      layer.forward.execute(
          stream_, {{DNNL_ARG_SRC, Matrix(from, batch_, layer.inputs)},
                    {DNNL_ARG_WEIGHTS, Transposed(layer.weights, layer.inputs, layer.outputs)},
                    {DNNL_ARG_BIAS, Matrix(layer.bias.data(), 1, layer.outputs)},
                    {DNNL_ARG_DST, Matrix(layer.activation.data(), batch_, layer.outputs)}});
      from = layer.activation.data();
    }
    stream_.wait();
    const double loss = Loss(targets);
    for (std::size_t l = layers_.size(); l-- > 0;) {
      Layer& layer = layers_[l];
      // This must come before the weights change.
      if (l > 0) {
        Layer& below = layers_[l - 1];
        layer.backward.execute(
            stream_, {{DNNL_ARG_SRC, Matrix(layer.delta.data(), batch_, layer.outputs)},
                      {DNNL_ARG_WEIGHTS, Matrix(layer.weights.data(), layer.outputs, layer.inputs)},
                      {DNNL_ARG_DST, Matrix(below.delta.data(), batch_, layer.inputs)}});
        stream_.wait();
        ThroughRelu(below);
      }
      layer.update.execute(
          stream_, {{DNNL_ARG_SRC, Transposed(layer.delta, layer.outputs, batch_)},
                    {DNNL_ARG_WEIGHTS, Matrix(l == 0 ? inputs : layers_[l - 1].activation.data(),
                                              batch_, layer.inputs)},
                    {DNNL_ARG_DST, Matrix(layer.weights.data(), layer.outputs, layer.inputs)}});
      UpdateBias(layer);
      stream_.wait();
    }
    return loss;
  }

 private:
  static memory::desc RowMajor(memory::dim rows, memory::dim cols) {
    return {{rows, cols}, memory::data_type::f32, memory::format_tag::ab};
  }
  static memory::desc ColumnMajor(memory::dim rows, memory::dim cols) {
    return {{rows, cols}, memory::data_type::f32, memory::format_tag::ba};
  }
  memory Matrix(const float* values, memory::dim rows, memory::dim cols) const {
    return {RowMajor(rows, cols), engine_, const_cast<float*>(values)};
  }
  // `values` is [cols, rows] in memory; the result views it as [rows, cols].
  memory Transposed(const std::vector<float>& values, memory::dim rows, memory::dim cols) const {
    return {ColumnMajor(rows, cols), engine_, const_cast<float*>(values.data())};
  }

  void MakeProducts(Layer& layer, bool last) {
    const auto make = [&](const memory::desc& a, const memory::desc& b, const memory::desc& bias,
                          const memory::desc& c, const dnnl::primitive_attr& attributes) {
      return dnnl::matmul({{a, b, bias, c}, attributes, engine_});
    };
    dnnl::primitive_attr activate;
    if (!last) {
      dnnl::post_ops relu;
      relu.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
      activate.set_post_ops(relu);
    }
    layer.forward = make(RowMajor(batch_, layer.inputs), ColumnMajor(layer.inputs, layer.outputs),
                         RowMajor(1, layer.outputs), RowMajor(batch_, layer.outputs), activate);
    layer.backward = make(RowMajor(batch_, layer.outputs), RowMajor(layer.outputs, layer.inputs),
                          {}, RowMajor(batch_, layer.inputs), {});
    dnnl::primitive_attr add;
    add.set_output_scales(0, {-rate_});
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    add.set_post_ops(sum);
    layer.update = make(ColumnMajor(layer.outputs, batch_), RowMajor(batch_, layer.inputs), {},
                        RowMajor(layer.outputs, layer.inputs), add);
  }

  double Loss(const float* targets) {
    Layer& top = layers_.back();
    const auto values = static_cast<std::ptrdiff_t>(top.delta.size());
    double sum = 0;
    for (std::ptrdiff_t i = 0; i < values; ++i) {
      const float difference = top.activation[i] - targets[i];
      sum += static_cast<double>(difference) * difference;
      top.delta[i] = 2.0f * difference / static_cast<float>(values);
    }
    return sum / static_cast<double>(values);
  }

  static void ThroughRelu(Layer& layer) {
    const auto values = static_cast<std::ptrdiff_t>(layer.delta.size());
#pragma omp parallel for simd schedule(static)
    for (std::ptrdiff_t i = 0; i < values; ++i) {
      if (!(layer.activation[i] > 0)) layer.delta[i] = 0;
    }
  }

  void UpdateBias(Layer& layer) const {
    const memory::dim parts = (layer.outputs + 255) / 256;
#pragma omp parallel for schedule(static)
    for (memory::dim part = 0; part < parts; ++part) {
      const memory::dim end = std::min(layer.outputs, (part + 1) * 256);
      for (memory::dim row = 0; row < batch_; ++row) {
        const float* delta = layer.delta.data() + row * layer.outputs;
        for (memory::dim i = part * 256; i < end; ++i) layer.bias[i] -= rate_ * delta[i];
      }
    }
  }

  const memory::dim batch_;
  const float rate_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Layer> layers_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "usage: onednn_loop BATCH STEPS WARM_STEPS RATE LAYER LAYER...\n");
    return 2;
  }
  const memory::dim batch = std::atol(argv[1]);
  const int steps = std::atoi(argv[2]), warm_steps = std::atoi(argv[3]);
  std::vector<memory::dim> sizes;
  for (int i = 5; i < argc; ++i) sizes.push_back(std::atol(argv[i]));
  Net net(sizes, batch, std::strtof(argv[4], nullptr));

  // Eight complete batches, so that nothing is gathered.
  constexpr std::size_t kBatches = 8;
  std::mt19937 random(2);
  std::uniform_real_distribution<float> draw(0.0f, 1.0f);
  std::vector<float> inputs(kBatches * batch * sizes.front());
  std::vector<float> targets(kBatches * batch * sizes.back());
  for (float& value : inputs) value = draw(random);
  for (float& value : targets) value = draw(random);

  using Clock = std::chrono::steady_clock;
  Clock::time_point begin;
  double first = 0, last = 0;
  for (int step = 0; step < warm_steps + steps; ++step) {
    if (step == warm_steps) begin = Clock::now();
    const std::size_t at = static_cast<std::size_t>(step) % kBatches * batch;
    last = net.Step(&inputs[at * sizes.front()], &targets[at * sizes.back()]);
    if (step == 0) first = last;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const dnnl_version_t* version = dnnl_version();
  std::printf(
      R"({"samples_per_s": %.1f, "first_loss": %.6f, "last_loss": %.6f, "onednn": "%d.%d.%d"})"
      "\n",
      static_cast<double>(batch * steps) / seconds, first, last, version->major, version->minor,
      version->patch);
  return last < first ? 0 : 1;  // it did learn
}
