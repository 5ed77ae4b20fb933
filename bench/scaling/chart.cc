// Curves over the number of threads, a panel for each kind of work.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/scaling/cell.h"

namespace vortex::bench {

namespace {

struct Panel {
  std::string name;
  std::map<unsigned, double> rates;  // bytes a second, by threads

  unsigned least_threads() const { return rates.begin()->first; }
  double times(unsigned threads) const { return rates.at(threads) / rates.begin()->second; }
};

std::vector<Panel> panels_of(const nlohmann::ordered_json& results) {
  std::vector<Panel> panels;
  for (const auto& row : results.at("benchmarks")) {
    if (!row.contains("bytes_per_second")) continue;
    auto name = row.at("name").get<std::string>();
    name.resize(std::min(name.size(), name.find("/threads:")));
    const auto is_same = [&](const Panel& panel) { return panel.name == name; };
    auto panel = std::find_if(panels.begin(), panels.end(), is_same);
    if (panel == panels.end()) panel = panels.insert(panels.end(), {name, {}});
    panel->rates[row.at("threads").get<unsigned>()] = row.at("bytes_per_second").get<double>();
  }
  return panels;
}

template <typename... Values>
void append(std::string& svg, const char* format, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  svg += text;
}

constexpr double kWidth = 345;
constexpr double kHeight = 215;
constexpr double kPlot = 140;  // width and height of what lies between the axes
constexpr double kLeft = 40;
constexpr double kTop = 42;

// Both axes are logarithmic: `octaves` of threads from 1 to the most, and as many of gain.
class Drawing {
 public:
  explicit Drawing(unsigned most_threads)
      : most_(most_threads), octaves_(std::max(1.0, std::log2(most_threads))) {}

  void add(std::string& svg, const Panel& panel, double left, double top) const {
    append(svg, "<g transform=\"translate(%.0f %.0f)\">\n", left, top);
    append(svg, "<text x=\"%.0f\" y=\"16\" class=\"name\">%s</text>\n", kLeft, panel.name.c_str());
    const unsigned most = panel.rates.rbegin()->first;
    append(svg, "<text x=\"%.0f\" y=\"31\">%.3g GB/s with %u, %.3g with %u: %.2f times</text>\n",
           kLeft, panel.rates.begin()->second / 1e9, panel.least_threads(),
           panel.rates.rbegin()->second / 1e9, most, panel.times(most));
    for (unsigned tick = 1; tick <= most_; tick *= 2) {
      append(svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", kLeft,
             y(tick), kLeft + kPlot, y(tick));
      append(svg, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\">%u</text>\n", x(tick),
             kTop + kPlot + 14, tick);
      append(svg, "<text x=\"%.1f\" y=\"%.1f\" class=\"gain\">%u</text>\n", kLeft - 5, y(tick) + 4,
             tick);
    }
    const unsigned least = panel.least_threads();
    append(svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"linear\"/>\n",
           x(least), y(1), x(most_), y(static_cast<double>(most_) / least));
    add_curve(svg, panel);
    svg += "</g>\n";
  }

 private:
  double x(double threads) const { return kLeft + std::log2(threads) / octaves_ * kPlot; }
  // What is slower than half a thread lies on the lower border.
  double y(double gain) const {
    return kTop + kPlot - std::log2(std::max(gain, 0.5)) / octaves_ * kPlot;
  }

  void add_curve(std::string& svg, const Panel& panel) const {
    svg += "<polyline class=\"curve\" points=\"";
    for (const auto& [threads, rate] : panel.rates) {
      append(svg, "%.1f,%.1f ", x(threads), y(panel.times(threads)));
    }
    svg += "\"/>\n";
    for (const auto& [threads, rate] : panel.rates) {
      append(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", x(threads),
             y(panel.times(threads)));
    }
  }

  unsigned most_;
  double octaves_;
};

constexpr const char* kStyle =
    "<style>text{font:11px sans-serif;fill:#1d2733}.name{font-weight:bold}"
    ".tick{text-anchor:middle}.gain{text-anchor:end}.grid{stroke:#dde2e8}"
    ".linear{stroke:#8a94a0;stroke-dasharray:4 3}"
    ".curve{fill:none;stroke:#2f6ba6;stroke-width:2}circle{fill:#2f6ba6}</style>\n";

}  // namespace

std::string chart_of(const nlohmann::ordered_json& results) {
  const std::vector<Panel> panels = panels_of(results);
  unsigned most_threads = 1;
  for (const Panel& panel : panels) {
    most_threads = std::max(most_threads, panel.rates.rbegin()->first);
  }
  constexpr std::size_t kColumns = 3;
  const std::size_t rows = (panels.size() + kColumns - 1) / kColumns;
  std::string svg;
  append(svg,
         "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\">\n"
         "<title>Gain over the fewest threads, by threads; dashed: linear</title>\n"
         "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
         kColumns * kWidth, static_cast<double>(rows) * kHeight);
  svg += kStyle;
  const Drawing drawing(most_threads);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    drawing.add(svg, panels[i], static_cast<double>(i % kColumns) * kWidth,
                static_cast<double>(i / kColumns) * kHeight);
  }
  return svg + "</svg>\n";
}

}  // namespace vortex::bench
