#include "driver/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "sources.h"

namespace acan::opencl {
namespace {

// Never -cl-fast-relaxed-math or similar options; the absent options have IEEE's behaviour as
// default. -w: PoCL would print on our stderr that a loop could not be vectorised.
constexpr const char* kOptions = "-cl-std=CL1.2 -w";

// Stored in the cache in place of a program, to show that the program was compiled before.
constexpr std::string_view kKeptByDriver = "kept by the driver";

std::size_t RoundUp(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

Context NewContext(cl_device_id device, const std::string& name) {
  cl_int error = CL_SUCCESS;
  Context context(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error));
  Check(error, "clCreateContext", name);
  return context;
}

Queue NewQueue(cl_context context, cl_device_id device, const std::string& name) {
  cl_int error = CL_SUCCESS;
  Queue queue(clCreateCommandQueue(context, device, 0, &error));
  Check(error, "clCreateCommandQueue", name);
  return queue;
}

}  // namespace

Session::Session(Candidate candidate, const DeviceOptions& options)
    : candidate_(std::move(candidate)),
      part_(options.part),
      name_(part_ ? fmt::format("{}/{}", candidate_.listing.info.name, *part_)
                  : candidate_.listing.info.name),
      first_(options.broken.value_or("")),
      caches_programs_(!candidate_.keeps_programs || options.cache_programs),
      options_(kOptions),
      id_(part_ ? PartOf(candidate_, *part_) : candidate_.id),
      context_(NewContext(id_, name_)),
      uploads_(NewQueue(context_.get(), id_, name_)),
      health_(context_.get(), uploads_.get(), name_),
      commands_(context_.get(), id_, health_, options.fail_launch, options.fail_by_hanging),
      cache_(CacheFolder()) {
  if (candidate_.correct_divide && !options.soft_divide) {
    options_ += " -cl-fp32-correctly-rounded-divide-sqrt";
  } else {
    options_ += " -DACAN_SOFT_DIVIDE";
  }
}

Program Session::Build(const std::string& text, const std::string& macros) const {
  std::string all = first_;
  for (const char* part :
       {kPreludeText, kPhiloxText, kSoftFloatText, kMathText, kConstantsText, kArgsText}) {
    all += part;
  }
  all += text;
  const std::string options = options_ + macros;
  const std::string key = KeyOf(options + "\n" + all);
  const std::optional<std::string> kept = cache_.Load(key);
  if (kept && !caches_programs_) return FromSource(all, options);
  if (kept) {
    Program program = FromBinary(*kept, options);
    if (program.get() != nullptr) return program;
    cache_.Warn(key, fmt::format("is not accepted by the driver of {}", name_));
  }
  SayThatItCompiles();
  Program program = FromSource(all, options);
  cache_.Store(key, caches_programs_ ? BinaryOf(program) : std::string(kKeptByDriver));
  return program;
}

// Tells whoever waits for a device why it takes long.
void Session::SayThatItCompiles() const {
  if (std::exchange(said_that_it_compiles_, true)) return;
  const std::string text = fmt::format(
      "acan: {}: its driver is compiling the kernels, which may take a minute the first time\n",
      name_);
  std::fputs(text.c_str(), stderr);
}

// Null if the driver no longer accepts the binary.
Program Session::FromBinary(const std::string& binary, const std::string& options) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t size = binary.size();
  const cl_device_id device = id_;
  cl_int status = CL_SUCCESS;
  cl_int error = CL_SUCCESS;
  Program program(clCreateProgramWithBinary(context(), 1, &device, &size, &bytes, &status, &error));
  if (error != CL_SUCCESS || status != CL_SUCCESS) return {};
  if (clBuildProgram(program.get(), 1, &device, options.c_str(), nullptr, nullptr) != CL_SUCCESS) {
    return {};
  }
  return program;
}

Program Session::FromSource(const std::string& text, const std::string& options) const {
  const char* start = text.c_str();
  const cl_device_id device = id_;
  cl_int error = CL_SUCCESS;
  Program program(clCreateProgramWithSource(context(), 1, &start, nullptr, &error));
  Check(error, "clCreateProgramWithSource", name_);
  error = clBuildProgram(program.get(), 1, &device, options.c_str(), nullptr, nullptr);
  if (error == CL_SUCCESS) return program;
  std::size_t size = 0;
  clGetProgramBuildInfo(program.get(), device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  clGetProgramBuildInfo(program.get(), device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  throw BuildFailed(fmt::format("the driver of {} ({}) does not compile acan's kernels: {}\n{}",
                                name_, candidate_.listing.driver, ErrorName(error), log.c_str()));
}

std::string Session::BinaryOf(const Program& program) const {
  std::size_t size = 0;
  Check(clGetProgramInfo(program.get(), CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, nullptr),
        "clGetProgramInfo", name_);
  std::string binary(size, '\0');
  auto* bytes = reinterpret_cast<unsigned char*>(binary.data());
  Check(clGetProgramInfo(program.get(), CL_PROGRAM_BINARIES, sizeof(bytes), &bytes, nullptr),
        "clGetProgramInfo", name_);
  return binary;
}

ClKernel Session::KernelOf(const Program& program, const std::string& kernel) const {
  cl_int error = CL_SUCCESS;
  ClKernel out(clCreateKernel(program.get(), kernel.c_str(), &error));
  Check(error, "clCreateKernel " + kernel, name_);
  return out;
}

std::size_t Session::MostGroupSize(const ClKernel& kernel) const {
  std::size_t most = 0;
  Check(clGetKernelWorkGroupInfo(kernel.get(), id_, CL_KERNEL_WORK_GROUP_SIZE, sizeof(most), &most,
                                 nullptr),
        "clGetKernelWorkGroupInfo", name_);
  return std::min({most, candidate_.most_group_size, candidate_.most_kernel_group_size});
}

Memory Session::NewMemory(cl_mem_flags flags, std::size_t bytes) const {
  if (bytes > candidate_.most_allocation_bytes) {
    throw OutOfMemory(fmt::format("{} has no buffers of {} bytes; its largest have {}", name_,
                                  bytes, candidate_.most_allocation_bytes));
  }
  cl_int error = CL_SUCCESS;
  Memory memory(clCreateBuffer(context(), flags, bytes == 0 ? 4 : bytes, nullptr, &error));
  health_.Check(error, fmt::format("clCreateBuffer of {} bytes", bytes));
  return memory;
}

void Session::Run(const ClKernel& kernel, std::string_view what,
                  std::pair<std::size_t, std::size_t> global,
                  std::pair<std::size_t, std::size_t> local) {
  const std::size_t sizes[2] = {RoundUp(global.first, local.first),
                                RoundUp(global.second, local.second)};
  const std::size_t groups[2] = {local.first, local.second};
  if (local.first * local.second > candidate_.most_kernel_group_size) {
    Check(CL_INVALID_WORK_GROUP_SIZE, fmt::format("clEnqueueNDRangeKernel of {}", what), name_);
  }
  commands_.Launch(kernel.get(), what, sizes, groups);
}

}  // namespace acan::opencl
