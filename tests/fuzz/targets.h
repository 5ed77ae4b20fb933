// Searches for inputs that break something. Each target looks at the bytes of one input and says
// what is wrong by failures of GoogleTest, so that the same code serves libFuzzer (fuzz.cc) and the
// inputs that are kept (fuzz_seeds_test.cc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>

namespace vortex::test {

// Decisions that an input makes. Behind its end a generator makes them, or all are 0.
class FuzzedBytes {
 public:
  using result_type = std::uint64_t;

  explicit FuzzedBytes(std::string_view bytes) : rest_(bytes), behind_(bytes.size()) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  // For code that takes a generator.
  std::uint64_t operator()() {
    if (rest_.empty()) return behind_();
    const std::uint64_t low = byte(), middle = byte();
    return low | middle << 8 | std::uint64_t{byte()} << 16;
  }

  bool empty() const { return rest_.empty(); }
  unsigned byte() {
    if (rest_.empty()) return 0;
    const auto first = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return first;
  }
  unsigned below(unsigned end) { return byte() % end; }
  bool flag() { return byte() % 2 == 1; }
  // Any size of number, small ones and those around powers of two more often.
  std::uint64_t number() {
    const unsigned kind = byte();
    if (kind < 128) return kind % 64;
    return (std::uint64_t{1} << kind % 64) + byte() - 128;
  }
  std::string_view take(std::size_t bytes) {
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view take_line() {
    const std::string_view line = take(std::min(rest_.find('\n'), rest_.size()));
    take(1);
    return line;
  }
  std::string_view rest() { return take(rest_.size()); }

 private:
  std::string_view rest_;
  std::mt19937_64 behind_;
};

void fuzz_c_calls(std::string_view input);
void fuzz_c_inputs(std::string_view input);
void fuzz_c_numbers(std::string_view input);
void fuzz_c_pipes(std::string_view input);
void fuzz_c_records(std::string_view input);
void fuzz_c_sorts(std::string_view input);
void fuzz_c_storage(std::string_view input);
void fuzz_c_streams(std::string_view input);
void fuzz_chain_chunks(std::string_view input);
void fuzz_csv_columns(std::string_view input);
void fuzz_line_input(std::string_view input);
void fuzz_line_keys(std::string_view input);
void fuzz_record_formats(std::string_view input);
void fuzz_sort_options(std::string_view input);
void fuzz_sorted_inputs(std::string_view input);
void fuzz_stream_schedules(std::string_view input);

struct FuzzTarget {
  const char* name;
  void (*look_at)(std::string_view input);
};
inline constexpr FuzzTarget kFuzzTargets[] = {
    {"c_calls", fuzz_c_calls},                    // sequences of calls in C
    {"c_inputs", fuzz_c_inputs},                  // descriptors, and zeros behind errors, in C
    {"c_numbers", fuzz_c_numbers},                // sorts of numbers in C
    {"c_pipes", fuzz_c_pipes},                    // pipes in C
    {"c_records", fuzz_c_records},                // sorts of records, strings and lines in C
    {"c_sorts", fuzz_c_sorts},                    // sorts of files, and budgets, in C
    {"c_storage", fuzz_c_storage},                // files and blocks in C
    {"c_streams", fuzz_c_streams},                // streams of functions in C
    {"chain_chunks", fuzz_chain_chunks},          // keys that leave a sort by chains few chunks
    {"csv_columns", fuzz_csv_columns},            // columns of CSV as keys
    {"line_input", fuzz_line_input},              // texts, in all framings
    {"line_keys", fuzz_line_keys},                // keys of lines
    {"record_formats", fuzz_record_formats},      // keys of records
    {"sort_options", fuzz_sort_options},          // plans and traces
    {"sorted_inputs", fuzz_sorted_inputs},        // inputs to merge, sorted or not
    {"stream_schedules", fuzz_stream_schedules},  // who touches what when
};

}  // namespace vortex::test
