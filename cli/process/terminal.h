// Terminal: stderr, shared by log lines and a live line at the bottom.
#pragma once

#include <mutex>
#include <string>

namespace acan::cli {

// Thread safe.
class Terminal {
 public:
  Terminal();
  ~Terminal();  // ends the live line
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool live() const { return live_; }      // stderr is a terminal that can rewrite a line
  bool colour() const { return colour_; }  // and NO_COLOR is not set

  // Writes a whole line above the live line. `line` has no newline.
  void Line(const std::string& line);
  // Replaces the live line, cut to the terminal's width. Does nothing unless live().
  void Live(const std::string& text);
  // Removes the live line.
  void EndLive();

 private:
  void Write(const std::string& bytes);

  bool live_ = false;
  bool colour_ = false;
  std::mutex mutex_;
  std::string text_;  // the live line as shown; empty: none
};

}  // namespace acan::cli
