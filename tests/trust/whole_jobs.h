// Whole jobs of the library, small enough to be done thousands of times, and what must hold behind
// each, however it has ended.
#pragma once

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "study/faulty_disk.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/temporary_folder.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/files/timed_readers.h"
#include "vortex/line_sort.h"
#include "vortex/pipeline.h"
#include "vortex/radix_sort.h"
#include "vortex/sorter.h"

namespace vortex::test {

// The plan of the disks that jobs make; none: disks are the library's own.
inline std::shared_ptr<FaultPlan>& plan_of_disks() {
  static std::shared_ptr<FaultPlan> plan;
  return plan;
}
inline std::unique_ptr<Disk> disk_of_job(DiskBackend backend = DiskBackend::kBest) {
  return plan_of_disks() ? with_faults(open_disk({.backend = backend}), plan_of_disks()) : nullptr;
}

// Where jobs have their files.
inline std::filesystem::path& folder_of_jobs() {
  static std::filesystem::path folder = fast_folder();
  return folder;
}

// A folder with inputs, the output as it was before, and two folders of runs. A second output lies
// in another folder.
class Place {
 public:
  static constexpr std::string_view kOld = "what was there before";

  Place() {
    for (const char* const runs : {"runs0", "runs1"}) {
      std::filesystem::create_directory(folder_.file(runs));
      run_folders_.push_back(folder_.file(runs));
    }
    restore();
  }

  const std::vector<std::string>& run_folders() const { return run_folders_; }
  std::string output() const { return folder_.file("out"); }
  std::string second_output() const { return folder_.file("second/out"); }
  void add_second_output() {
    std::filesystem::create_directory(folder_.file("second"));
    outputs_.push_back(second_output());
    restore();
  }
  std::string add_input(std::string bytes) {
    paths_.push_back(folder_.file("in" + std::to_string(paths_.size())));
    put(paths_.back(), bytes);
    inputs_.push_back(std::move(bytes));
    return paths_.back();
  }
  const std::string& input(std::size_t index = 0) const { return inputs_[index]; }
  const std::vector<std::string>& paths() const { return paths_; }

  void restore() const {
    for (const std::string& output : outputs_) {
      if (text(output) != kOld) put(output, kOld);
      // An attribute is passed on as far as that goes; some file systems have none.
      setxattr(output.c_str(), "user.origin", "here", 4, 0);
    }
  }

  // What is wrong; empty: nothing. `expected` is the output of a job that has ended well.
  std::string complaint(bool ended_well, const std::string& expected,
                        bool files_may_stay = false) const {
    const std::string out = text(output());
    if (ended_well ? out != expected : out != expected && out != kOld) {
      return "the output has " + std::to_string(out.size()) + " bytes and is not " +
             (ended_well ? "right" : "old or new");
    }
    return complaint_of_others(files_may_stay);
  }
  // Of all files but the outputs.
  std::string complaint_of_others(bool files_may_stay) const {
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      if (text(paths_[i]) != inputs_[i]) return paths_[i] + " has changed";
    }
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) names.insert(entry.path().string());
    }
    for (const std::string& output : outputs_) names.erase(output);
    for (const std::string& path : paths_) names.erase(path);
    if (names.empty()) return {};
    const std::string left = *names.begin();
    for (const std::string& name : names) unlink(name.c_str());
    return files_may_stay ? "" : "left behind: " + left;
  }

  // With plain calls: it is done thousands of times.
  static std::string text(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::string bytes(file < 0 ? 0 : std::filesystem::file_size(path), '\0');
    const ssize_t got = file < 0 ? 0 : read(file, bytes.data(), bytes.size());
    if (file >= 0) close(file);
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return bytes;
  }
  static void put(const std::string& path, std::string_view bytes) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("cannot write " + path);
    }
    close(file);
  }

 private:
  TemporaryFolder folder_{folder_of_jobs()};
  std::vector<std::string> run_folders_, paths_, inputs_, outputs_{output()};
};

// A pipe that holds some bytes and has no writer, as a path that can be opened once.
class FullPipe {
 public:
  explicit FullPipe(std::string_view bytes) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    end_ = ends[0];
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    const ssize_t written = write(ends[1], bytes.data(), bytes.size());
    close(ends[1]);
    if (written != static_cast<ssize_t>(bytes.size())) throw std::runtime_error("a small pipe");
  }
  ~FullPipe() { close(end_); }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(end_); }

 private:
  int end_ = -1;
};

struct WholeJob {
  std::string name;
  bool quick = false;  // it takes some milliseconds: more of it fails than of others
  // What must be done before each time, where nothing fails yet.
  std::function<void()> prepare = [] {};
  std::function<void()> run;  // throws what the job ends with
  // What is wrong then; empty: nothing.
  std::function<std::string(bool ended_well, bool files_may_stay)> complaint;
};

// Of a job whose result stays in memory.
struct Result {
  std::string expected, got;
  std::string complaint(bool ended_well) const {
    return ended_well && got != expected ? "the result is wrong" : "";
  }
};

inline std::string complaint_of(const Place& place, const Result& result, bool ended_well,
                                bool files_may_stay) {
  const std::string wrong = result.complaint(ended_well);
  return wrong.empty() ? place.complaint(false, {}, files_may_stay) : wrong;
}

inline constexpr std::size_t kJobBlock = std::size_t{16} << 10;

// --- Sorts of files

inline std::string random_numbers(std::size_t count, std::mt19937_64& random) {
  std::string bytes(count * 8, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t number = random() % 100'000;
    std::memcpy(bytes.data() + i * 8, &number, 8);
  }
  return bytes;
}
inline std::string sorted_numbers(const std::string& bytes) {
  std::vector<std::uint64_t> numbers(bytes.size() / 8);
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  std::sort(numbers.begin(), numbers.end());
  return {reinterpret_cast<const char*>(numbers.data()), bytes.size()};
}
inline std::string random_lines(std::size_t bytes, std::mt19937_64& random) {
  std::string text;
  while (text.size() < bytes)
    text += std::to_string(random()) + " " + std::to_string(random()) + '\n';
  return text;
}
inline std::string sorted_lines(const std::string& text) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at) + 1;
    lines.push_back(std::string_view(text).substr(at, end - at));
    at = end;
  }
  std::sort(lines.begin(), lines.end());
  std::string sorted;
  for (const std::string_view line : lines) sorted += line;
  return sorted;
}

struct SortShape {
  std::string name;
  bool lines = false;
  bool runs = false;
  bool pipe = false;
  bool merge = false;     // two sorted inputs
  bool in_place = false;  // the output's contents are replaced
  bool unique = false;    // by more threads: branches merge the runs
  bool csv = false;       // lines, by their first column
  DiskBackend backend = DiskBackend::kBest;
};

inline SortResources job_resources(const Place& place, std::uint64_t memory_bytes,
                                   DiskBackend backend = DiskBackend::kBest) {
  SortResources resources;
  resources.folders = place.run_folders();
  resources.memory_bytes = memory_bytes;
  resources.block_bytes = kJobBlock;
  resources.threads = 2;
  resources.backend = backend;
  if (plan_of_disks()) {
    resources.open_disk = [backend](const std::string&) { return disk_of_job(backend); };
  }
  return resources;
}

// Runs are what the job is about.
inline void expect_runs(const SortShape& shape, const SortReport& report) {
  if ((shape.runs != (report.runs > 1) && !shape.merge) || (shape.unique && report.runs < 6)) {
    throw std::logic_error("a sort with " + std::to_string(report.runs) + " runs");
  }
}

inline void order_by(const SortShape& shape, LineSortOptions& options) {
  LineKeyOptions keys;
  if (shape.csv) {
    keys.keys = {"1"};
    keys.fields = FieldRules::kCsv;
    options.framing = RecordFraming::quoted();
  }
  options.order = line_order(keys);
  options.order.unique = shape.unique;
}

// Calls use(options) with those of either kind of records.
template <typename Use>
void with_options(const Place& place, const SortShape& shape, std::uint64_t memory_bytes,
                  const std::vector<std::string>& inputs, const Use& use) {
  const auto use_with_files = [&](auto options) {
    options.inputs = inputs;
    options.output = place.output();
    options.merge_inputs = shape.merge;
    options.resources = job_resources(place, memory_bytes, shape.backend);
    if (shape.unique) options.resources.threads = 4;
    if constexpr (requires { options.order.keys; }) order_by(shape, options);
    if (shape.in_place) options.resources.output_in_place = InPlace::kAlways;
    if (shape.pipe && shape.lines) options.resources.compression = RunCompression::kAlways;
    use(options);
  };
  if (shape.lines) {
    use_with_files(LineSortOptions{});
  } else {
    ExternalSortOptions options;
    options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
    use_with_files(options);
  }
}

struct SortFiles {
  SortReport operator()(const LineSortOptions& options) const { return sort_lines(options); }
  SortReport operator()(const ExternalSortOptions& options) const { return external_sort(options); }
};
struct PlanFiles {
  void operator()(const LineSortOptions& options) const { plan_line_sort(options); }
  void operator()(const ExternalSortOptions& options) const { plan_external_sort(options); }
};

inline void sort_at(const Place& place, const SortShape& shape, std::uint64_t memory_bytes,
                    const std::vector<std::string>& inputs) {
  with_options(place, shape, memory_bytes, inputs,
               [&](const auto& options) { expect_runs(shape, SortFiles()(options)); });
}

inline std::uint64_t memory_for(const Place& place, const SortShape& shape) {
  if (!shape.runs && !shape.merge) return 8 << 20;
  if (shape.unique) return 1 << 20;
  return least_memory([&](std::uint64_t bytes) {
    const std::vector<std::string> pipe = {"/dev/zero"};
    with_options(place, shape, bytes, shape.pipe ? pipe : place.paths(), PlanFiles());
  });
}

inline WholeJob sort_job(const SortShape& shape, std::mt19937_64& random) {
  const auto place = std::make_shared<Place>();
  const std::size_t bytes = shape.lines && shape.runs && !shape.pipe ? 3 << 19 : 1 << 19;
  std::string all;
  for (int i = 0; i < (shape.merge ? 2 : shape.pipe && shape.lines ? 3 : 1); ++i) {
    std::string input =
        shape.lines ? random_lines(bytes, random) : random_numbers(bytes / 8, random);
    all += input;
    if (shape.merge) input = shape.lines ? sorted_lines(input) : sorted_numbers(input);
    place->add_input(std::move(input));
  }
  const std::string expected = shape.lines ? sorted_lines(all) : sorted_numbers(all);
  const std::uint64_t memory = memory_for(*place, shape);
  const auto pipes = std::make_shared<std::vector<std::unique_ptr<FullPipe>>>();
  WholeJob job;
  job.name = shape.name;
  job.prepare = [=] {
    place->restore();
    for (std::size_t i = 0; shape.pipe && i < place->paths().size(); ++i) {
      pipes->push_back(std::make_unique<FullPipe>(place->input(i)));
    }
  };
  job.run = [=] {
    std::vector<std::string> paths = place->paths();
    for (std::size_t i = 0; i < pipes->size(); ++i) paths[i] = (*pipes)[i]->path();
    sort_at(*place, shape, memory, paths);
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) {
    pipes->clear();
    // What is replaced in place may be a part then.
    if (shape.in_place && !ended_well) place->restore();
    return place->complaint(ended_well, expected, files_may_stay);
  };
  return job;
}

// Parts by given splitters. Where a name cannot be taken, those in front of it stay.
inline WholeJob division_job(std::mt19937_64& random) {
  static constexpr std::uint64_t kSplitters[] = {25'000, 50'000, 75'000};
  const auto place = std::make_shared<Place>();
  place->add_input(random_numbers(std::size_t{1} << 15, random));
  std::vector<std::string> parts(std::size(kSplitters) + 1);
  for (std::size_t at = 0; at < place->input().size(); at += 8) {
    std::uint64_t number = 0;
    std::memcpy(&number, place->input().data() + at, 8);
    const auto* const part = std::upper_bound(std::begin(kSplitters), std::end(kSplitters), number);
    parts[static_cast<std::size_t>(part - kSplitters)] += place->input().substr(at, 8);
  }
  const auto path_of = [=](std::size_t part) {
    return place->output() + ".0000" + std::to_string(part);
  };
  WholeJob job;
  job.name = "Division";
  job.quick = true;
  job.run = [=] {
    ExternalPartitionOptions options;
    options.inputs = place->paths();
    options.prefix = place->output();
    options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
    const auto splitters = std::as_bytes(std::span(kSplitters));
    options.splitters.assign(splitters.begin(), splitters.end());
    options.resources = job_resources(*place, 8 << 20);
    options.resources.folders.clear();
    external_partition(options);
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) -> std::string {
    std::string wrong;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const bool there = access(path_of(part).c_str(), F_OK) == 0;
      if (there ? Place::text(path_of(part)) != parts[part] : ended_well) {
        wrong = "part " + std::to_string(part) + (there ? " is not whole" : " is not there");
      }
      unlink(path_of(part).c_str());
    }
    return wrong.empty() ? place->complaint(false, {}, files_may_stay) : wrong;
  };
  return job;
}

// --- Files as arrays

// A unit goes to the first part or to the second, and to one of them alone where the other has been
// left out. What is wrong with parts, each of which is new when a job has ended well, else old or
// new; empty: nothing.
inline std::string complaint_of_stripes(const Place& place, bool ended_well) {
  const std::string parts[] = {Place::text(place.output()), Place::text(place.second_output())};
  std::size_t old = 0;
  for (const std::string& part : parts) old += part == Place::kOld;
  if (ended_well && old != 0) return "a part is old";
  std::size_t at[] = {0, 0};
  for (std::size_t unit = 0; unit < place.input().size(); unit += kJobBlock) {
    const std::string_view bytes = std::string_view(place.input()).substr(unit, kJobBlock);
    bool found = false;
    for (std::size_t part = 0; part < 2 && !found; ++part) {
      found = std::string_view(parts[part]).substr(at[part], kJobBlock) == bytes;
      if (found) at[part] += kJobBlock;
    }
    if (!found && old == 0) return "unit " + std::to_string(unit / kJobBlock) + " is in no part";
  }
  for (std::size_t part = 0; part < 2; ++part) {
    if (parts[part] != Place::kOld && parts[part].size() != at[part]) return "a part has more";
  }
  return {};
}

// From a reader to a writer, which syncs.
inline WholeJob copy_job(std::mt19937_64& random, bool striped) {
  const auto place = std::make_shared<Place>();
  place->add_input(random_numbers(kJobBlock, random));
  if (striped) place->add_second_output();
  WholeJob job;
  job.name = striped ? "StripedCopy" : "Copy";
  job.quick = true;
  job.prepare = [=] { place->restore(); };
  job.run = [=] {
    const std::unique_ptr<Disk> disk = disk_of_job();
    FileReader<char> in(place->paths()[0], {.block_bytes = kJobBlock, .disk = disk.get()});
    FileWriterOptions options;
    options.block_bytes = kJobBlock;
    options.sync = true;
    options.disk = disk.get();
    const auto copy = [&](FileWriter<char>& out) {
      guarded([&] {
        for (std::size_t i = 0; i < in.size(); ++i) out.data()[i] = in.data()[i];
      }).throw_if_failed();
      out.finish(in.size());
    };
    if (striped) {
      const std::unique_ptr<Disk> first = disk_of_job(), second = disk_of_job();
      StripedFile file({{place->output(), first.get()}, {place->second_output(), second.get()}},
                       {.unit_bytes = kJobBlock, .most_bytes = 64 * kJobBlock});
      FileWriter<char> out(file.writing_layout(), options);
      copy(out);
    } else {
      FileWriter<char> out(place->output(), options);
      copy(out);
    }
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) {
    if (!striped) return place->complaint(ended_well, place->input(), files_may_stay);
    const std::string wrong = complaint_of_stripes(*place, ended_well);
    return wrong.empty() ? place->complaint_of_others(files_may_stay) : wrong;
  };
  return job;
}

// Every number of a file changes; each is the one from before or the new one, and the new one when
// flush() has returned.
inline WholeJob array_job(std::mt19937_64& random) {
  const auto place = std::make_shared<Place>();
  const std::string before = random_numbers(kJobBlock, random);
  std::string after = before;
  for (std::size_t i = 0; i < after.size(); i += 8) after[i + 7] = 'x';
  WholeJob job;
  job.name = "Array";
  job.quick = true;
  job.prepare = [=] { Place::put(place->output(), before); };
  job.run = [=] {
    const std::unique_ptr<Disk> disk = disk_of_job();
    FileArray<std::uint64_t> array(place->output(), {.block_bytes = kJobBlock, .disk = disk.get()});
    guarded([&] {
      for (std::uint64_t& number : array.span()) number |= std::uint64_t{'x'} << 56;
    }).throw_if_failed();
    array.flush();
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) -> std::string {
    const std::string now = Place::text(place->output());
    if (now.size() != after.size()) return "the file has another length";
    if (ended_well && now != after) return "what flush() returned for is not in the file";
    for (std::size_t i = 0; i < now.size(); i += 8) {
      const std::string_view number = std::string_view(now).substr(i, 8);
      if (number != std::string_view(before).substr(i, 8) &&
          number != std::string_view(after).substr(i, 8)) {
        return "number " + std::to_string(i / 8) + " is neither old nor new";
      }
    }
    place->restore();
    return place->complaint(false, {}, files_may_stay);
  };
  return job;
}

// The file gets twice its length, and then half a block more than it had. Whatever is there of it
// has the numbers from before, and behind them new ones or zeros.
inline WholeJob resized_array_job(std::mt19937_64& random) {
  const auto place = std::make_shared<Place>();
  const std::string before = random_numbers(kJobBlock / 2, random);
  std::string after = before;
  while (after.size() < 2 * before.size()) after += "a number";
  const std::size_t last = before.size() + kJobBlock / 2;
  WholeJob job;
  job.name = "ResizedArray";
  job.quick = true;
  job.prepare = [=] { Place::put(place->output(), before); };
  job.run = [=] {
    const std::unique_ptr<Disk> disk = disk_of_job();
    FileArray<char> array(place->output(), {.block_bytes = kJobBlock, .disk = disk.get()});
    array.resize(after.size());
    guarded([&] {
      for (std::size_t i = before.size(); i < after.size(); ++i) array.data()[i] = after[i];
    }).throw_if_failed();
    array.resize(last);
    array.flush();
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) -> std::string {
    const std::string now = Place::text(place->output());
    if (ended_well && now != after.substr(0, last)) return "the file is not what it was made";
    if (now.size() != before.size() && now.size() != after.size() && now.size() != last) {
      return "the file has " + std::to_string(now.size()) + " bytes";
    }
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i] != after[i] && (i < before.size() || now[i] != 0)) {
        return "byte " + std::to_string(i) + " is neither old nor new";
      }
    }
    place->restore();
    return place->complaint(false, {}, files_may_stay);
  };
  return job;
}

// Two files, of which one is opened when the other has begun, by a group that has memory for both.
inline WholeJob timed_readers_job(std::mt19937_64& random) {
  const auto place = std::make_shared<Place>();
  const auto result = std::make_shared<Result>();
  for (int i = 0; i < 2; ++i) {
    place->add_input(random_numbers(kJobBlock, random));
    result->expected += place->input(static_cast<std::size_t>(i));
  }
  WholeJob job;
  job.name = "TimedReaders";
  job.quick = true;
  job.run = [=] {
    const std::unique_ptr<Disk> own = disk_of_job();
    const std::unique_ptr<Disk> disk = own ? nullptr : open_disk({});
    TimedReaders group({.disks = {{.disk = own ? own.get() : disk.get()}},
                        .memory_bytes = 16 * kJobBlock,
                        .block_bytes = kJobBlock,
                        .request_bytes = 2 * kJobBlock});
    std::string second;
    const auto add = [](std::string& text, std::span<const std::byte> bytes) {
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return !bytes.empty();
    };
    result->got.clear();
    TimedReader first_reader = group.open(place->paths()[0], {.bytes_per_s = 1e6});
    add(result->got, first_reader.next());
    const auto open_second = [&] { return group.open(place->paths()[1], {.bytes_per_s = 2e6}); };
    TimedReader second_reader;
    try {
      second_reader = open_second();
    } catch (const std::exception&) {  // the group is as it was
      add(result->got, first_reader.next());
      second_reader = open_second();
    }
    group.fill();
    while (add(result->got, first_reader.next()) | add(second, second_reader.next())) continue;
    result->got += second;
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) {
    return complaint_of(*place, *result, ended_well, files_may_stay);
  };
  return job;
}

// --- Streams between threads, and sorters

inline WholeJob pipeline_job(std::mt19937_64& random) {
  const auto result = std::make_shared<Result>();
  result->expected = random_numbers(kJobBlock, random);
  WholeJob job;
  job.name = "Pipeline";
  job.quick = true;
  job.run = [=] {
    result->got.assign(result->expected.size(), ' ');
    Pipeline<char> pipeline({.block_bytes = kJobBlock});
    Failure failure;
    {
      auto in = pipeline.reader();
      std::thread producer([&, out = pipeline.writer()]() mutable {
        try {
          guarded([&] {
            for (std::size_t i = 0; i < result->expected.size(); ++i) {
              out.data()[i] = result->expected[i];
            }
          }).throw_if_failed();
          out.finish(result->expected.size());
        } catch (const std::exception&) {
          // The reader learns of it.
        }
      });
      failure = guarded([&] {
        for (std::size_t i = 0; i < result->got.size(); ++i) result->got[i] = in.data()[i];
      });
      if (failure) pipeline.cancel();
      producer.join();
    }
    failure.throw_if_failed();
  };
  job.complaint = [=](bool ended_well, bool) { return result->complaint(ended_well); };
  return job;
}

inline WholeJob sorter_job(std::mt19937_64& random) {
  const auto place = std::make_shared<Place>();
  const auto result = std::make_shared<Result>();
  const std::string numbers = random_numbers(std::size_t{1} << 16, random);
  result->expected = sorted_numbers(numbers);
  const auto resources = [=](std::uint64_t bytes) { return job_resources(*place, bytes); };
  const auto format = [] { return RecordFormat(8, {parse_record_key("0:8:u64")}); };
  const std::uint64_t memory = least_memory(
      [&](std::uint64_t bytes) { const RecordSorter sorter(resources(bytes), format()); });
  WholeJob job;
  job.name = "Sorter";
  job.run = [=] {
    result->got.assign(result->expected.size(), ' ');
    RecordSorter sorter(resources(memory), format());
    sorter.push(std::as_bytes(std::span(numbers)));
    sorter.sort();
    if (sorter.counts().runs < 2) throw std::logic_error("a sort without runs");
    guarded([&] {
      const auto* const data = reinterpret_cast<const char*>(sorter.data());
      for (std::size_t i = 0; i < result->got.size(); ++i) result->got[i] = data[i];
    }).throw_if_failed();
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) {
    return complaint_of(*place, *result, ended_well, files_may_stay);
  };
  return job;
}

// Two sorts in one budget, of which the second reads the first.
inline WholeJob chain_job(std::mt19937_64& random) {
  const auto place = std::make_shared<Place>();
  const auto result = std::make_shared<Result>();
  const std::string text = random_numbers(std::size_t{1} << 15, random);
  result->expected = sorted_numbers(text);
  std::vector<std::uint64_t> numbers(text.size() / 8);
  std::memcpy(numbers.data(), text.data(), text.size());
  WholeJob job;
  job.name = "Chain";
  job.run = [=] {
    result->got.clear();
    SortResources resources = job_resources(*place, std::uint64_t{2} << 20);
    resources.budget = MemoryBudget::make(std::uint64_t{2} << 20);
    Sorter<std::uint64_t, std::greater<>> first(resources);
    first.push(numbers);
    first.sort();
    Sorter<std::uint64_t> second(resources);
    second.push(std::span(first.data(), first.size()));
    second.sort();
    guarded([&] {
      const auto* const data = reinterpret_cast<const char*>(second.data());
      for (std::size_t i = 0; i < text.size(); ++i) result->got.push_back(data[i]);
    }).throw_if_failed();
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) {
    return complaint_of(*place, *result, ended_well, files_may_stay);
  };
  return job;
}

inline WholeJob line_sorter_job(std::mt19937_64& random) {
  const auto place = std::make_shared<Place>();
  const auto result = std::make_shared<Result>();
  const std::string lines = random_lines(std::size_t{5} << 19, random);
  result->expected = sorted_lines(lines);
  const auto resources = [=](std::uint64_t bytes) { return job_resources(*place, bytes); };
  const std::uint64_t memory =
      least_memory([&](std::uint64_t bytes) { const LineSorter sorter({}, resources(bytes)); });
  WholeJob job;
  job.name = "LineSorter";
  job.run = [=] {
    result->got.clear();
    LineSorter sorter({}, resources(memory));
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t end = lines.find('\n', at);
      sorter.push(std::string_view(lines).substr(at, end - at));
      at = end + 1;
    }
    for (std::string_view line; sorter.next(line);) (result->got += line) += '\n';
    if (sorter.counts().runs < 2) throw std::logic_error("a sort without runs");
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) {
    return complaint_of(*place, *result, ended_well, files_may_stay);
  };
  return job;
}

inline WholeJob partition_job(std::mt19937_64& random) {
  static constexpr std::size_t kWays = 8, kBlocks = 24;
  const auto numbers = std::make_shared<std::vector<std::uint64_t>>(8 * kJobBlock / 8);
  for (auto& number : *numbers) number = random();
  const auto got = std::make_shared<std::vector<std::uint64_t>>();
  WholeJob job;
  job.name = "Partition";
  job.quick = true;
  job.run = [=] {
    got->clear();
    BlockPool pool({.pool_bytes = kBlocks * kJobBlock, .block_bytes = kJobBlock});
    StreamPool streams(pool, kBlocks);
    std::vector<std::unique_ptr<BucketStream>> lists;
    for (std::size_t i = 0; i < kWays; ++i) {
      lists.push_back(std::make_unique<BucketStream>(
          streams, BucketStreamOptions{.reserve_bytes = std::uint64_t{1} << 24}));
    }
    VanishingArray<std::uint64_t> input(streams, numbers->size());
    std::vector<std::uint64_t> counts;
    guarded([&] {
      input.load(*numbers);
      counts = partition(input, lists,
                         [](std::uint64_t number) noexcept { return unsigned(number % kWays); });
    }).throw_if_failed();
    for (std::size_t i = 0; i < kWays; ++i) {
      guarded([&] {
        const auto* const data = reinterpret_cast<const std::uint64_t*>(lists[i]->bytes());
        got->insert(got->end(), data, data + counts[i]);
      }).throw_if_failed();
    }
  };
  job.complaint = [=](bool ended_well, bool) -> std::string {
    if (!ended_well) return {};
    std::vector<std::uint64_t> expected = *numbers;
    std::stable_sort(expected.begin(), expected.end(),
                     [](std::uint64_t a, std::uint64_t b) { return a % kWays < b % kWays; });
    return *got == expected ? "" : "the result is wrong";
  };
  return job;
}

inline const std::vector<SortShape>& sort_shapes() {
  static const std::vector<SortShape> shapes = {
      {.name = "RecordsInMemory"},
      {.name = "RecordsWithRuns", .runs = true},
      {.name = "RecordsWithRunsByThreads", .runs = true, .backend = DiskBackend::kThreads},
      {.name = "RecordsOfAPipe", .runs = true, .pipe = true},
      {.name = "RecordsMerged", .merge = true},
      {.name = "RecordsInPlace", .in_place = true},
      {.name = "LinesInMemory", .lines = true},
      {.name = "LinesWithRuns", .lines = true, .runs = true},
      {.name = "LinesWithRunsByThreads",
       .lines = true,
       .runs = true,
       .backend = DiskBackend::kThreads},
      {.name = "UniqueLinesWithRuns", .lines = true, .runs = true, .unique = true},
      {.name = "LinesOfAPipe", .lines = true, .runs = true, .pipe = true},
      {.name = "LinesMerged", .lines = true, .merge = true},
      {.name = "Csv", .lines = true, .csv = true},
  };
  return shapes;
}

inline const std::vector<std::string>& job_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const SortShape& shape : sort_shapes()) all.push_back(shape.name);
    for (const char* const other :
         {"Copy", "StripedCopy", "Array", "ResizedArray", "TimedReaders", "Pipeline", "Sorter",
          "Chain", "LineSorter", "Partition", "Division"}) {
      all.emplace_back(other);
    }
    return all;
  }();
  return names;
}

inline WholeJob make_job(const std::string& name, std::mt19937_64& random) {
  for (const SortShape& shape : sort_shapes()) {
    if (shape.name == name) return sort_job(shape, random);
  }
  if (name == "Copy" || name == "StripedCopy") return copy_job(random, name != "Copy");
  if (name == "Array") return array_job(random);
  if (name == "ResizedArray") return resized_array_job(random);
  if (name == "TimedReaders") return timed_readers_job(random);
  if (name == "Pipeline") return pipeline_job(random);
  if (name == "Sorter") return sorter_job(random);
  if (name == "Division") return division_job(random);
  if (name == "LineSorter") return line_sorter_job(random);
  if (name == "Chain") return chain_job(random);
  return partition_job(random);
}

}  // namespace vortex::test
