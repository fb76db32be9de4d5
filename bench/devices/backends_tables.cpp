#include "backends_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "acan/core/text/size_text.h"

namespace acan::bench {
namespace {

std::string Label(const std::string& section, const nlohmann::json& row) {
  const auto text = [&row](const char* key) { return row.at(key).get<std::string>(); };
  const auto number = [&row](const char* key) { return row.at(key).get<std::int64_t>(); };
  if (section == "products") {
    return fmt::format("{} {} x {} x {}", text("form"), number("batch"), number("inputs"),
                       number("outputs"));
  }
  if (section == "kernels") {
    const std::string variant = text("variant").empty() ? "" : " " + text("variant");
    return fmt::format("{}{} {} x {}", text("kernel").substr(1), variant, number("rows"),
                       number("cols"));
  }
  if (section == "transfers") {
    return fmt::format("{} {}", SizeText(static_cast<std::uint64_t>(number("bytes"))),
                       text("direction"));
  }
  return text("task");
}

void AddCell(ResultTable& table, std::size_t devices, std::size_t device, const std::string& label,
             const nlohmann::json& row) {
  const auto same = [&label](const ResultTable::Line& line) { return line.label == label; };
  auto line = std::find_if(table.lines.begin(), table.lines.end(), same);
  if (line == table.lines.end()) {
    table.lines.push_back({label, std::vector<const nlohmann::json*>(devices, nullptr)});
    line = table.lines.end() - 1;
  }
  line->cells[device] = &row;
}

}  // namespace

std::string ShareText(double ratio) {
  return ratio < 0.095 ? fmt::format("{:.2g}", ratio) : fmt::format("{:.2f}", ratio);
}

std::vector<ResultTable> ResultTables(const nlohmann::json& result) {
  struct Source {
    ResultTable table;
    const char* section;
    const char* precision;  // of the table's rows; null: any
  };
  constexpr const char* kLibrary = "the vendor's library";
  Source sources[] = {
      {{"Exact products, batch x inputs x outputs", kLibrary, "GFLOP/s", "gflops", {}},
       "products",
       "exact"},
      {{"Fast products, batch x inputs x outputs", "", "GFLOP/s", "gflops", {}},
       "products",
       "fast"},
      {{"Kernels", "the fastest plain fill or addition", "GB/s", "gb_s", {}}, "kernels", nullptr},
      {{"Transfers", "memcpy on the host", "GB/s", "gb_s", {}}, "transfers", nullptr},
      {{"Tiny tasks", "", "microseconds", "microseconds", {}}, "overhead", nullptr},
  };
  const nlohmann::json& devices = result.at("devices");
  std::vector<ResultTable> tables;
  for (Source& source : sources) {
    for (const nlohmann::json& row : result.at(source.section)) {
      if (source.precision != nullptr && row.at("precision") != source.precision) continue;
      for (std::size_t i = 0; i < devices.size(); ++i) {
        if (devices[i].at("name") != row.at("device")) continue;
        AddCell(source.table, devices.size(), i, Label(source.section, row), row);
      }
    }
    if (!source.table.lines.empty()) tables.push_back(std::move(source.table));
  }
  return tables;
}

}  // namespace acan::bench
