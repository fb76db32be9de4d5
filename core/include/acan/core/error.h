// The only exception for errors of users and their machines. Bugs of acan are assertions.
#pragma once

#include <stdexcept>
#include <string>

namespace acan {

// `what()` is a whole sentence. It names the file, field or peer, the value found, and a correct
// value. main() prints it and exits with exit_code().
class Error : public std::runtime_error {
 public:
  enum class Kind {
    kUsage,    // bad flags, job files or data: exit code 2
    kFailure,  // the system refused or failed: exit code 1
  };
  Error(Kind kind, const std::string& text)
      : std::runtime_error(WithEscapedNuls(text)), kind_(kind) {}
  Kind kind() const { return kind_; }
  int exit_code() const { return kind_ == Kind::kUsage ? 2 : 1; }

 private:
  // what() would end at the first NUL of a user's text.
  static std::string WithEscapedNuls(const std::string& text) {
    std::string escaped;
    escaped.reserve(text.size());
    for (const char c : text) {
      if (c == '\0') {
        escaped += "\\x00";
      } else {
        escaped += c;
      }
    }
    return escaped;
  }

  Kind kind_;
};

inline Error UsageError(const std::string& text) {
  return {Error::Kind::kUsage, text};
}
inline Error FailureError(const std::string& text) {
  return {Error::Kind::kFailure, text};
}

}  // namespace acan
