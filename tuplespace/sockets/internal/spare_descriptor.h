// SpareDescriptor: a descriptor in reserve. It can become a duplicate of another one even if the
// process may open no more files, as after too many connections, which must then be closed.
//
// For one thread.
#pragma once

namespace tuplespace {

class SpareDescriptor {
 public:
  SpareDescriptor();  // throws std::system_error if the process may open no more files
  ~SpareDescriptor();
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  // Becomes a duplicate of `descriptor`, until Release. False: that is not open.
  bool Duplicate(int descriptor);
  void Release();
  int get() const { return spare_; }

 private:
  int nothing_ = -1;  // what the spare one stands for while it is not in use
  int spare_ = -1;
};

}  // namespace tuplespace
