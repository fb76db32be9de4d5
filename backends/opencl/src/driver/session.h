// Session: an open device with its context, queues and programs, shared by the Device and its
// products.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "acan/opencl/opencl_devices.h"
#include "driver/cl.h"
#include "driver/command_queue.h"
#include "driver/device_health.h"
#include "driver/platform.h"
#include "driver/program_cache.h"

namespace acan::opencl {

// The driver does not compile a program. what() ends with the compiler's log.
class BuildFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Session {
 public:
  Session(Candidate candidate, const DeviceOptions& options);

  const Candidate& candidate() const { return candidate_; }
  const std::string& name() const { return name_; }  // "opencl:0/1"
  int compute_units() const { return part_ ? 1 : candidate_.listing.info.threads; }
  cl_context context() const { return context_.get(); }
  CommandQueue& commands() { return commands_; }
  cl_command_queue uploads() const { return uploads_.get(); }  // beside commands(); any thread
  const DeviceHealth& health() const { return health_; }
  const ProgramCache& cache() const { return cache_; }
  std::string KeyOf(const std::string& what) const { return candidate_.identity + what; }

  // Compiles prelude and arithmetic followed by `text`, or takes the program from the cache. A
  // driver that keeps programs itself gets the text each time. Throws BuildFailed.
  Program Build(const std::string& text, const std::string& macros) const;
  ClKernel KernelOf(const Program& program, const std::string& kernel) const;
  // The most work-items of a group that runs `kernel`: fewer than the device allows if the kernel
  // uses many registers.
  std::size_t MostGroupSize(const ClKernel& kernel) const;
  // Throws OutOfMemory, also for more than the device's largest buffer has. Any thread.
  Memory NewMemory(cl_mem_flags flags, std::size_t bytes) const;

  // Enqueues `kernel` over `global` work-items in groups of `local`; global is rounded up. `what`
  // as for CommandQueue.
  void Run(const ClKernel& kernel, std::string_view what,
           std::pair<std::size_t, std::size_t> global, std::pair<std::size_t, std::size_t> local);
  void Finish() { commands_.Finish(); }

  // Gives each group that runs `kernel` so many bytes of local memory as argument `index`.
  void SetLocal(const ClKernel& kernel, std::size_t index, std::size_t bytes) const {
    Check(clSetKernelArg(kernel.get(), static_cast<cl_uint>(index), bytes, nullptr),
          "clSetKernelArg", name_);
  }

  template <typename... Args>
  void SetArgs(const ClKernel& kernel, const Args&... args) const {
    cl_uint index = 0;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): of a pointer it takes the pointer itself
    (Check(clSetKernelArg(kernel.get(), index++, sizeof(args), &args), "clSetKernelArg", name_),
     ...);
  }

 private:
  void SayThatItCompiles() const;
  Program FromBinary(const std::string& binary, const std::string& options) const;
  Program FromSource(const std::string& text, const std::string& options) const;
  std::string BinaryOf(const Program& program) const;

  Candidate candidate_;
  std::optional<int> part_;
  std::string name_;
  std::string first_;
  bool caches_programs_;
  mutable bool said_that_it_compiles_ = false;
  std::string options_;
  cl_device_id id_;
  Context context_;
  Queue uploads_;
  DeviceHealth health_;
  CommandQueue commands_;
  ProgramCache cache_;
};

}  // namespace acan::opencl
