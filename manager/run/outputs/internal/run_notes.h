// RunNotes: what an earlier life or process of a run found and the receipt will say: conflicts of
// results, and handlers in quarantine. They are kept in the output folder. Without a folder it does
// nothing. For one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "acan/manager/note_log.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_context.h"

namespace acan {

class RunNotes {
 public:
  // Touches no file. The context must outlive it.
  explicit RunNotes(RunContext& context);

  // Conflicts that an earlier life or process found, including those after its last snapshot.
  // Throws as NoteLog::Read, and so does EarlierQuarantined.
  std::vector<ResultConflict> EarlierConflicts() const;
  // Written at once, because a conflict does not end the run, and the manager may be killed before
  // the next snapshot.
  void KeepConflict(const ResultConflict& conflict) const;
  // The same for handlers in quarantine, by client id, or by key ("name/"), with the reason.
  std::map<std::string, std::string> EarlierQuarantined() const;
  void KeepQuarantined(const std::map<std::string, std::string>& handlers) const;
  // Removes the files: the run is a new one, or the receipt has what they say. REQUIRES: there is a
  // folder.
  void Remove() const;

 private:
  void Keep(const std::optional<NoteLog>& log, const Note& note, const char* otherwise) const;

  RunContext& context_;
  std::optional<NoteLog> conflicts_, quarantine_;
};

}  // namespace acan
