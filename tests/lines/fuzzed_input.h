// Any bytes as an input of a sort of lines, for a search for one that is read wrongly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/lines/line_cases.h"
#include "tests/support/file_text.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

namespace vortex::test {

// Records of CSV, byte by byte, in the states of Python's csv module.
class FuzzedCsv {
 public:
  static Lines records_in(std::string_view text, char separator = ',') {
    FuzzedCsv csv;
    csv.separator_ = separator;
    for (const char c : text) csv.take(c);
    if (csv.state_ == State::kInQuotes) csv.record_ += '"';
    if (!csv.record_.empty()) csv.records_.push_back(csv.record_);
    return csv.records_;
  }

 private:
  enum class State { kValueBegins, kInValue, kInQuotes, kQuoteInQuotes };

  void take(char c) {
    if (state_ == State::kInQuotes) {
      if (c == '"') state_ = State::kQuoteInQuotes;
    } else if (c == '\n') {
      records_.push_back(std::exchange(record_, {}));
      state_ = State::kValueBegins;
      return;
    } else if (c == separator_) {
      state_ = State::kValueBegins;
    } else if (c == '"' && state_ != State::kInValue) {
      state_ = State::kInQuotes;
    } else {
      state_ = State::kInValue;
    }
    record_ += c;
  }

  char separator_ = ',';
  State state_ = State::kValueBegins;
  std::string record_;
  Lines records_;
};

// Records of a text, byte by byte; none: the framing does not allow it.
inline std::optional<Lines> records_in(RecordFraming::Kind framing, char delimiter,
                                       std::string_view text) {
  Lines records;
  if (framing == RecordFraming::Kind::kLengthPrefixed) {
    while (!text.empty()) {
      std::uint32_t bytes = 0;
      if (text.size() < sizeof bytes) return std::nullopt;
      std::memcpy(&bytes, text.data(), sizeof bytes);
      text.remove_prefix(sizeof bytes);
      if (text.size() < bytes) return std::nullopt;
      records.emplace_back(text.substr(0, bytes));
      text.remove_prefix(bytes);
    }
    return records;
  }
  if (framing == RecordFraming::Kind::kQuoted) return FuzzedCsv::records_in(text);
  std::string record;
  for (const char c : text) {
    if (c == delimiter) {
      records.push_back(std::exchange(record, {}));
    } else {
      record += c;
    }
  }
  if (!record.empty()) records.push_back(record);
  return records;
}

// Sorts files in a folder that is its caller's. The first bytes of an input say how: the framing
// and the delimiter, what comes in front so that the others lie across borders of blocks, how many
// records stay on top, and where the input is cut in two files.
class FuzzedInput {
 public:
  static constexpr std::size_t kHead = 6;

  FuzzedInput(std::string folder, std::string_view input) : folder_(std::move(folder)) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(input[i]); };
    constexpr RecordFraming::Kind kKinds[] = {RecordFraming::Kind::kDelimited,
                                              RecordFraming::Kind::kQuoted,
                                              RecordFraming::Kind::kLengthPrefixed};
    kind_ = kKinds[byte(0) % 3];
    unique_ = byte(0) / 3 % 2 == 1;
    if (kind_ == RecordFraming::Kind::kDelimited && byte(0) % 8 == 7) delimiter_ = '\0';
    const std::size_t in_front = byte(1) * std::size_t{64} + byte(2);
    header_ = byte(3) % 3;
    const std::string_view text = input.substr(kHead);
    const std::size_t cut = (byte(4) + byte(5) * std::size_t{256}) % (text.size() + 1);
    texts_ = {framed({std::string(in_front, 'm')}, framing()) + std::string(text.substr(0, cut)),
              std::string(text.substr(cut))};
  }

  bool whole() const { return expected().has_value(); }

  // What is wrong with the output, or null.
  const char* problem() const {
    const std::optional<std::string> expected = this->expected();
    LineSortOptions options;
    options.framing = framing();
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      options.inputs.push_back(folder_ + "/in" + std::to_string(i));
      std::ofstream(options.inputs.back(), std::ios::binary) << texts_[i];
    }
    options.output = folder_ + "/out";
    options.order.unique = unique_;
    options.header_records = header_;
    options.resources.memory_bytes = std::uint64_t{1} << 20;
    options.resources.block_bytes = std::size_t{16} << 10;
    options.resources.threads = 1;
    try {
      sort_lines(options);
    } catch (const Error&) {
      return expected ? "an input that is whole is refused" : nullptr;
    }
    if (!expected) return "an input that is not whole is taken";
    return file_text(options.output) == *expected ? nullptr : "the output";
  }

 private:
  RecordFraming framing() const {
    return kind_ == RecordFraming::Kind::kQuoted      ? RecordFraming::quoted()
           : kind_ == RecordFraming::Kind::kDelimited ? RecordFraming::delimited(delimiter_)
                                                      : RecordFraming::length_prefixed();
  }

  std::optional<std::string> expected() const {
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    const auto has_mark = [&](const std::string& text) {
      return kind_ == RecordFraming::Kind::kQuoted && text.starts_with(kMark);
    };
    std::string output;
    if (std::any_of(texts_.begin(), texts_.end(), has_mark)) output = kMark;
    Lines sorted;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      std::string_view text = texts_[i];
      if (has_mark(texts_[i])) text.remove_prefix(kMark.size());
      std::optional<Lines> records = records_in(kind_, delimiter_, text);
      if (!records) return std::nullopt;
      const auto header = records->begin() + static_cast<std::ptrdiff_t>(
                                                 std::min<std::size_t>(header_, records->size()));
      if (i == 0) output += framed({records->begin(), header}, framing());
      sorted.insert(sorted.end(), header, records->end());
    }
    std::sort(sorted.begin(), sorted.end());  // as bytes
    if (unique_) sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    return output + framed(sorted, framing());
  }

  std::string folder_;
  RecordFraming::Kind kind_ = RecordFraming::Kind::kDelimited;
  char delimiter_ = '\n';
  bool unique_ = false;
  std::size_t header_ = 0;
  std::vector<std::string> texts_;
};

inline const char* problem_with_input(const std::string& folder, std::string_view input) {
  return input.size() < FuzzedInput::kHead ? nullptr : FuzzedInput(folder, input).problem();
}

}  // namespace vortex::test
