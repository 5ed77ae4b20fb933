// Sorts of files, and a sorter that arrays are pushed to.
#include <vortex/error.h>
#include <vortex/external_sort.h>
#include <vortex/file_reader.h>
#include <vortex/file_writer.h>
#include <vortex/line_sort.h>
#include <vortex/sorter.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "module.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace vortex_python {

namespace {

// What a sort reports goes to a function of Python's, and a signal that Python has noted ends the
// sort, both at most 20 times a second, and when a phase begins. What Python raises is kept here: a
// sort may pass it from one of its threads to another.
class Watch {
 public:
  explicit Watch(nb::object progress) : progress_(std::move(progress)) {}

  vortex::SortProgressFunction function() {
    return [this](const vortex::SortProgress& progress) { report(progress); };
  }

  // Only the thread that calls the sort may wait for the GIL.
  void called_here() noexcept { caller_.store(std::this_thread::get_id()); }

  // Calls `sort` without the GIL. What Python raised meanwhile is thrown in place of the sort's
  // error.
  template <typename Sort>
  void run(const Sort& sort) {
    called_here();
    try {
      const nb::gil_scoped_release released;
      receive_faults();
      sort();
    } catch (...) {
      if (!raised_) throw;
    }
    if (raised_) {
      nb::python_error error = std::move(*raised_);
      raised_.reset();
      throw error;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kInterval{50};

  void report(const vortex::SortProgress& progress) {
    if (std::this_thread::get_id() != caller_.load()) return;
    const Clock::time_point now = Clock::now();
    if (last_ && now - *last_ < kInterval && progress.phase == phase_) return;
    last_ = now;
    phase_ = progress.phase;
    const nb::gil_scoped_acquire acquired;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!progress_.is_none()) {
        const std::string_view phase = vortex::to_string(progress.phase);
        progress_(nb::str(phase.data(), phase.size()), progress.bytes, progress.phase_bytes);
      }
    } catch (nb::python_error& error) {
      raised_.emplace(std::move(error));
    }
    if (raised_) throw vortex::Error(ECANCELED, "the sort was ended from Python");
  }

  nb::object progress_;
  std::atomic<std::thread::id> caller_;
  std::optional<Clock::time_point> last_;
  vortex::SortPhase phase_ = vortex::SortPhase::kReading;
  std::optional<nb::python_error> raised_;
};

vortex::SortResources resources_of(std::uint64_t memory, std::vector<std::string> folders,
                                   unsigned threads, Watch& watch) {
  return {.memory_bytes = memory,
          .folders = std::move(folders),
          .threads = threads,
          .progress = watch.function()};
}

// OFFSET:LENGTH[:TYPE][:desc], as the program vortex takes it.
KeyTuple parse_key(const std::string& text) {
  const vortex::RecordKey key = vortex::parse_record_key(text);
  const int kind = key.type.kind == vortex::KeyKind::kUnsigned ? 1
                   : key.type.kind == vortex::KeyKind::kSigned ? 2
                   : key.type.kind == vortex::KeyKind::kFloat  ? 3
                                                               : 0;
  return {key.offset, key.length, kind, key.type.byte_order == vortex::ByteOrder::kBigEndian,
          key.descending};
}

constexpr std::size_t kCheckBytes = std::size_t{1} << 20;

// A record sort's counts: records read and written, runs, passes.
using Counts = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, unsigned>;

Counts sort_record_files(std::vector<std::string> inputs, std::string output, std::size_t record,
                         const std::vector<KeyTuple>& keys, bool unique, bool merge,
                         std::uint64_t memory, std::vector<std::string> folders, unsigned threads,
                         nb::object progress) {
  Watch watch(std::move(progress));
  vortex::ExternalSortOptions options{
      .inputs = std::move(inputs),
      .output = std::move(output),
      .format = format_of(record, keys),
      .unique = unique,
      .merge_inputs = merge,
      .resources = resources_of(memory, std::move(folders), threads, watch)};
  vortex::SortReport report;
  watch.run([&] { report = vortex::external_sort(options); });
  return {report.records_in, report.records_out, report.runs, report.passes};
}

// keys, letters for all of them, separator, whether the input is CSV
using LineKeys = std::tuple<std::vector<std::string>, std::string, std::string, bool>;

vortex::LineSortOptions line_options(std::vector<std::string> inputs, const LineKeys& line_keys,
                                     std::uint64_t header, bool stable, bool unique,
                                     vortex::SortResources resources) {
  const auto& [keys, letters, separator, csv] = line_keys;
  vortex::LineKeyOptions key_options{.keys = keys, .letters = letters};
  if (!separator.empty()) key_options.separator = separator.front();
  if (csv) key_options.fields = vortex::FieldRules::kCsv;
  key_options.stable = stable;
  key_options.unique = unique;
  vortex::LineSortOptions options{.inputs = std::move(inputs),
                                  .order = vortex::line_order(key_options),
                                  .header_records = header,
                                  .resources = std::move(resources)};
  if (csv) {
    options.framing = vortex::RecordFraming::quoted('\n', separator.empty() ? ',' : separator[0]);
  }
  return options;
}

Counts sort_line_files(std::vector<std::string> inputs, std::string output,
                       const LineKeys& line_keys, std::uint64_t header, bool stable, bool unique,
                       bool merge, std::uint64_t memory, std::vector<std::string> folders,
                       unsigned threads, nb::object progress) {
  Watch watch(std::move(progress));
  vortex::LineSortOptions options =
      line_options(std::move(inputs), line_keys, header, stable, unique,
                   resources_of(memory, std::move(folders), threads, watch));
  options.output = std::move(output);
  options.merge_inputs = merge;
  vortex::SortReport report;
  watch.run([&] { report = vortex::sort_lines(options); });
  return {report.records_in, report.records_out, report.runs, report.passes};
}

// Of the first line that is out of order: its file, its number from 1 on, and its offset.
using Disorder = std::optional<std::tuple<std::string, std::uint64_t, std::uint64_t>>;

Disorder check_line_files(std::vector<std::string> inputs, const LineKeys& line_keys,
                          std::uint64_t header, bool unique, std::uint64_t memory, unsigned threads,
                          nb::object progress) {
  Watch watch(std::move(progress));
  const vortex::LineSortOptions options = line_options(
      std::move(inputs), line_keys, header, true, unique, resources_of(memory, {}, threads, watch));
  std::optional<vortex::LineDisorder> found;
  watch.run([&] { found = vortex::check_lines(options); });
  if (!found) return std::nullopt;
  return std::tuple(found->input, found->record, found->offset);
}

// The number, from 0 on, of the first of `count` records, which begin at byte `offset` of a file,
// that must not follow the one in front of it; `count`: there is none.
std::uint64_t check_record_file(const std::string& path, std::uint64_t offset, std::uint64_t count,
                                std::size_t record, const std::vector<KeyTuple>& keys, bool unique,
                                std::uint64_t memory, nb::object progress) {
  Watch watch(std::move(progress));
  const vortex::RecordFormat format = format_of(record, keys);
  std::uint64_t at = 1;
  watch.run([&] {
    const vortex::FileReader<std::byte> file(path, {.memory_bytes = memory});
    if (count > (file.size() - std::min(file.size(), offset)) / record) {
      vortex::throw_error(ENODATA, path + " ends before its last record");
    }
    const std::byte* const records = file.data() + offset;
    const int least = unique ? 0 : 1;
    bool in_order = true;
    while (in_order && at < count) {
      const std::uint64_t end =
          std::min(count, at + std::max(kCheckBytes / record, std::size_t{1}));
      const vortex::Failure failure = vortex::guarded([&] {
        for (; in_order && at < end; at += in_order ? 1 : 0) {
          in_order = format.compare(records + (at - 1) * record, records + at * record) < least;
        }
      });
      failure.throw_if_failed();
      watch.function()({vortex::SortPhase::kReading, at * record, count * record});
    }
  });
  return std::min(at, count);
}

// A descriptor of a file that is read from a place on.
class ReadFile {
 public:
  explicit ReadFile(const std::string& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) vortex::throw_error(errno, path_);
  }
  ~ReadFile() { close(descriptor_); }
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  void read(std::byte* to, std::size_t bytes, std::uint64_t offset) const {
    while (bytes > 0) {
      const ssize_t got = pread(descriptor_, to, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) vortex::throw_error(errno, path_);
      if (got == 0) vortex::throw_error(ENODATA, path_ + " ends before its header says");
      to += got;
      offset += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
  }

 private:
  std::string path_;
  int descriptor_;
};

// A sorter of records whose arrays lie in memory of Python's.
class Sorter {
 public:
  Sorter(std::size_t record, const std::vector<KeyTuple>& keys, std::uint64_t memory,
         std::vector<std::string> folders, unsigned threads, nb::object progress)
      : watch_(std::move(progress)) {
    const vortex::SortResources resources =
        resources_of(memory, std::move(folders), threads, watch_);
    watch_.run([&] { sorter_.emplace(resources, format_of(record, keys)); });
  }

  std::uint64_t size() const noexcept { return sorter_->size(); }
  std::tuple<std::uint64_t, unsigned> counts() const {
    return {sorter_->counts().runs, sorter_->counts().passes};
  }

  void push(nb::handle records) {
    const Buffer buffer(records, Buffer::Use::kRead);
    watch_.run([&] { sorter_->push(std::span<const std::byte>(buffer.data(), buffer.bytes())); });
  }

  // `count` records of a file, which begin at byte `offset`.
  void push_file(const std::string& path, std::uint64_t offset, std::uint64_t count) {
    watch_.run([&] {
      const ReadFile file(path);
      const std::size_t record = sorter_->record_bytes();
      std::vector<std::byte> some(std::max(kCopyBytes / record, std::size_t{1}) * record);
      for (std::uint64_t left = count * record; left > 0;) {
        const std::size_t bytes = std::min<std::uint64_t>(left, some.size());
        file.read(some.data(), bytes, offset);
        sorter_->push(std::span<const std::byte>(some.data(), bytes));
        offset += bytes;
        left -= bytes;
      }
    });
  }

  void sort() {
    watch_.run([&] { sorter_->sort(); });
  }

  // Copies sorted records, those from byte `offset` on; forward only.
  void read(std::uint64_t offset, nb::handle to) {
    const Buffer buffer(to, Buffer::Use::kChange);
    watch_.run([&] { copy(offset, buffer.data(), buffer.bytes()); });
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

  // The header, and then all records, as a file that appears when it is complete.
  void write(const std::string& path, const nb::bytes& header) {
    const std::size_t head = header.size();
    const char* const text = header.c_str();
    watch_.run([&] {
      const std::uint64_t all = sorter_->size() * sorter_->record_bytes();
      vortex::FileWriter<std::byte> file(
          path, {.block_bytes = kCopyBytes, .sync = true, .expected_bytes = head + all});
      std::memcpy(file.data(), text, head);
      vortex::SortProgress progress{vortex::SortPhase::kWriting, 0, all};
      for (std::uint64_t at = 0; at < all; at = progress.bytes) {
        const std::size_t bytes = std::min<std::uint64_t>(all - at, kCopyBytes);
        copy(at, file.data() + head + at, bytes);
        progress.bytes = at + bytes;
        watch_.function()(progress);
      }
      file.finish(head + all);
    });
  }

 private:
  static constexpr std::size_t kCopyBytes = std::size_t{256} << 10;

  void copy(std::uint64_t offset, std::byte* to, std::size_t bytes) {
    const std::uint64_t all = sorter_->size() * sorter_->record_bytes();
    if (offset > all || bytes > all - offset) {
      vortex::throw_error(ERANGE, "a read behind the last sorted record");
    }
    const vortex::Failure failure =
        vortex::guarded([&] { std::memcpy(to, sorter_->data() + offset, bytes); });
    failure.throw_if_failed();
  }

  Watch watch_;
  std::optional<vortex::RecordSorter> sorter_;
};

}  // namespace

void bind_sorts(nb::module_& module) {
  module.def("parse_key", &parse_key);
  module.def("sort_record_files", &sort_record_files, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("sort_line_files", &sort_line_files, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("check_line_files", &check_line_files, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg().none());
  module.def("check_record_file", &check_record_file, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  nb::class_<Sorter>(module, "Sorter")
      .def(nb::init<std::size_t, const std::vector<KeyTuple>&, std::uint64_t,
                    std::vector<std::string>, unsigned, nb::object>(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def_prop_ro("size", &Sorter::size)
      .def_prop_ro("counts", &Sorter::counts)
      .def("push", &Sorter::push)
      .def("push_file", &Sorter::push_file)
      .def("sort", &Sorter::sort)
      .def("read", &Sorter::read)
      .def("write", &Sorter::write);
}

}  // namespace vortex_python
