#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "backends_bench.h"
#include "backends_tables.h"

namespace acan::bench {
namespace {

// Okabe and Ito's colours, which people with any colour vision can distinguish.
constexpr std::array kColours = {"#0072B2", "#E69F00", "#009E73", "#CC79A7",
                                 "#56B4E9", "#D55E00", "#F0E442", "#777777"};
constexpr double kWidth = 1300;
constexpr double kMargin = 24;
constexpr double kGap = 36;  // between the two columns of panels
constexpr double kPanelWidth = (kWidth - 2 * kMargin - kGap) / 2;
constexpr double kLabelWidth = 236;
constexpr double kValueWidth = 82;  // right of the bars
constexpr double kPlotWidth = kPanelWidth - kLabelWidth - kValueWidth;
constexpr double kBarHeight = 10;
constexpr double kLineGap = 7;

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string Text(double x, double y, const std::string& attributes, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes,
                     Escaped(text));
}

std::string Rule(double x1, double y1, double x2, double y2, const char* attributes) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, attributes);
}

// What a bar's length shows: the ratio to the limit if there is one, otherwise the number itself.
struct Scale {
  bool ratios = false;
  double most = 1;  // at the right end of the plot
  double step = 1;  // between ticks

  double Length(double value) const { return std::min(value / most, 1.0) * kPlotWidth; }
};

const nlohmann::json& Shown(const nlohmann::json& row, const ResultTable& table, bool ratio) {
  return row.at(ratio ? "ratio" : table.key);
}

Scale ScaleOf(const ResultTable& table) {
  Scale scale;
  scale.ratios = !table.limit.empty();
  double longest = scale.ratios ? 1.1 : 0;
  for (const ResultTable::Line& line : table.lines) {
    for (const nlohmann::json* cell : line.cells) {
      if (cell == nullptr || (scale.ratios && !cell->contains("ratio"))) continue;
      longest = std::max(longest, Shown(*cell, table, scale.ratios).at("median").get<double>());
    }
  }
  const double raw = std::max(longest, 1e-9) / 6;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    scale.step = factor * power;
    if (scale.step >= raw) break;
  }
  scale.most = longest;
  return scale;
}

// The bar of one device, its range as a thin line, and its numbers.
std::string Bar(const nlohmann::json& row, const ResultTable& table, const Scale& scale, double x,
                double y, const char* colour) {
  const double number = row.at(table.key).at("median").get<double>();
  const double baseline = y + kBarHeight - 1.5;
  if (scale.ratios && !row.contains("ratio")) {
    return Text(x + 5, baseline, "class=\"value\"",
                fmt::format("{:.3g}, nothing to compare with", number));
  }
  const nlohmann::json& shown = Shown(row, table, scale.ratios);
  const auto end = [&](const char* of) { return x + scale.Length(shown.at(of).get<double>()); };
  const double middle = y + kBarHeight / 2;
  const std::string value =
      scale.ratios
          ? fmt::format("{}  ({:.3g})", ShareText(shown.at("median").get<double>()), number)
          : fmt::format("{:.3g}", number);
  return fmt::format(
             "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n", x,
             y + 0.5, std::max(end("median") - x, 1.0), kBarHeight - 1, colour) +
         Rule(end("min"), middle, end("max"), middle, "class=\"range\"") +
         Text(x + kPlotWidth + 8, baseline, "class=\"value\"", value);
}

struct Panel {
  std::string svg;
  double height = 0;
};

Panel Draw(const ResultTable& table, double left, double top) {
  const Scale scale = ScaleOf(table);
  const double x = left + kLabelWidth;
  const double first = top + 44;
  std::size_t devices = 0;
  for (const ResultTable::Line& line : table.lines) devices = std::max(devices, line.cells.size());
  const double line_height = static_cast<double>(devices) * kBarHeight + kLineGap;
  const double bottom = first + line_height * static_cast<double>(table.lines.size());
  const std::string axis = scale.ratios
                               ? fmt::format("share of {}; in brackets {}", table.limit, table.unit)
                               : table.unit;
  Panel panel;
  panel.svg = Text(left, top + 16, "class=\"title\"", table.title) +
              Text(left, top + 33, "class=\"axis\"", axis);
  for (int tick = 0; tick * scale.step <= scale.most * 1.0001; ++tick) {
    const double at = x + scale.Length(tick * scale.step);
    panel.svg += Rule(at, first, at, bottom, "class=\"grid\"") +
                 Text(at, bottom + 14, "class=\"tick\"", fmt::format("{:.4g}", tick * scale.step));
  }
  double y = first + kLineGap / 2;
  for (const ResultTable::Line& line : table.lines) {
    const double middle = y + static_cast<double>(devices) * kBarHeight / 2;
    panel.svg += Text(x - 8, middle + 4, "class=\"label\"", line.label);
    for (std::size_t i = 0; i < line.cells.size(); ++i) {
      const double at = y + static_cast<double>(i) * kBarHeight;
      const char* colour = kColours[i % kColours.size()];
      if (line.cells[i] != nullptr) {
        panel.svg += Bar(*line.cells[i], table, scale, x, at, colour);
      }
    }
    y += line_height;
  }
  if (scale.ratios) {
    const double at = x + scale.Length(1);
    panel.svg += Rule(at, first, at, bottom, "class=\"one\"");
  }
  panel.height = bottom + 32 - top;
  return panel;
}

// Draws a line for each device. Returns the y at which the legend ends.
double DrawLegend(const nlohmann::json& devices, double y, std::string& svg) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const nlohmann::json& device = devices[i];
    const auto value = [&device](const char* key) { return device.at(key).get<std::string>(); };
    std::string text = value("name") + "   " + value("description");
    if (!device.at("problem").is_null()) {
      text += "; failed: " + value("problem");
    } else if (!device.at("product_limit").is_null()) {
      text += "; products against " + value("product_limit");
    }
    svg += fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"14\" height=\"12\" fill=\"{}\"/>\n",
                       kMargin, y - 10, kColours[i % kColours.size()]) +
           Text(kMargin + 22, y, "class=\"legend\"", text);
    y += 20;
  }
  return y;
}

constexpr const char* kStyle = R"(<style>
text { font-family: "DejaVu Sans", Verdana, Arial, sans-serif; fill: #222222; }
.head { font-size: 21px; font-weight: bold; }
.note, .legend { font-size: 13px; }
.title { font-size: 15px; font-weight: bold; }
.axis { font-size: 12px; fill: #555555; }
.tick { font-size: 11px; fill: #555555; text-anchor: middle; }
.label { font-size: 11.5px; text-anchor: end; }
.value { font-size: 9px; fill: #444444; }
.grid { stroke: #e2e2e2; stroke-width: 1; }
.one { stroke: #b00020; stroke-width: 1.2; stroke-dasharray: 4 3; }
.range { stroke: #222222; stroke-width: 1; stroke-opacity: 0.55; }
</style>
)";

}  // namespace

std::string BackendsSvg(const nlohmann::json& result) {
  std::string body =
      Text(kMargin, 40, "class=\"head\"", "acan: what each device makes of its hardware");
  body += Text(
      kMargin, 62, "class=\"note\"",
      fmt::format("Bars: medians of {} repeats; thin lines: from the least to the most; dashed: "
                  "the device's own limit, measured in the same run",
                  result.at("repeats").get<int>()));
  const double top = DrawLegend(result.at("devices"), 88, body) + 12;
  // Two columns; each panel goes into the one with more room.
  std::array<double, 2> ends = {top, top};
  for (const ResultTable& table : ResultTables(result)) {
    const std::size_t column = ends[1] < ends[0] ? 1 : 0;
    const double left = kMargin + static_cast<double>(column) * (kPanelWidth + kGap);
    const Panel panel = Draw(table, left, ends[column]);
    body += panel.svg;
    ends[column] += panel.height;
  }
  const double height = std::max(ends[0], ends[1]) + kMargin / 2;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:.0f}\" "
             "viewBox=\"0 0 {0} {1:.0f}\">\n{2}<rect width=\"100%\" height=\"100%\" "
             "fill=\"#ffffff\"/>\n",
             kWidth, height, kStyle) +
         body + "</svg>\n";
}

}  // namespace acan::bench
