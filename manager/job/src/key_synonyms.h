// Words of other programs for keys of a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace acan {

// The keys of a section that a job may use.
struct OwnKeys {
  std::string kind;  // of the job's model, for [model]; empty: another section, or unknown
  std::vector<std::string> keys;
};

// The hint for an unknown key: ": did you mean 'batch'?", or "" for a word that is not known.
std::string SynonymHint(std::string_view section, std::string_view key, const OwnKeys& own);
// The one of `own`, the keys of a kind of model, that has the meaning of `key`, which is a key of
// another kind. Empty if there is none.
std::string OwnKeyFor(std::string_view key, const std::vector<std::string>& own);

}  // namespace acan
