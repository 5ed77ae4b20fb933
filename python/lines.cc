// Lines in memory, as sorts beyond one machine take them: sorted, divided and summed.
#include <vortex/line_sort.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "module.h"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace vortex_python {

vortex::LineOrder order_of_lines(const LineKeys& line_keys, bool stable, bool unique) {
  const auto& [keys, letters, separator, csv] = line_keys;
  vortex::LineKeyOptions options{.keys = keys, .letters = letters};
  if (!separator.empty()) options.separator = separator.front();
  if (csv) options.fields = vortex::FieldRules::kCsv;
  options.stable = stable;
  options.unique = unique;
  return vortex::line_order(options);
}

namespace {

using Views = std::vector<std::string_view>;

std::string_view text_of(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.bytes()};
}

// Calls use() with each line, without its newline. The last one has one, too.
template <typename Use>
void with_lines(std::string_view text, const Use& use) {
  if (!text.empty() && text.back() != '\n') {
    throw std::invalid_argument("a text whose last line has no newline");
  }
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    use(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

Views views_of(const std::vector<nb::bytes>& lines) {
  Views views;
  for (const nb::bytes& line : lines) views.emplace_back(line.c_str(), line.size());
  return views;
}

// The places of lines in their order.
std::vector<std::size_t> argsort_lines(const std::vector<nb::bytes>& lines, const LineKeys& keys,
                                       bool stable) {
  Views views = views_of(lines);
  // An empty line lies nowhere: all of them get places in the order that they have.
  std::vector<char> nowhere(lines.size() + 1);
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].empty()) views[i] = {&nowhere[i], 0};
  }
  std::unordered_map<const char*, std::vector<std::size_t>> places;
  for (std::size_t i = views.size(); i > 0; --i) places[views[i - 1].data()].push_back(i - 1);
  const nb::gil_scoped_release released;
  vortex::sort_lines_in_memory(views, order_of_lines(keys, stable, false), 1);
  std::vector<std::size_t> sorted;
  for (const std::string_view view : views) {
    std::vector<std::size_t>& here = places[view.data()];  // an object may be there twice
    sorted.push_back(here.back());
    here.pop_back();
  }
  return sorted;
}

// Writes the lines of a text in their order, each with a newline, and returns where, in bytes, each
// border comes among them: the line that begins at byte `place` of the text, or, with the place -1,
// a line in front of those that are equal to it, with -2, one behind them.
std::vector<std::size_t> sort_lines(nb::handle content, const LineKeys& keys, bool stable,
                                    const std::vector<nb::bytes>& borders,
                                    const std::vector<std::int64_t>& places, nb::handle to) {
  const Buffer buffer(content, Buffer::Use::kRead);
  const Buffer room(to, Buffer::Use::kChange);
  const std::string_view text = text_of(buffer);
  if (room.bytes() < text.size() || borders.size() != places.size()) {
    throw std::invalid_argument("less room than text, or another number of places than of borders");
  }
  // Copies lie elsewhere than the text, each at a place of its own.
  std::vector<std::string> copies;
  for (const std::string_view border : views_of(borders))
    copies.emplace_back(border).push_back('\n');
  const nb::gil_scoped_release released;
  std::unordered_map<const char*, std::vector<std::size_t>> border_at;
  Views views;
  const auto add_borders = [&](std::int64_t place) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i] != place) continue;
      const std::string_view copy = copies[i];
      views.push_back(copy.substr(0, copy.size() - 1));
      border_at[copy.data()].push_back(i);
    }
  };
  add_borders(-1);
  with_lines(text, [&](std::string_view line) { views.push_back(line); });
  add_borders(-2);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] >= 0) border_at[text.data() + places[i]].push_back(i);
  }
  vortex::sort_lines_in_memory(views, order_of_lines(keys, stable, false), 1);
  std::vector<std::size_t> cuts(borders.size());
  std::byte* at = room.data();
  for (const std::string_view view : views) {
    if (!border_at.empty()) {
      if (const auto found = border_at.find(view.data()); found != border_at.end()) {
        for (const std::size_t i : found->second) {
          cuts[i] = static_cast<std::size_t>(at - room.data());
        }
        if (places[found->second.front()] < 0) continue;
      }
    }
    std::memcpy(at, view.data(), view.size());
    at += view.size();
    *at++ = std::byte{'\n'};
  }
  return cuts;
}

// How many lines a text has, the sum of their numbers, the first and the last.
std::tuple<std::size_t, std::uint64_t, nb::bytes, nb::bytes> sum_lines(nb::handle content) {
  const Buffer buffer(content, Buffer::Use::kRead);
  std::size_t lines = 0;
  std::uint64_t sum = 0;
  std::string_view first, last;
  {
    const nb::gil_scoped_release released;
    with_lines(text_of(buffer), [&](std::string_view line) {
      if (lines++ == 0) first = line;
      last = line;
      sum += number_of(reinterpret_cast<const std::byte*>(line.data()), line.size());
    });
  }
  return {lines, sum, nb::bytes(first.data(), first.size()), nb::bytes(last.data(), last.size())};
}

}  // namespace

void bind_lines(nb::module_& module) {
  module.def("argsort_lines", &argsort_lines);
  module.def("sort_lines", &sort_lines);
  module.def("sum_lines", &sum_lines);
}

}  // namespace vortex_python
