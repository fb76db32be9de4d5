// NoteLog: what a receipt will say about a run and nothing else records until then
// (conflicts.jsonl, quarantine.jsonl), with one JSON object per line. A line is on the disk as soon
// as it is known, so that the receipt contains it even if everything ends before the next snapshot.
// For one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace acan {

struct Note {
  std::string about;  // the key of a tuple, the id of a handler
  std::string text;
};

class NoteLog {
 public:
  // `about` is the name of that field in the file. Ignores lines of other trainings than `job_id`.
  // Touches no file.
  NoteLog(std::string path, std::string job_id, const char* about)
      : path_(std::move(path)), job_id_(std::move(job_id)), about_(about) {}

  // All whole lines; a kill may have cut the last one short. Throws Unreadable, and Error (failure)
  // for a line longer than 1 MiB, as a missing note could make a wrong handler trusted again. A
  // pipe or a device has no lines.
  std::vector<Note> Read() const;
  // Throws Error (failure).
  void Add(const Note& note) const;
  void Remove() const;

 private:
  const std::string path_;
  const std::string job_id_;
  const char* const about_;
};

}  // namespace acan
