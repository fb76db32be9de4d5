#include <fmt/format.h>

#include "backends_bench.h"
#include "backends_tables.h"

namespace acan::bench {
namespace {

constexpr int kLabelColumns = 36;
constexpr int kCellWidth = 18;

std::string Heading(const ResultTable& table, const nlohmann::json& devices) {
  const std::string limit =
      table.limit.empty() ? "" : fmt::format("; in brackets the share of {}", table.limit);
  std::string text =
      fmt::format("\n{}: {}{}\n{:<{}}", table.title, table.unit, limit, "", kLabelColumns);
  for (const nlohmann::json& device : devices) {
    text += fmt::format("{:>{}}", device.at("name").get<std::string>(), kCellWidth);
  }
  return text + "\n";
}

std::string Cell(const nlohmann::json& row, const ResultTable& table) {
  const auto median = [&row](const std::string& of) {
    return row.at(of).at("median").get<double>();
  };
  std::string text = fmt::format("{:.4g}", median(table.key));
  if (!table.limit.empty() && row.contains("ratio"))
    text += fmt::format(" [{}]", ShareText(median("ratio")));
  return text;
}

}  // namespace

std::string BackendsText(const nlohmann::json& result) {
  std::string text =
      fmt::format("Medians of {} repeats in {:.0f} s.\n\n", result.at("repeats").get<int>(),
                  result.at("seconds").get<double>());
  const nlohmann::json& devices = result.at("devices");
  for (const nlohmann::json& device : devices) {
    const auto value = [&device](const char* key) { return device.at(key).get<std::string>(); };
    text += fmt::format("{:<12} {}", value("name"), value("description"));
    if (!device.at("problem").is_null()) {
      text += "; FAILED: " + value("problem");
    } else if (!device.at("product_limit").is_null()) {
      text += "; products against " + value("product_limit");
    }
    text += "\n";
  }
  for (const ResultTable& table : ResultTables(result)) {
    text += Heading(table, devices);
    for (const ResultTable::Line& line : table.lines) {
      text += fmt::format("{:<{}}", line.label, kLabelColumns);
      for (const nlohmann::json* cell : line.cells) {
        text += fmt::format("{:>{}}", cell == nullptr ? "-" : Cell(*cell, table), kCellWidth);
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace acan::bench
