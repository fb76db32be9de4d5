// The clumsy user: a table of mistakes, and of the messages that the program must give.
#pragma once

#include <string>
#include <vector>

namespace acan::testing {

// A case. /bin/sh runs `script` in a folder of its own; the script sets up what it needs. $ACAN is
// the program. The folder has
//
//   job.toml            a job on generated data, [16, 8, 2], 8 steps
//   files.toml x y      a job on the CSV files x (4 samples of 3 inputs) and y (2 targets each)
//   trained/            the output of `acan train job.toml --out trained`, and an audit log
//   gpt.toml text       a job on a text of 18 characters; gpt/ has its output
//   graph.toml g.json   the same job with a graph file
//   vit.toml images classes, bert.toml sequences   jobs on 4 images and on 4 sequences
//   keys/               the output of `acan keygen`
//   tmp/                TMPDIR, which must be empty at the end
//
// and ACAN_HANDLERS=cpu:1, ACAN_MEMORY=16MiB, ACAN_DEVICE=cpu:1, ACAN_OUT=out are set.
struct ClumsyCase {
  const char* name;
  const char* script;
  int code;                       // its expected exit code
  std::vector<const char*> says;  // texts that stdout and stderr together must contain
};

// Runs all cases, several at a time, and reports those with other results. A case that does not end
// is killed after a time that no working program needs, and reported.
void RunClumsyCases(const std::vector<ClumsyCase>& cases);

std::vector<ClumsyCase> FlagCases();
std::vector<ClumsyCase> FileCases();
std::vector<ClumsyCase> JobCases();
std::vector<ClumsyCase> ModelCases();
std::vector<ClumsyCase> LimitCases();
// REQUIRES: this is root, which can run a case as another user.
std::vector<ClumsyCase> PermissionCases();

}  // namespace acan::testing
