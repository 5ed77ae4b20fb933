// Formats of records, inputs that are said to be sorted, and options of sorts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tests/fuzz/targets.h"
#include "tests/lines/fuzzed_input.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/temporary_folder.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/line_sort.h"

namespace vortex::test {

namespace {

const TemporaryFolder& folder() {
  static const TemporaryFolder made(fast_folder());
  return made;
}

// A key as a string of bytes in its order, made byte by byte.
std::string ordered_bytes(const RecordKey& key, const char* record) {
  std::string bytes(record + key.offset, key.length);
  if (key.type.kind != KeyKind::kBytes && key.type.byte_order == ByteOrder::kLittleEndian) {
    std::reverse(bytes.begin(), bytes.end());
  }
  const bool negative = (bytes[0] & 0x80) != 0;
  for (char& byte : bytes) {
    const bool all = key.descending != (key.type.kind == KeyKind::kFloat && negative);
    if (all) byte = static_cast<char>(~byte);
  }
  const bool flips =
      key.type.kind == KeyKind::kSigned || (key.type.kind == KeyKind::kFloat && !negative);
  if (flips) bytes[0] = static_cast<char>(bytes[0] ^ 0x80);
  return bytes;
}
std::string ordered_bytes(const RecordFormat& format, const char* record) {
  std::string all;
  for (const RecordKey& key : format.keys()) all += ordered_bytes(key, record);
  return all;
}

int sign(int number) { return (number > 0) - (number < 0); }

std::vector<std::string> cut(std::string_view bytes, std::size_t length) {
  std::vector<std::string> records;
  for (; bytes.size() >= length; bytes.remove_prefix(length))
    records.emplace_back(bytes.substr(0, length));
  return records;
}
std::string joined_records(const std::vector<std::string>& records, std::string_view end = {}) {
  std::string all;
  for (const std::string& record : records) all.append(record).append(end);
  return all;
}

// The length of a record, then lines with keys.
std::optional<RecordFormat> fuzzed_format(FuzzedBytes& bytes) {
  const std::size_t record_bytes = bytes.flag() ? bytes.below(24) : bytes.byte() + bytes.byte();
  std::vector<RecordKey> keys;
  try {
    for (unsigned i = bytes.below(4); i > 0; --i) {
      keys.push_back(parse_record_key(bytes.take_line()));
      EXPECT_EQ(parse_record_key(to_string(keys.back())), keys.back());
    }
    return RecordFormat(record_bytes, keys);
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EINVAL) << error.what();
    return std::nullopt;
  }
}

SortResources small_resources() {
  SortResources resources;
  resources.folders = {folder().path().string()};
  resources.memory_bytes = std::uint64_t{1} << 20;
  resources.block_bytes = std::size_t{16} << 10;
  resources.threads = 1;
  resources.sync = false;
  return resources;
}

}  // namespace

void fuzz_record_formats(std::string_view input) {
  FuzzedBytes bytes(input);
  const bool unique = bytes.flag();
  const std::optional<RecordFormat> format = fuzzed_format(bytes);
  if (!format) return;
  std::vector<std::string> records = cut(bytes.rest(), format->record_bytes());
  const RecordFormat reversed = format->reversed();
  std::string before;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto* const at = reinterpret_cast<const std::byte*>(records[i].data());
    std::string normal(format->normalised_bytes(), '\0');
    format->normalise(at, reinterpret_cast<std::byte*>(normal.data()));
    ASSERT_EQ(normal, ordered_bytes(*format, records[i].data()));
    if (i > 0) {
      const auto* const last = reinterpret_cast<const std::byte*>(records[i - 1].data());
      const int expected = sign(before.compare(normal));
      ASSERT_EQ(sign(format->compare(last, at)), expected);
      ASSERT_EQ(sign(reversed.compare(last, at)), -expected);
      const std::uint64_t left = format->leading_bits(last), right = format->leading_bits(at);
      ASSERT_TRUE(left == right ? !format->leading_bits_decide() || expected == 0
                                : (left < right) == (expected < 0));
    }
    before = normal;
  }
  ExternalSortOptions options;
  options.inputs = {folder().file("in")};
  options.output = folder().file("out");
  options.format = format;
  options.unique = unique;
  options.resources = small_resources();
  options.resources.memory_bytes = std::uint64_t{2} << 20;
  put_file_text(options.inputs[0], joined_records(records));
  external_sort(options);
  std::stable_sort(records.begin(), records.end(), [&](const auto& a, const auto& b) {
    return ordered_bytes(*format, a.data()) < ordered_bytes(*format, b.data());
  });
  if (unique) {
    const auto end = std::unique(records.begin(), records.end(), [&](const auto& a, const auto& b) {
      return ordered_bytes(*format, a.data()) == ordered_bytes(*format, b.data());
    });
    records.erase(end, records.end());
  }
  ASSERT_TRUE(file_text(options.output) == joined_records(records));
}

namespace {

// Merges inputs, of which some are sorted, and returns the output.
template <typename Options, typename Sort>
std::string merge_of(Options options, const std::vector<std::string>& texts, bool unique,
                     const Sort& sort) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    options.inputs.push_back(folder().file("in" + std::to_string(i)));
    put_file_text(options.inputs.back(), texts[i]);
  }
  options.output = folder().file("out");
  options.merge_inputs = true;
  options.resources = small_resources();
  if constexpr (requires { options.unique; }) {
    options.unique = unique;
  } else {
    options.order.unique = unique;
  }
  sort(options);
  return file_text(options.output);
}

std::vector<std::string> lines_of(std::string_view text) {
  return *records_in(RecordFraming::Kind::kDelimited, '\n', text);
}

}  // namespace

// A merge of lines that are not sorted has any order, and every line once; of records it is
// refused.
void fuzz_sorted_inputs(std::string_view input) {
  constexpr std::size_t kRecord = 12;
  FuzzedBytes bytes(input);
  const bool lines = bytes.flag(), unique = bytes.flag();
  const unsigned inputs = 1 + bytes.below(9);
  const unsigned sorted_ones = bytes.byte();
  const std::string_view end = lines ? "\n" : "";
  bool all_sorted = true;
  std::vector<std::string> texts, all;
  for (unsigned i = 0; i < inputs; ++i) {
    const unsigned times = bytes.byte() * 4;
    const std::string_view part = bytes.take(bytes.byte());
    std::string text;
    for (unsigned j = 0; j <= times && text.size() < std::size_t{48} << 10; ++j) text += part;
    std::vector<std::string> records = lines ? lines_of(text) : cut(text, kRecord);
    if ((sorted_ones >> i % 8 & 1) != 0) std::sort(records.begin(), records.end());
    all_sorted = all_sorted && std::is_sorted(records.begin(), records.end());
    texts.push_back(joined_records(records, end));
    all.insert(all.end(), records.begin(), records.end());
  }
  std::string merged;
  if (lines) {
    merged = merge_of(LineSortOptions{}, texts, unique, [](const auto& with) { sort_lines(with); });
  } else {
    ExternalSortOptions options;
    options.format = RecordFormat(kRecord);
    int error = 0;
    merged = merge_of(options, texts, unique,
                      [&](const auto& with) { error = error_of([&] { external_sort(with); }); });
    ASSERT_EQ(error, all_sorted ? 0 : EINVAL);
    if (error != 0) return;
  }
  std::vector<std::string> found = lines ? lines_of(merged) : cut(merged, kRecord);
  if (all_sorted) {
    ASSERT_TRUE(std::is_sorted(found.begin(), found.end()));
  }
  ASSERT_EQ(joined_records(found, end).size(), merged.size());
  std::sort(all.begin(), all.end());
  std::sort(found.begin(), found.end());
  if (unique) {
    // Each at least once, and once where that can be known.
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all_sorted) {
      ASSERT_TRUE(std::adjacent_find(found.begin(), found.end()) == found.end());
    }
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }
  ASSERT_TRUE(found == all);
}

namespace {

std::string trace_of(const std::string& path) {
  const std::string text = file_text(path);
  unlink(path.c_str());
  return text;
}

SortResources fuzzed_resources(FuzzedBytes& bytes) {
  SortResources resources;
  for (unsigned i = bytes.below(4); i > 0; --i) {
    resources.folders.push_back(folder().path().string());
    if (bytes.flag()) resources.folder_speeds.push_back(bytes.byte());
  }
  resources.memory_bytes = bytes.number();
  if (resources.memory_bytes == 0) resources.memory_bytes = 1;  // 0 is half of the machine
  resources.least_memory_bytes = bytes.number();
  resources.first_records = bytes.number();
  resources.block_bytes = bytes.number();
  resources.request_cost_bytes = bytes.number();
  resources.prefetch = kAllPrefetchKinds[bytes.below(std::size(kAllPrefetchKinds))];
  resources.caching = static_cast<Caching>(bytes.below(3));
  resources.compression = static_cast<RunCompression>(bytes.below(3));
  resources.seed = bytes.byte();
  resources.threads = static_cast<unsigned>(1 + bytes.number() % kMaxSortThreads);
  resources.sync = false;
  return resources;
}

// Plans, and sorts what is small enough, of zeros.
template <typename Options, typename Plan, typename Sort>
void plan_and_sort(Options options, std::uint64_t all_bytes, bool traced, const Plan& plan,
                   const Sort& sort) {
  SortPlan planned;
  try {
    planned = plan(options);
  } catch (const Error& error) {
    ASSERT_NE(error.code().value(), 0);
    return;
  }
  ASSERT_LE(planned.block_bytes * planned.pool_blocks + planned.scratch_bytes,
            options.resources.memory_bytes);
  ASSERT_LE(planned.memory_bytes, options.resources.memory_bytes);
  ASSERT_NE(to_string(planned), "");
  if (all_bytes > std::uint64_t{1} << 20 || options.resources.threads > 4 ||
      options.resources.memory_bytes > std::uint64_t{64} << 20) {
    return;
  }
  if (traced) options.trace = folder().file("trace");
  SortReport report;
  try {
    report = sort(options);
  } catch (const Error& error) {
    // An input of zeros is one line, which may be too long for the memory.
    ASSERT_TRUE((std::is_same_v<Options, LineSortOptions>));
    ASSERT_EQ(error.code().value(), EMSGSIZE) << error.what();
    const std::uint64_t part = options.resources.block_bytes == 0 ? 4 : 8;
    ASSERT_GT(all_bytes, options.resources.memory_bytes / part) << error.what();
    return;
  }
  // A merge that has given the first records reads no further.
  ASSERT_LE(report.input_bytes, all_bytes);
  if (!options.merge_inputs || options.resources.first_records == 0) {
    ASSERT_EQ(report.input_bytes, all_bytes);
  }
  if (traced) {
    ASSERT_TRUE(nlohmann::json::accept(trace_of(options.trace)));
  }
  const std::string output = file_text(options.output);
  ASSERT_EQ(report.output_bytes, output.size());
  ASSERT_EQ(std::string_view(output).find_first_not_of(std::string_view("\0\n", 2)), output.npos);
}

}  // namespace

// Any options give an error, or a plan within the memory; what is small enough is sorted, too, with
// a trace.
void fuzz_sort_options(std::string_view input) {
  FuzzedBytes bytes(input);
  const bool lines = bytes.flag();
  const SortResources resources = fuzzed_resources(bytes);
  const std::size_t record_bytes = 1 + bytes.byte();
  const bool merge = bytes.flag(), unique = bytes.flag(), traced = bytes.flag();
  std::vector<std::string> inputs;
  std::uint64_t all_bytes = 0;
  for (unsigned i = bytes.below(4); i > 0; --i) {
    inputs.push_back(folder().file("in" + std::to_string(i)));
    const std::uint64_t length = (bytes.number() & ((std::uint64_t{1} << 42) - 1)) * record_bytes;
    put_file_text(inputs.back(), {});
    ASSERT_EQ(truncate(inputs.back().c_str(), static_cast<off_t>(length)), 0);
    all_bytes += length;
  }
  const auto use = [&](auto options, const auto& plan, const auto& sort) {
    options.inputs = inputs;
    options.output = folder().file("out");
    options.merge_inputs = merge;
    options.resources = resources;
    plan_and_sort(options, all_bytes, traced, plan, sort);
  };
  if (lines) {
    LineSortOptions options;
    options.order.unique = unique;
    use(options, plan_line_sort, sort_lines);
  } else {
    ExternalSortOptions options;
    options.format = RecordFormat(record_bytes);
    options.unique = unique;
    use(
        options, [](const auto& with) { return plan_external_sort(with); },
        [](const auto& with) { return external_sort(with); });
  }
}

}  // namespace vortex::test
