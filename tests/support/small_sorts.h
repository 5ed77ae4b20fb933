// Sorts of files with fixed records or lines, small enough to be done hundreds of times, and what
// must hold when they have ended.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "sort/record/format_order.h"
#include "tests/lines/fuzzed_input.h"
#include "tests/lines/line_cases.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "vortex/external_sort.h"
#include "vortex/line_sort.h"
#include "vortex/sorter.h"

namespace vortex::test {

using Bytes = std::vector<std::byte>;

// Inputs and output in one folder, runs in others.
class Files {
 public:
  explicit Files(unsigned run_folders = 1, const std::filesystem::path& where = fast_folder())
      : folder_(where) {
    signal(SIGPIPE, SIG_IGN);  // of sorts that end before their input
    for (unsigned i = 0; i < run_folders; ++i) run_folders_.emplace_back(where);
    output_ = folder_.file("output");
  }

  void add_input(Bytes bytes) {
    paths_.push_back(folder_.file("input " + std::to_string(inputs_.size())));
    inputs_.push_back(std::move(bytes));
    write_file(paths_.back(), inputs_.back());
  }
  // A pipe with a name, and a thread that writes to it.
  void add_pipe(Bytes bytes) {
    paths_.push_back(folder_.file("input " + std::to_string(inputs_.size())));
    inputs_.push_back(std::move(bytes));
    ASSERT_EQ(mkfifo(paths_.back().c_str(), 0600), 0);
    writers_.emplace_back([path = paths_.back(), &bytes = inputs_.back()] {
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    });
  }
  void output_is_an_input() { output_ = paths_.back(); }
  ~Files() {
    for (std::thread& writer : writers_) writer.join();
  }

  template <typename Options = ExternalSortOptions>
  Options options() const {
    Options options;
    options.inputs = paths_;
    options.output = output_;
    for (const TemporaryFolder& folder : run_folders_) {
      options.resources.folders.push_back(folder.path().string());
    }
    return options;
  }

  const std::string& output() const { return output_; }
  const std::string& path(std::size_t input) const { return paths_[input]; }
  std::string file(const std::string& name) const { return folder_.file(name); }

  // Nothing is left in the folders, and in that of the output is what was there before, or the
  // output besides.
  void expect_nothing_left(bool output_is_there) const {
    for (const TemporaryFolder& folder : run_folders_) EXPECT_EQ(folder.entries(), 0U);
    EXPECT_EQ(exists(output_), output_is_there);
    const bool extra =
        output_is_there && std::find(paths_.begin(), paths_.end(), output_) == paths_.end();
    EXPECT_EQ(folder_.entries(), paths_.size() + (extra ? 1 : 0));
  }
  void expect_inputs_untouched() const {
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      struct stat status {};
      ASSERT_EQ(stat(paths_[i].c_str(), &status), 0);
      if (S_ISREG(status.st_mode) && paths_[i] != output_) {
        EXPECT_TRUE(same_bytes(read_file(paths_[i]), inputs_[i])) << paths_[i] << " has changed";
      }
    }
  }

 private:
  TemporaryFolder folder_;
  std::deque<TemporaryFolder> run_folders_;
  std::string output_;
  std::vector<std::string> paths_;
  std::deque<Bytes> inputs_;
  std::vector<std::thread> writers_;
};

// Inputs of records, as `make` gives one at a time, of which the first may come through a pipe: all
// in one list.
inline RecordList add_inputs(Files& files, std::size_t record_bytes, std::size_t inputs, bool pipe,
                             const std::function<RecordList()>& make) {
  RecordList all{record_bytes, {}};
  for (std::size_t i = 0; i < inputs; ++i) {
    RecordList list = make();
    all.bytes.insert(all.bytes.end(), list.bytes.begin(), list.bytes.end());
    pipe&& i == 0 ? files.add_pipe(std::move(list.bytes)) : files.add_input(std::move(list.bytes));
  }
  return all;
}

// The least that a sort takes. A pipe is opened once only: it is found out with nothing in it.
inline std::uint64_t least_memory(ExternalSortOptions options, bool pipe) {
  if (pipe) options.inputs = {"/dev/zero"};
  return least_memory([&](std::uint64_t bytes) {
    options.resources.memory_bytes = bytes;
    plan_external_sort(options);
  });
}

// The sort of a list of records that lies in a file or comes through a pipe.
struct ListSort {
  ListSort(RecordList records, RecordFormat format, std::uint64_t memory_bytes,
           unsigned run_folders = 1, bool pipe = false)
      : list(std::move(records)), order(std::move(format)), files(run_folders) {
    pipe ? files.add_pipe(list.bytes) : files.add_input(list.bytes);
    options = files.options();
    options.format = order.format();
    options.resources.memory_bytes = memory_bytes;
  }
  // The report of a sort whose output is right; it may go, so that the next one has to make it.
  SortReport run(bool keep_output = true) {
    const SortReport report = external_sort(options);
    if (sorted.empty()) sorted = stably_sorted(order, list).bytes;
    EXPECT_TRUE(same_bytes(read_file(options.output), sorted)) << to_string(report.plan);
    if (!keep_output) unlink(options.output.c_str());
    return report;
  }
  // The sort ends with the error, its words name the part, and nothing is left.
  void expect_end(int error, const std::string& part = {}) {
    EXPECT_TRUE(fails([&] { external_sort(options); }, error, part));
    files.expect_nothing_left(false);
  }
  // The same of a stop as soon as `when` is true of the progress.
  void expect_stop(const std::function<bool(const SortProgress&)>& when) {
    std::stop_source stop;
    options.resources.stop = stop.get_token();
    options.resources.progress = [&](const SortProgress& now) {
      if (when(now)) stop.request_stop();
    };
    expect_end(ECANCELED);
    options.resources.stop = {};
    options.resources.progress = {};
  }

  RecordList list;
  FormatOrder order;
  Bytes sorted;  // what must come out, once it is known
  Files files;
  ExternalSortOptions options;
};

inline RecordList random_records(std::size_t record_bytes, std::size_t count) {
  auto random = test_random();
  return make_records(Shape::kRandom, record_bytes, count, random);
}

// A kind of records: inputs with a sort through several runs, what must come out of it, and the
// calls.
struct FixedRecords {
  using Options = ExternalSortOptions;
  static constexpr std::size_t kRecordBytes = 36;
  static constexpr unsigned kPasses = 2;
  static constexpr bool kMergesPipes = false;

  static Bytes make_input(bool in_memory, std::size_t times, std::mt19937_64& random) {
    return make_records(Shape::kRandom, kRecordBytes, (in_memory ? 3000 : 30000) * times, random)
        .bytes;
  }
  static RecordFormat format() { return RecordFormat(kRecordBytes, {parse_record_key("0:6")}); }
  static Bytes sorted(const Bytes& input) {
    return stably_sorted(FormatOrder(format()), {kRecordBytes, input}).bytes;
  }
  static void complete(Options& options, std::mt19937_64&) { options.format = format(); }
  static void plan(const Options& options) { plan_external_sort(options); }
  static SortReport sort(const Options& options) { return external_sort(options); }
  static void make_sorter(const SortResources& resources) {
    ByteSorter(resources, order_of_format(format()));
  }
};

struct TextLines {
  using Options = LineSortOptions;
  static constexpr unsigned kPasses = 1;
  static constexpr bool kMergesPipes = true;

  // Some more than is read with plain calls.
  static Bytes make_input(bool /*in_memory*/, std::size_t times, std::mt19937_64& random) {
    return bytes_of(joined(make_lines(LineKind::kFields, 16000 * times, 150, random)));
  }
  static Bytes sorted(const Bytes& input) {
    const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
    Lines lines = *records_in(RecordFraming::Kind::kDelimited, '\n', text);
    std::sort(lines.begin(), lines.end());
    return bytes_of(joined(lines));
  }
  static void complete(Options& options, std::mt19937_64& random) {
    options.resources.block_bytes = std::size_t{16} << 10;
    options.resources.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
    options.resources.compression =
        random() % 2 == 0 ? RunCompression::kAlways : RunCompression::kNever;
  }
  static void plan(const Options& options) { plan_line_sort(options); }
  static SortReport sort(const Options& options) { return sort_lines(options); }
  static void make_sorter(const SortResources& resources) { LineSorter({}, resources); }
};

template <typename Kind>
struct SmallSort {
  // The input may be several times as long.
  explicit SmallSort(bool in_memory = false, std::size_t times = 1) {
    auto random = test_random();
    input = Kind::make_input(in_memory, times, random);
    files.add_input(input);
    options = files.options<typename Kind::Options>();
    Kind::complete(options, random);
    options.resources.memory_bytes = in_memory ? 8 << 20 : least_memory([&](std::uint64_t bytes) {
      options.resources.memory_bytes = bytes;
      Kind::plan(options);
    });
    options.resources.open_disk = sort_disks(Backend::kThreads);
  }
  // Returns the error, with everything looked at that must hold then.
  int run(std::string* message = nullptr) {
    SortReport report;
    const int error = error_of([&] { report = Kind::sort(options); }, message);
    files.expect_nothing_left(error == 0);
    files.expect_inputs_untouched();
    if (error == 0) {
      if (sorted.empty()) sorted = Kind::sorted(input);
      EXPECT_TRUE(same_bytes(read_file(files.output()), sorted));
      passes = report.passes;
      runs = report.runs;
      unlink(files.output().c_str());
    }
    return error;
  }
  // Returns the error of the sort and of its plan.
  int refusal(std::string* message = nullptr) {
    const int thrown = error_of([&] { Kind::sort(options); }, message);
    EXPECT_EQ(error_of([&] { Kind::plan(options); }), thrown);
    files.expect_nothing_left(false);
    return thrown;
  }

  Files files{2};
  Bytes input;
  Bytes sorted;  // what must come out, from the first run on
  typename Kind::Options options;
  unsigned passes = 0;
  std::uint64_t runs = 0;
};

}  // namespace vortex::test
