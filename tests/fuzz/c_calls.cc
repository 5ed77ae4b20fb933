// Sequences of calls of the C interface, on handles that live: each returns 0 or a negative errno
// value with a text, and what is read is what was written or pushed. One thread makes them, so none
// may wait for another: ends of pipes are not touched, and a budget has one user.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/c_results.h"
#include "tests/fuzz/targets.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/temporary_folder.h"
#include "vortex/c.h"
#include "vortex/version.h"

namespace vortex::test {
namespace {

constexpr std::size_t kB = std::size_t{16} << 10;

// A touch in a guarded body.
struct Touch {
  volatile unsigned char* at;
  bool writes;
  unsigned char byte;
};
void touch(void* context) {
  auto* const touch = static_cast<Touch*>(context);
  if (touch->writes) {
    *touch->at = touch->byte;
  } else {
    touch->byte = *touch->at;
  }
}

std::int64_t fill(void*, void* block, std::size_t bytes, std::uint64_t offset) {
  if (offset >= 5 * kB) return 0;
  std::memset(block, 'f', bytes);
  return static_cast<std::int64_t>(offset >= 4 * kB ? bytes / 2 : bytes);
}
int drain(void* context, const void* block, std::size_t bytes, std::uint64_t offset) {
  auto& text = *static_cast<std::string*>(context);
  if (offset > text.size()) return -EILSEQ;  // in order
  text.append(static_cast<const char*>(block), bytes);
  return bytes > 7 * kB ? -EFBIG : 0;
}
int refuse(void*, const vtx_sort_progress* progress) {
  return progress->bytes > 60'000 ? -EDQUOT : 0;
}

class Calls {
 public:
  explicit Calls(FuzzedBytes& bytes) : bytes_(bytes), path_(folder_.file("file")) {
    put_file_text(path_, std::string(3 * kB + 7, 'x'));
  }
  ~Calls() {
    for (unsigned slot = 0; slot < kSlots; ++slot) close_all(slot);
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  void run() {
    EXPECT_STREQ(vtx_version(), VORTEX_VERSION_STRING);
    for (int calls = 0; calls < 60 && !bytes_.empty(); ++calls) {
      const unsigned slot = bytes_.below(kSlots);
      switch (bytes_.below(10)) {
        case 0:
          memory(slots_[slot]);
          break;
        case 1:
          open_input(slots_[slot]);
          break;
        case 2:
          open_output(slots_[slot]);
          break;
        case 3:
          use_input(slots_[slot].input);
          break;
        case 4:
          use_output(slots_[slot]);
          break;
        case 5:
          sorter(slots_[slot]);
          break;
        case 6:
          line_sorter(slots_[slot]);
          break;
        case 7:
          sort_files();
          break;
        case 8:
          arrays();
          break;
        default:
          close_all(slot);
      }
    }
  }

 private:
  static constexpr unsigned kSlots = 3;
  struct Slot {
    vtx_pool* pool;
    vtx_disk* disk;
    vtx_input* input;
    vtx_output* output;
    vtx_sorter* sorter;
    vtx_input* sorted;
    vtx_line_sorter* lines;
    std::string drained;
    std::vector<std::string> pushed;  // lines
    std::vector<std::uint64_t> numbers;
    bool read, failed, lines_failed;
  };

  template <typename Handle>
  bool expect_made(int result, Handle* const& handle) {  // which is looked at behind the call
    EXPECT_EQ(result == 0, handle != nullptr);
    return expect(result);
  }
  const char* path() { return bytes_.below(8) == 0 ? "/nowhere/at/all" : path_.c_str(); }

  void memory(Slot& slot) {
    if (slot.pool == nullptr) {
      vtx_pool_options options{};
      options.pool_bytes = bytes_.below(40) * kB;
      options.block_bytes = bytes_.below(8) == 0 ? bytes_.number() : kB;
      options.warming = static_cast<int>(bytes_.below(4));
      options.kind = static_cast<int>(bytes_.below(6));
      expect_made(vtx_pool_create(&options, &slot.pool), slot.pool);
    } else {
      vtx_pool_counts counts{};
      if (expect(vtx_pool_statistics(slot.pool, &counts), slot.pool)) {
        EXPECT_LE(counts.blocks_in_use - counts.blocks_lost - counts.blocks_retired,
                  counts.peak_blocks_in_use);
      }
      expect(vtx_pool_wait_until_warm(slot.pool), slot.pool);
      std::size_t retired = 0;
      if (bytes_.flag()) expect(vtx_pool_retire(slot.pool, bytes_.below(4), &retired), slot.pool);
    }
    if (slot.disk != nullptr) return;
    vtx_disk_options options{};
    options.depth = bytes_.below(6);
    options.backend = static_cast<int>(bytes_.below(4));
    expect_made(vtx_disk_open(&options, &slot.disk), slot.disk);
  }

  vtx_stream_options stream_options(const Slot& slot) {
    vtx_stream_options options{};
    options.pool = bytes_.flag() ? slot.pool : nullptr;
    options.block_bytes = options.pool != nullptr ? 0 : kB;
    options.comeback_blocks = bytes_.below(3);
    options.reserve_bytes = bytes_.flag() ? 32 * kB : bytes_.number();
    return options;
  }
  void open_input(Slot& slot) {
    if (slot.input != nullptr) return;
    if (bytes_.flag()) {
      const vtx_stream_options options = stream_options(slot);
      expect_made(vtx_input_from_callback(fill, nullptr, &options, &slot.input), slot.input);
      return;
    }
    vtx_file_options options{};
    options.pool = bytes_.flag() ? slot.pool : nullptr;
    options.disk = bytes_.flag() ? slot.disk : nullptr;
    options.block_bytes = options.pool != nullptr ? 0 : kB;
    options.forward = bytes_.flag();
    options.caching = static_cast<int>(bytes_.below(4));
    options.read_ahead = bytes_.below(4);
    expect_made(vtx_input_open(path(), bytes_.below(8) == 0 ? nullptr : &options, &slot.input),
                slot.input);
  }
  void open_output(Slot& slot) {
    if (slot.output != nullptr) return;
    slot.drained.clear();
    if (bytes_.flag()) {
      const vtx_stream_options options = stream_options(slot);
      expect_made(vtx_output_to_callback(drain, &slot.drained, &options, &slot.output),
                  slot.output);
      return;
    }
    vtx_new_file_options options{};
    options.pool = bytes_.flag() ? slot.pool : nullptr;
    options.disk = bytes_.flag() ? slot.disk : nullptr;
    options.block_bytes = options.pool != nullptr ? 0 : kB;
    options.keep_existing = bytes_.below(4) == 0;
    options.expected_bytes = bytes_.below(8) * kB;
    options.reserve_bytes = 64 * kB;
    expect_made(vtx_output_create(path(), &options, &slot.output), slot.output);
  }

  void use_input(vtx_input* input) {
    if (input == nullptr) return;
    const auto* const data = static_cast<const unsigned char*>(vtx_input_data(input));
    Touch place{const_cast<unsigned char*>(data) + bytes_.below(6) * kB + bytes_.byte(), false, 0};
    std::uint64_t length = 0;
    switch (bytes_.below(5)) {
      case 0:
        expect(vtx_input_length(input, &length), input);
        break;
      case 1:
        expect(vtx_input_prefault(input, bytes_.below(6) * kB, bytes_.below(3) * kB), input);
        break;
      case 2:
        vtx_input_cancel(input, static_cast<int>(bytes_.below(3)), nullptr);
        break;
      default:
        // Beyond what it has reserved are the addresses of others.
        if (place.at - data < static_cast<std::ptrdiff_t>(3 * kB) &&
            expect(vtx_guarded(touch, &place)) && vtx_input_failure(input) == 0) {
          EXPECT_TRUE(place.byte == 'x' || place.byte == 'f' || place.byte == 0 ||
                      place.byte == 'w')
              << place.byte;
        }
    }
  }
  void use_output(Slot& slot) {
    if (slot.output == nullptr) return;
    const unsigned block = bytes_.below(3);
    switch (bytes_.below(5)) {
      case 0:
        expect(vtx_output_finish(slot.output, block * kB + bytes_.byte()), slot.output);
        break;
      case 1:
        expect(vtx_output_prefault(slot.output, block * kB, bytes_.below(3) * kB), slot.output);
        break;
      case 2:
        vtx_output_cancel(slot.output, static_cast<int>(bytes_.below(3)), "by chance");
        break;
      default: {
        Touch place{
            static_cast<unsigned char*>(vtx_output_data(slot.output)) + block * kB + bytes_.byte(),
            true, 'w'};
        expect(vtx_guarded(touch, &place));
      }
    }
  }

  vtx_sort_resources resources() {
    vtx_sort_resources resources{};
    resources.memory_bytes = bytes_.below(8) == 0 ? 1 + bytes_.number() % (1 << 24) : 2 << 20;
    resources.block_bytes = bytes_.below(8) == 0 ? bytes_.number() : kB;
    resources.folders = &folders_;
    resources.folder_count = 1;
    resources.threads = 1 + bytes_.below(3);
    resources.compression = static_cast<int>(bytes_.below(4));
    resources.prefetch = static_cast<int>(bytes_.below(6));
    resources.no_sync = 1;
    resources.progress = bytes_.below(8) == 0 ? refuse : nullptr;
    return resources;
  }
  void sorter(Slot& slot) {
    if (slot.sorter == nullptr) {
      const vtx_sort_resources with = resources();
      slot.failed = slot.read = false;
      slot.numbers.clear();
      expect_made(vtx_sorter_create(&format_, &with, &slot.sorter), slot.sorter);
      return;
    }
    if (slot.sorted == nullptr && bytes_.below(4) != 0) {
      std::vector<std::uint64_t> some(bytes_.number() % 50'000);
      std::uint64_t state = bytes_.byte();
      for (std::uint64_t& number : some) number = state = state * 6364136223846793005U + 1;
      const int result = vtx_sorter_push(slot.sorter, some.data(), some.size());
      if (slot.failed) {
        EXPECT_NE(result, 0);
      }
      if (expect(result, slot.sorter)) {
        slot.numbers.insert(slot.numbers.end(), some.begin(), some.end());
        EXPECT_EQ(vtx_sorter_size(slot.sorter), slot.numbers.size());
      } else {
        slot.failed = true;
      }
    } else if (slot.sorted == nullptr) {
      if (!expect(vtx_sorter_sort(slot.sorter, &slot.sorted), slot.sorter)) slot.failed = true;
      std::sort(slot.numbers.begin(), slot.numbers.end());
    } else if (!slot.numbers.empty()) {
      EXPECT_LT(vtx_sorter_push(slot.sorter, slot.numbers.data(), 1), 0);
      const std::size_t at = bytes_.below(4) * std::size_t{500};
      if (at >= slot.numbers.size()) return;
      const auto* const data = static_cast<const unsigned char*>(vtx_input_data(slot.sorted));
      Touch place{const_cast<unsigned char*>(data) + at * 8, false, 0};
      if (expect(vtx_guarded(touch, &place))) {
        EXPECT_EQ(place.byte, slot.numbers[at] & 0xff);
      }
    }
  }
  void line_sorter(Slot& slot) {
    if (slot.lines == nullptr) {
      const vtx_sort_resources with = resources();
      slot.lines_failed = false;
      slot.pushed.clear();
      expect_made(vtx_line_sorter_create(nullptr, &with, &slot.lines), slot.lines);
    } else if (bytes_.below(4) != 0 && !slot.lines_failed) {
      for (unsigned i = bytes_.byte(); i > 0; --i) {
        const std::string line(bytes_.byte() * (1 + i % 7), static_cast<char>('a' + i % 26));
        if (!expect(vtx_line_sorter_push(slot.lines, line.data(), line.size()), slot.lines)) {
          slot.lines_failed = true;
          return;
        }
        slot.pushed.push_back(line);
      }
      EXPECT_EQ(vtx_line_sorter_size(slot.lines), slot.pushed.size());
    } else if (!slot.lines_failed) {
      std::sort(slot.pushed.begin(), slot.pushed.end());
      const char* text = nullptr;
      std::size_t bytes = 0;
      for (std::size_t i = 0; i <= slot.pushed.size(); ++i) {
        if (!expect(vtx_line_sorter_next(slot.lines, &text, &bytes), slot.lines)) break;
        ASSERT_EQ(text == nullptr, i == slot.pushed.size());
        if (text != nullptr) {
          ASSERT_TRUE(slot.pushed[i] == std::string_view(text, bytes));
        }
      }
      vtx_run_counts counts{};
      if (expect(vtx_line_sorter_statistics(slot.lines, &counts), slot.lines)) {
        EXPECT_EQ(counts.runs == 0, counts.bytes == 0);
      }
      slot.lines_failed = true;  // nothing more is pushed
    }
  }
  void sort_files() {
    const vtx_sort_resources with = resources();
    const std::string output = folder_.file("sorted");
    const char* const input = path();
    vtx_file_sort files{};
    files.inputs = &input;
    files.input_count = bytes_.below(2);
    files.output = output.c_str();
    files.unique = bytes_.flag();
    files.merge = bytes_.flag();
    vtx_sort_report report{};
    const char* text = nullptr;
    if (bytes_.flag()) {
      const bool planned = expect(vtx_plan_files(&files, &format_, &with, &text));
      const bool sorted = expect(vtx_sort_files(&files, &format_, &with, &report));
      if (sorted) {
        EXPECT_TRUE(planned) << "what cannot be planned is sorted";
      }
    } else {
      vtx_line_format lines{};
      lines.csv = bytes_.flag();
      lines.unique = bytes_.flag();
      lines.header_lines = bytes_.below(3);
      if (expect(vtx_plan_lines(&files, &lines, &with, &text))) {
        EXPECT_STRNE(text, "");
      }
      if (expect(vtx_sort_lines(&files, &lines, &with, &report))) {
        EXPECT_EQ(report.output_bytes, file_text(output).size());
      }
    }
  }
  void arrays() {
    std::vector<std::uint64_t> numbers(bytes_.number() % 3000);
    for (std::uint64_t& number : numbers) number = bytes_();
    std::vector<std::uint64_t> expected = numbers;
    std::sort(expected.begin(), expected.end());
    vtx_sort_options options{};
    options.threads = bytes_.below(4);
    if (expect(vtx_sort_u64(numbers.data(), numbers.size(), &options))) {
      ASSERT_TRUE(numbers == expected);
    }
  }

  void close_all(unsigned index) {
    Slot& slot = slots_[index];
    vtx_input_close(slot.input);
    vtx_output_close(slot.output);
    vtx_sorter_close(slot.sorter);
    vtx_line_sorter_close(slot.lines);
    vtx_pool_close(slot.pool);
    vtx_disk_close(slot.disk);
    slot = {};
  }

  FuzzedBytes& bytes_;
  const TemporaryFolder folder_{fast_folder()};
  const std::string path_, folder_name_ = folder_.path().string();
  const char* const folders_ = folder_name_.c_str();
  const vtx_key key_{0, 8, VTX_KEY_UNSIGNED, 0, 0};
  const vtx_record_format format_{8, &key_, 1};
  std::array<Slot, kSlots> slots_{};
};

}  // namespace

void fuzz_c_calls(std::string_view input) {
  FuzzedBytes bytes(input);
  Calls(bytes).run();
}

}  // namespace vortex::test
