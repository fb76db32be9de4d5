// acan graph: prints the model of a job as a graph file.
#include <memory>

#include "acan/manager/trained_model.h"
#include "command.h"
#include "job_flags.h"
#include "standard_output.h"

namespace acan::cli {
namespace {

constexpr const char* kGraphExample = R"(
Prints the job's model as a graph file: JSON with every input, parameter and operator. A job with
model.kind = "graph" and the printed file as model.file trains the same weights. So a model of one
of the other kinds is a starting point for your own; docs/graph_files.md describes the format.

Example:
  acan graph examples/gpt.toml > net.json)";

}  // namespace

void AddGraph(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<JobFlags>();
  Command command = app.AddCommand("graph", "Print a job's model as a graph file");
  AddJobFlags(command, *flags);
  command.Footer(kGraphExample);
  command.OnParsed([flags, &chosen] {
    chosen.run = [flags] {
      Print(GraphTextOf(ReadJob(*flags)));
      return 0;
    };
  });
}

}  // namespace acan::cli
