// Rules that hold for the keys of any lines, for a search for inputs that break them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "vortex/error.h"
#include "vortex/line_sort.h"

namespace vortex::test {

inline std::vector<std::string_view> fuzzed_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Options as on a command line: -kKEY, -tSEPARATOR, csv, other words are letters.
inline LineKeyOptions fuzzed_options(std::string_view text) {
  LineKeyOptions options;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (word.starts_with("-k")) {
      options.keys.emplace_back(word.substr(2));
    } else if (word.starts_with("-t") && word.size() == 3) {
      options.separator = word[2];
    } else if (word == "csv") {
      options.fields = FieldRules::kCsv;
    } else {
      options.letters += word;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return options;
}

// An input is a line of options, then lines to sort. Returns what is wrong with their keys, or
// null: the keys of all lines at once are those of each alone, and sorting what is sorted changes
// nothing. Sanitizers find reads and writes beyond an end.
inline const char* problem_with_keys(std::string_view input) {
  std::vector<std::string_view> lines = fuzzed_lines(input);
  if (lines.empty()) return nullptr;
  LineKeyOptions options = fuzzed_options(lines.front());
  lines.erase(lines.begin());
  options.unique = true;
  LineOrder order;
  try {
    order = line_order(options);
  } catch (const Error&) {
    return nullptr;
  }
  if (order.keys) {
    KeyBatch together;
    order.keys->append(lines, together);
    if (together.keys() != lines.size()) return "the number of keys";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      KeyBatch alone;
      order.keys->append({&lines[i], 1}, alone);
      if (alone.key(0) != together.key(i)) return "a key depends on others";
    }
  }
  lines.resize(sort_lines_in_memory(lines, order, 1));
  std::vector<std::string_view> again = lines;
  again.resize(sort_lines_in_memory(again, order, 1));
  return again == lines ? nullptr : "sorting what is sorted";
}

}  // namespace vortex::test
