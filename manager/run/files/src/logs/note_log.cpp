#include "acan/manager/note_log.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/descriptor.h"
#include "acan/manager/line_reader.h"
#include "acan/manager/text_file.h"
#include "acan/manager/unreadable.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

constexpr std::size_t kMaxNoteBytes = 1 << 20;

// A kill may have cut the last line short.
bool EndsInALine(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() <= 0) return true;
  file.seekg(-1, std::ios::end);
  return file.get() == '\n';
}

}  // namespace

std::vector<Note> NoteLog::Read() const {
  std::vector<Note> notes;
  std::error_code unknown;
  const std::filesystem::file_status status = std::filesystem::status(path_, unknown);
  // Opening a pipe would wait for a writer, and a device may have no end.
  if (std::filesystem::is_other(status)) return notes;
  errno = 0;
  std::ifstream file(path_, std::ios::binary);
  if (!file.is_open()) RequireOpenedOrAbsent(path_, errno);
  LineReader lines(file, kMaxNoteBytes);
  for (;;) {
    const LineReader::Line read = lines.Next();
    if (read == LineReader::Line::kNone) break;
    if (read == LineReader::Line::kPart) {
      throw FailureError(
          fmt::format("{}: has a line longer than any note of a run: remove that line", path_));
    }
    const nlohmann::json fields = ParseJsonOrDiscard(lines.text());
    if (!fields.is_object()) continue;
    const auto text = [&](const char* name) {
      const auto at = fields.find(name);
      return at != fields.end() && at->is_string() ? at->get<std::string>() : std::string();
    };
    if (text("job") == job_id_) notes.push_back({text(about_), text("text")});
  }
  if (file.bad()) throw Unreadable(EIO, fmt::format("{}: cannot read it to its end", path_));
  return notes;
}

void NoteLog::Add(const Note& note) const {
  RequireKeptFile(path_, Devices::kAllowed, Links::kRefused);
  const std::string line =
      (EndsInALine(path_) ? "" : "\n") +
      JsonTextReplacing({{"job", job_id_}, {about_, note.about}, {"text", note.text}}) + "\n";
  if (line.size() > kMaxNoteBytes) {  // Read would refuse it
    throw FailureError(fmt::format("{}: cannot write: the note has {} bytes, but the limit is {}",
                                   path_, line.size(), kMaxNoteBytes));
  }
  const Descriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  std::size_t done = 0;
  while (file.get() >= 0 && done < line.size()) {
    const ssize_t wrote = ::write(file.get(), line.data() + done, line.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  // Pipes and devices cannot be synced.
  if (done < line.size() || (::fdatasync(file.get()) != 0 && errno != EINVAL && errno != EROFS)) {
    ThrowFileError(path_, "write", errno);
  }
}

void NoteLog::Remove() const {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace acan
