// Objects of a driver with owners.
#pragma once

#include <utility>

namespace acan {

// Owns one object, or one reference to it; nothing can be done about an error of its release.
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
