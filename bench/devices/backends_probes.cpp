#include "backends_probes.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "kernel_probes.h"

namespace acan::bench {
namespace {

constexpr std::int64_t kProductBlock = 64;
constexpr std::size_t kRows = 3;
constexpr std::size_t kColumns = 4;

struct Product {
  GemmForm form;
  std::int64_t batch;
  LayerShape layer;
};

std::function<void(int)> ProductRun(const std::shared_ptr<WorkArea>& area, const Product& of,
                                    Precision precision) {
  const Matrix x = area->Wide(0, {of.batch, of.layer.inputs});
  const Matrix w = area->Wide(1, {of.layer.outputs, of.layer.inputs});
  const Matrix y = area->Wide(2, {of.batch, of.layer.outputs});
  const bool forward = of.form == GemmForm::kForward;
  const bool gradient = of.form == GemmForm::kGradient;
  const Matrix& a = forward ? x : y;
  const Matrix& b = gradient ? x : w;
  const Matrix& like = forward ? y : gradient ? w : x;
  const Matrix c = area->Wide(3, {like.rows, like.cols});
  return [=](int runs) {
    Device& device = area->device();
    for (int i = 0; i < runs; ++i) device.Gemm(of.form, precision, kProductBlock, a, b, c);
    device.Synchronize();
  };
}

Group ProductGroup(const std::shared_ptr<WorkArea>& area, const std::shared_ptr<WorkArea>& library,
                   bool own_library, const Product& of) {
  constexpr std::array<const char*, 3> kForms{"forward", "backward", "gradient"};
  const double flops =
      2.0 * static_cast<double>(of.batch) * static_cast<double>(of.layer.inputs * of.layer.outputs);
  const auto facts = [&](const char* precision) -> nlohmann::json {
    return {{"form", kForms[static_cast<std::size_t>(of.form)]},
            {"precision", precision},
            {"batch", of.batch},
            {"inputs", of.layer.inputs},
            {"outputs", of.layer.outputs}};
  };
  const DeviceInfo& info = area->device().info();
  Group group{"products", {}};
  if (info.exact) {
    group.probes.push_back({facts("exact"), flops, false, ProductRun(area, of, Precision::kExact)});
  }
  if (info.fast) {
    group.probes.push_back(
        {facts("fast"), flops, own_library, ProductRun(area, of, Precision::kFast)});
  }
  if (library) {
    group.probes.push_back({nullptr, flops, true, ProductRun(library, of, Precision::kFast)});
  }
  return group;
}

Group TransferGroup(const std::shared_ptr<WorkArea>& area, std::int64_t bytes, bool shares) {
  const auto size = static_cast<std::size_t>(bytes);
  const auto work = static_cast<double>(bytes);
  Device& device = area->device();
  const auto from = std::make_shared<std::vector<char>>(size, '\1');
  const auto to = std::make_shared<std::vector<char>>(size);
  const tuplespace::Payload payload(from, from->data(), size);
  // One word more than is copied, because whole buffers are not copied if the memory is the host's.
  const BufferPtr buffer = device.Allocate(size + 4);
  const Matrix part{buffer.get(), 0, 1, bytes / 4, bytes / 4};
  device.CopyIn(payload, part);
  Group group{"transfers", {}};
  group.probes.push_back({nullptr, work, true, [=](int runs) {
                            for (int i = 0; i < runs; ++i) {
                              std::memcpy(to->data(), from->data(), size);
                              asm volatile("" : : "r"(to->data()) : "memory");  // counts as a read
                            }
                          }});
  group.probes.push_back({{{"direction", "up"}, {"bytes", bytes}}, work, false, [=](int runs) {
                            Device& to_device = area->device();
                            for (int i = 0; i < runs; ++i) {
                              if (shares) {
                                to_device.CopyIn(payload, part);
                              } else {
                                to_device.Upload(payload);
                              }
                            }
                            to_device.Synchronize();
                          }});
  group.probes.push_back({{{"direction", "down"}, {"bytes", bytes}}, work, false, [=](int runs) {
                            for (int i = 0; i < runs; ++i) area->device().Download(buffer, part);
                          }});
  return group;
}

Group OverheadGroup(const std::shared_ptr<WorkArea>& area) {
  constexpr std::int64_t kWords = 64;
  Probe probe;
  probe.facts = {{"task", "allocate, fill 64 values, download"}};
  probe.run = [area](int runs) {
    Device& device = area->device();
    for (int i = 0; i < runs; ++i) {
      const BufferPtr buffer = device.Allocate(4 * kWords);
      KernelArgs args;
      args.m[0] = {buffer.get(), 0, 1, kWords, kWords};
      device.Launch(Kernel::kFill, args);
      device.Download(buffer, args.m[0]);
    }
  };
  return {"overhead", {std::move(probe)}};
}

}  // namespace

WorkArea::WorkArea(Device& device, const ProbeSizes& sizes) : device_(device) {
  std::vector<MatrixShape> shapes = {sizes.weights, sizes.activations};
  for (const LayerShape& layer : sizes.layers) {
    shapes.push_back({layer.outputs, layer.inputs});
    for (const std::int64_t batch : sizes.batches) {
      shapes.push_back({batch, std::max(layer.inputs, layer.outputs)});
    }
  }
  const auto area = [](const MatrixShape& each) { return each.rows * each.cols; };
  MatrixShape widest{0, 0};
  std::int64_t most_cols = 0;
  most_rows_ = 0;
  for (const MatrixShape& each : shapes) {
    if (area(each) > area(widest)) widest = each;
    most_rows_ = std::max(most_rows_, each.rows);
    most_cols = std::max(most_cols, each.cols);
  }
  const auto allocate = [&](std::int64_t words) {
    return device.Allocate(4 * static_cast<std::uint64_t>(words));
  };
  for (std::size_t i = 0; i < kWide; ++i) wide_.push_back(allocate(area(widest)));
  for (std::size_t i = 0; i < kRows; ++i) rows_.push_back(allocate(most_cols));
  columns_ = allocate(most_rows_ * static_cast<std::int64_t>(kColumns));
  KernelArgs args;
  args.scalars = {.f = {0.01f, 1.0f}, .i = {1, 0, 0, 0, widest.cols}};
  const auto fill = [&](Kernel kernel, const Matrix& matrix) {
    args.m[0] = matrix;
    device_.Launch(kernel, args);
    ++args.scalars.i[1];
  };
  for (std::size_t i = 0; i < kWide; ++i) fill(Kernel::kUniform, Wide(i, widest));
  for (std::size_t i = 0; i < kRows; ++i) fill(Kernel::kUniform, Row(i, most_cols));
  args.scalars.f = {};
  for (std::size_t i = 0; i < kColumns; ++i) fill(Kernel::kFill, Column(i, most_rows_));
  device_.Synchronize();
}

Matrix WorkArea::Wide(std::size_t index, MatrixShape shape) const {
  assert(index < kWide);
  return {wide_[index].get(), 0, shape.rows, shape.cols, shape.cols};
}

Matrix WorkArea::Row(std::size_t index, std::int64_t cols) const {
  assert(index < kRows);
  return {rows_[index].get(), 0, 1, cols, cols};
}

Matrix WorkArea::Column(std::size_t index, std::int64_t rows) const {
  assert(index < kColumns);
  return {columns_.get(), static_cast<std::int64_t>(index) * most_rows_, rows, 1, 1};
}

std::vector<Group> MakeGroups(const std::shared_ptr<WorkArea>& area,
                              const std::shared_ptr<WorkArea>& library, bool own_library,
                              const ProbeSizes& sizes) {
  std::vector<Group> groups;
  for (const std::int64_t batch : sizes.batches) {
    for (const LayerShape& layer : sizes.layers) {
      for (const GemmForm form : {GemmForm::kForward, GemmForm::kBackward, GemmForm::kGradient}) {
        groups.push_back(ProductGroup(area, library, own_library, {form, batch, layer}));
      }
    }
  }
  groups.push_back(KernelGroup(area, library, true, sizes.weights));
  groups.push_back(KernelGroup(area, library, false, sizes.activations));
  const bool shares = SharesHostMemory(area->device());
  for (const std::int64_t bytes : sizes.transfer_bytes) {
    groups.push_back(TransferGroup(area, bytes, shares));
  }
  groups.push_back(OverheadGroup(area));
  return groups;
}

bool HasOwnLibrary(WorkArea& area) {
  Device& device = area.device();
  if (!device.info().fast || !device.info().exact) return device.info().fast;
  // The sums are so long that no other order of additions gives the same bits in all of them.
  constexpr std::int64_t kEdge = 256;
  const BufferPtr result = device.Allocate(4 * kEdge * kEdge);
  const Matrix c{result.get(), 0, kEdge, kEdge, kEdge};
  const Matrix part{result.get(), 0, kEdge - 1, kEdge, kEdge};  // every device copies a part
  std::array<tuplespace::Payload, 2> bits;
  for (const Precision precision : {Precision::kExact, Precision::kFast}) {
    device.Gemm(GemmForm::kForward, precision, kProductBlock, area.Wide(0, {kEdge, kEdge}),
                area.Wide(1, {kEdge, kEdge}), c);
    bits[static_cast<std::size_t>(precision)] = device.Download(result, part);
  }
  return bits[0].text() != bits[1].text();
}

bool SharesHostMemory(Device& device) {
  constexpr std::int64_t kWords = 16;
  const tuplespace::Payload payload = tuplespace::Payload::Copy(std::string(4 * kWords, '\0'));
  const BufferPtr buffer = device.Upload(payload);
  const Matrix whole{buffer.get(), 0, 1, kWords, kWords};
  return device.Download(buffer, whole).data() == payload.data();
}

}  // namespace acan::bench
