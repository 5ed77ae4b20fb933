// Sorting files that are larger than memory, and dividing them by ranges of keys or as a function
// says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "vortex/detail/merge/record_kernels.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

struct ExternalSortOptions {
  // In this order: of records with equal keys, those of an earlier input come first. "-" is
  // standard input.
  std::vector<std::string> inputs = {};
  std::string output = {};  // "-" is standard output
  // The format of the records; none for records of a type with a comparator.
  std::optional<RecordFormat> format = {};
  // Address space for each input whose length is not known (a pipe). One that is longer ends the
  // sort with EFBIG. Where the system refuses it, the sort takes what the system gives.
  std::uint64_t most_pipe_bytes = std::uint64_t{16} << 40;
  bool unique = false;  // of records with equal keys, only the first is written
  // Every input is sorted already, and a file of known length; one that is not sorted ends the
  // merge with EINVAL. Where all are merged at once to a file, without `unique`, each thread merges
  // a part of every input, as far as memory goes (SortPlan::merge_parts).
  bool merge_inputs = false;
  // A file that gets a trace of the sort when it ends, in the JSON format of Chrome's traces, which
  // Perfetto opens: each request of a disk, and for each thread its faults and waits and what it
  // partitioned, sorted and merged. What the file held before is lost. Takes up to 32 MiB beside
  // the memory of the sort, for the first 2^20 of these. A sort that fails leaves one, too. Where
  // it cannot be written the sort throws Error, behind an output that is complete. Empty: no trace.
  std::string trace = {};
  SortResources resources = {};
};

// The plan that external_sort() would follow with the same order. Opens the inputs and reads
// nothing of them; writes nothing, but where it measures a disk
// (SortResources::request_cost_bytes). Throws Error as external_sort() does.
VORTEX_EXPORT SortPlan plan_external_sort(const ExternalSortOptions& options,
                                          std::shared_ptr<const RecordOrder> order = nullptr);

// Sorts the records of the inputs, stable, into the output: by the order, or by options.format,
// which must be empty where there is an order (EINVAL). Runs of about the memory's size are
// sorted and kept in the folders, in files without a name; a merge of order k reads them again, as
// many times as it takes. Records that fit in memory are read and written once.
//
// Inputs are not changed. The output appears under its name when it is complete and synced, and a
// sort that ends before leaves nothing behind. The output may be one of the inputs. If the output
// is a symbolic link, the link is kept, and the file that it points to is replaced. The mode of a
// file that is replaced is kept. Devices and pipes are written to in order.
//
// Blocks; allocates; uses the SIGSEGV handler. One sort uses SortResources::threads
// threads beside those of its disks. Throws Error: EINVAL (length of an input that is no multiple
// of the record's, wrong options), ENOMEM (too little memory, with the least that would do), ENOSPC
// (too little room, found out before the start where the lengths are known), ECANCELED, EBUSY (an
// input changed meanwhile), and whatever the disks report.
VORTEX_EXPORT SortReport external_sort(const ExternalSortOptions& options,
                                       std::shared_ptr<const RecordOrder> order = nullptr);

// The same for files whose records are objects of type T, trivially copyable, one behind the other
// as they lie in memory, ordered by `less(const T&, const T&)`: a strict weak order that must not
// throw, and that several threads may call at a time unless the resources allow one thread only;
// sort_thread() (array_calls.h) tells which one does.
// options.format must be empty (EINVAL).
//
//   vortex::external_sort<Point>(
//       {.inputs = {"points"}, .output = "sorted", .resources = {.memory_bytes = 1 << 30}},
//       [](const Point& a, const Point& b) { return a.x < b.x; });
//
// Numbers (integers of up to 64 bits, float, double) need no comparator: they are sorted by their
// bits, which is faster and a total order, NaNs included (see RadixKey). For the same reason
// ByKey(&Point::x) is faster than a comparator, and a format is where keys are several numbers or
// strings of bytes at fixed places.
template <typename T, typename Less = std::less<T>>
SortReport external_sort(const ExternalSortOptions& options, Less less = {}) {
  return external_sort(options, detail::order_of_type<T>(std::move(less)));
}
template <typename T, typename Less = std::less<T>>
SortPlan plan_external_sort(const ExternalSortOptions& options, Less less = {}) {
  return plan_external_sort(options, detail::order_of_type<T>(std::move(less)));
}

// ---- Dividing files -----------------------------------------------------------------------------

inline constexpr std::size_t kMostParts = 32768;

struct ExternalPartitionOptions {
  // The records of a part come in the order of the inputs and of their places there. "-" is
  // standard input.
  std::vector<std::string> inputs = {};
  // The parts are files of this name with ".00000", ".00001" and so on behind it, in the order of
  // their keys. With SortResources::folders it is a name without a folder: neighbouring parts lie
  // in neighbouring folders, one after the other from one on that the seed chooses.
  std::string prefix = {};
  // The format of the records; none where there is an order or a function.
  std::optional<RecordFormat> format = {};
  // How many parts there are, at most kMostParts. By a sample of the inputs, which must be files,
  // they become about equally long: as long as there are many keys, a tenth more or less
  // mostly. 0: one more than splitters.
  std::size_t parts = 0;
  // Whole records, one behind the other, in order: part i ends before records that are not less
  // than splitter i. Empty: they are sampled.
  std::vector<std::byte> splitters = {};
  // By default records with equal keys belong to one part, however long it becomes. With this the
  // records of a key whose share of the sample reaches over a border are divided there, the first
  // of the input to the first part, so that parts that are sorted, stable, and joined are the
  // inputs sorted so. For sampled splitters only (EINVAL).
  bool divide_equal_keys = false;
  // Address space for an input whose length is not known (a pipe); longer ones end with EFBIG.
  std::uint64_t most_pipe_bytes = std::uint64_t{16} << 40;
  // Memory, folders, blocks, disks, seed, stop and progress; what else a sort may use is not used.
  SortResources resources = {};
};

struct PartReport {
  std::string path;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
};

// What came of a partition.
struct ExternalPartitionReport {
  std::vector<PartReport> parts;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sampled_records = 0;  // read before, to find splitters
  std::size_t block_bytes = 0;        // of the memory, and of each request
  std::size_t pool_blocks = 0;
  // The bytes that the disks moved; without whole sectors behind the ends of files.
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t faults = 0;  // that were served
  double cpu_seconds = 0;    // of all threads of the process meanwhile
  double seconds = 0;
};

// Divides the records of the inputs in one pass, stable: each is read once (a sample before), and
// written once, by requests of a block to a queue for each disk (Barve and Vitter, section 6.1).
// Memory is for two blocks a part, or three where that leaves them large, and those that are read
// ahead. Room is reserved several blocks at a time, so that each part can be read in sequence.
//
// Inputs are not changed. All parts appear under their names together, when all are whole and
// synced; a partition that ends before leaves nothing behind. Only a name that cannot be taken at
// the very end (its folder is gone) leaves those in front of it, and the error says how many; so
// does a kill between two names. Files of these names are replaced; those of more parts than there
// are now stay.
//
// Blocks; allocates; uses the SIGSEGV handler; one thread beside those of the disks. Throws Error:
// EINVAL (length of an input that is no multiple of the record's, splitters out of order, wrong
// options), ENOMEM (too little memory, with the least that would do), ECANCELED, EBUSY (an input
// changed meanwhile), EMFILE (each part takes up to three descriptors), and whatever the disks
// report, with file and offset.
VORTEX_EXPORT ExternalPartitionReport external_partition(
    const ExternalPartitionOptions& options, std::shared_ptr<const RecordOrder> order = nullptr);

// Says to which part each record belongs.
class VORTEX_EXPORT PartFunction {
 public:
  virtual ~PartFunction() = default;
  // The parts of `count` records, one behind the other, in their order; each record comes once, in
  // the order of the input. Reading them may fault, and what is in the way of that ends this
  // function without its destructors: no allocation, no lock, no exception.
  virtual void find(const std::byte* records, std::size_t count, std::uint32_t* parts) = 0;

 protected:
  PartFunction() = default;
  PartFunction(const PartFunction&) = default;
  PartFunction& operator=(const PartFunction&) = default;
};

// By a function: options.parts says how many there are, and format and splitters are empty
// (EINVAL). A part that there is not is EINVAL, too, and the error names the record.
VORTEX_EXPORT ExternalPartitionReport external_partition_by(const ExternalPartitionOptions& options,
                                                            std::size_t record_bytes,
                                                            PartFunction& function);

// The same for files whose records are objects of type T, as they lie in memory, by
// `part_of(const T&)`, which must not throw:
//
//   vortex::external_partition_by<Order>(
//       {.inputs = {"orders"}, .prefix = "by_shop", .parts = 64},
//       [](const Order& order) { return order.shop % 64; });
template <typename T, typename Function>
requires std::is_trivially_copyable_v<T> ExternalPartitionReport
external_partition_by(const ExternalPartitionOptions& options, Function part_of) {
  class Parts final : public PartFunction {
   public:
    explicit Parts(Function function) : part_of_(std::move(function)) {}
    void find(const std::byte* records, std::size_t count, std::uint32_t* parts) override {
      for (std::size_t i = 0; i < count; ++i) {
        const detail::RecordAt<T> record(records + i * sizeof(T));
        const auto part = std::invoke(part_of_, record.get());
        // What is no part stays none when it is cut.
        parts[i] = static_cast<std::uint32_t>(
            static_cast<std::uint64_t>(part) < kMostParts ? part : kMostParts);
      }
    }

   private:
    Function part_of_;
  };
  Parts function(std::move(part_of));
  return external_partition_by(options, sizeof(T), function);
}

}}  // namespace vortex::v0
