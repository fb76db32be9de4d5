// The clumsy user: what people do to the program, a row each, with what they expect to be told.
#pragma once

#include <string>
#include <vector>

namespace acan::testing {

// A row. `script` is run by /bin/sh in a folder of its own and sets up what it needs; $ACAN is the
// program. In the folder are
//
//   job.toml            a job on generated data, [16, 8, 2], 8 steps
//   files.toml x y      a job on the CSV files x (4 samples of 3 inputs) and y (of 2 targets)
//   trained/            what `acan train job.toml --out trained` has left, with an audit log in it
//   gpt.toml text       a job on a text of 18 characters; gpt/: what it has left
//   graph.toml g.json   the same job by a graph file
//   vit.toml images classes, bert.toml sequences   jobs on 4 images and on 4 sequences
//   keys/               what `acan keygen` makes
//   tmp/                TMPDIR, which must be empty in the end
//
// and ACAN_HANDLERS=cpu:1, ACAN_MEMORY=16MiB, ACAN_DEVICE=cpu:1, ACAN_OUT=out are set.
struct ClumsyCase {
  const char* name;
  const char* script;
  int code;                       // its exit code
  std::vector<const char*> says;  // what stdout and stderr together have in them
};

// Runs all rows, several at a time, and reports each one that ends otherwise. One that does not end
// is killed after a while that nothing which works takes, and reported.
void RunClumsyCases(const std::vector<ClumsyCase>& cases);

std::vector<ClumsyCase> FlagCases();
std::vector<ClumsyCase> FileCases();
std::vector<ClumsyCase> JobCases();
std::vector<ClumsyCase> ModelCases();
std::vector<ClumsyCase> LimitCases();
// REQUIRES: this is root, who can become somebody else.
std::vector<ClumsyCase> PermissionCases();

}  // namespace acan::testing
