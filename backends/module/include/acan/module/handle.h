// RAII owners for objects of a driver.
#pragma once

#include <utility>

namespace acan {

// Owns one object, or one reference to it. Errors of its release are ignored.
template <typename T, auto kRelease>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T object) : object_(object) {}
  ~Handle() {
    if (object_ != nullptr) kRelease(object_);
  }
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  T get() const { return object_; }

 private:
  T object_ = nullptr;
};

}  // namespace acan
