#include "run_notes.h"

#include "acan/core/error.h"
#include "acan/manager/output_names.h"
#include "fmt/format.h"

namespace acan {

RunNotes::RunNotes(RunContext& context) : context_(context) {
  if (!context_.HasFolder()) return;
  conflicts_.emplace(context_.OutPath(kConflictsName), context_.job_id, "key");
  quarantine_.emplace(context_.OutPath(kQuarantineName), context_.job_id, "handler");
}

void RunNotes::Keep(const std::optional<NoteLog>& log, const Note& note,
                    const char* otherwise) const {
  if (!log) return;
  try {
    log->Add(note);
  } catch (const Error& error) {
    context_.Log(fmt::format("{}: {}", error.what(), otherwise));
  }
}

std::vector<ResultConflict> RunNotes::EarlierConflicts() const {
  std::vector<ResultConflict> conflicts;
  if (!conflicts_) return conflicts;
  for (const Note& note : conflicts_->Read()) conflicts.push_back({note.about, note.text});
  return conflicts;
}

void RunNotes::KeepConflict(const ResultConflict& conflict) const {
  Keep(conflicts_, {conflict.key, conflict.text}, "only the next snapshot will record it");
}

std::map<std::string, std::string> RunNotes::EarlierQuarantined() const {
  std::map<std::string, std::string> handlers;
  if (!quarantine_) return handlers;
  for (const Note& note : quarantine_->Read()) handlers.emplace(note.about, note.text);
  return handlers;
}

void RunNotes::KeepQuarantined(const std::map<std::string, std::string>& handlers) const {
  for (const auto& [id, why] : handlers) {
    Keep(quarantine_, {id, why}, "only the broker will remember the quarantine");
  }
}

void RunNotes::Remove() const {
  conflicts_->Remove();
  quarantine_->Remove();
}

}  // namespace acan
