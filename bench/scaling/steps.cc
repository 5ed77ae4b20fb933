#include "bench/scaling/steps.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>

#include "bench/support/number_file.h"
#include "bench/support/own_options.h"
#include "io/disk/disk.h"
#include "lines/job/line_plan.h"
#include "sort/runs/bucket_sorters.h"
#include "sort/runs/run_buckets.h"
#include "sort/runs/run_formation.h"
#include "vortex/block_pool.h"
#include "vortex/external_sort.h"
#include "vortex/thread/activity.h"
#include "vortex/thread/control_groups.h"

namespace vortex::bench {

namespace {

// Plans are made as if there were so many processors.
class AssumedCores {
 public:
  explicit AssumedCores(unsigned cores) : before_(assumed_cores()) { assume_cores(cores); }
  ~AssumedCores() { assume_cores(before_); }
  AssumedCores(const AssumedCores&) = delete;
  AssumedCores& operator=(const AssumedCores&) = delete;

 private:
  const unsigned before_;
};

// A file of so many bytes, which takes no room.
class SparseFile : public Descriptor {
 public:
  SparseFile(const std::string& path, std::uint64_t bytes)
      : Descriptor(path, O_WRONLY | O_CREAT | O_TRUNC), path_(path) {
    if (ftruncate(*this, static_cast<off_t>(bytes)) != 0) fail("ftruncate " + path);
  }
  ~SparseFile() { unlink(path_.c_str()); }

 private:
  const std::string path_;
};

void add_threads(StepThreads& steps, const FileJob& job) {
  const SparseFile input(job.input + ".plan", job.bytes);
  const SortPlan plan = plan_external_sort({.inputs = {job.input + ".plan"},
                                            .output = job.output,
                                            .format = job.format,
                                            .resources = job.resources});
  const auto order = order_of_format(*job.format);
  const std::size_t records = plan.bucket_blocks * plan.block_bytes / plan.record_bytes;
  const std::size_t parts =
      BucketSorters::parts_of(*order, 2 * records, plan.buckets, plan.threads, plan.scratch_bytes);
  steps.partition = plan.partition_threads;
  steps.sort = static_cast<unsigned>(std::min<std::size_t>(plan.threads, parts));
  steps.sorts_beside = parts > 1;
  steps.pass_on = BucketSorters::copiers_of(parts, plan.threads);
  steps.merge = std::max(plan.merge_parts, 1U);
  steps.block_bytes = plan.block_bytes;
}

// An arena is sorted by all threads. Its runs are as many as they were, and lines short.
void add_threads_of_lines(StepThreads& steps, const FileJob& job, const SortReport& with_one) {
  constexpr std::uint64_t kLongest = 1024;
  const LinePlan plan = plan_lines(job.resources, job.bytes);
  steps.partition = std::max(plan.texts_at_once, 1U);
  steps.sort = plan.threads;
  steps.pass_on = plan.run_parts(plan.arena_bytes / 2);
  steps.merge = plan.merges_at_once({with_one.runs, kLongest, job.bytes / plan.block_bytes});
  steps.block_bytes = plan.block_bytes;
}

}  // namespace

StepThreads step_threads(const FileJob& job, const SortReport& with_one, unsigned threads) {
  constexpr std::uint64_t kMemoryOfThread = 32 * kMiB;
  const AssumedCores cores(threads);
  FileJob larger = job;
  larger.resources.threads = threads;
  larger.resources.memory_bytes = std::max(job.resources.memory_bytes, threads * kMemoryOfThread);
  larger.resources.request_cost_bytes = with_one.plan.request_cost_bytes;
  larger.bytes = job.bytes / job.resources.memory_bytes * larger.resources.memory_bytes;
  StepThreads steps;
  steps.copy = Disk::copiers_for(threads);
  if (job.format) {
    larger.bytes -= larger.bytes % job.format->record_bytes();
    add_threads(steps, larger);
  } else {
    add_threads_of_lines(steps, larger, with_one);
  }
  return steps;
}

namespace {

// The first byte of a key that decides.
std::size_t first_byte(const RecordKey& key) {
  return key.type.kind == KeyKind::kBytes ? key.offset : key.offset + key.length - 1;
}

// The first records of the input.
std::vector<std::byte> records_of(const FileJob& job, std::uint64_t most_bytes) {
  const std::size_t record_bytes = job.format->record_bytes();
  std::vector<std::byte> bytes(std::min(most_bytes, job.bytes) / record_bytes * record_bytes);
  std::ifstream file(job.input, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// Processor time for putting the records to buckets.
double partition_seconds(const RecordOrder& order, const std::vector<std::byte>& bytes,
                         unsigned threads) {
  constexpr std::size_t kBlock = 256 << 10;
  const std::size_t blocks = bytes.size() / kBlock * 2 + 256;
  BlockPool pool(
      {.pool_bytes = blocks * kBlock, .block_bytes = kBlock, .warming = Warming::kEager});
  StreamPool streams(pool, blocks);
  RunFormation runs(order, streams,
                    {.buckets = 64,
                     .scratch_bytes = std::size_t{16} << 20,
                     .partition_threads = threads,
                     .batch_blocks = threads});
  const double begin = process_cpu_seconds();
  guarded([&] {
    runs.push(bytes.data(), bytes.size() / order.record_bytes(), Readers::kSeveral);
  }).throw_if_failed();
  return process_cpu_seconds() - begin;
}

// Sorts what a bucket would have, one after the other, and puts it elsewhere.
class SortedBuckets {
 public:
  SortedBuckets(const RecordOrder& order, std::vector<std::byte> bytes, std::size_t bucket_bytes)
      : order_(order),
        bytes_(std::move(bytes)),
        count_(std::min(bucket_bytes, bytes_.size()) / order.record_bytes()),
        bucket_(count_ * order.record_bytes()),
        to_(bucket_.size()),
        scratch_(4 * (BucketSorters::part_bytes(order, 2 * count_).value_or(0) + 32 * count_ +
                      (std::size_t{1} << 20))) {}

  double together() {
    return in_all([&] {
      PlaceOutput out(to_.data());
      const double begin = process_cpu_seconds();
      order_.sort_bucket(bucket_.data(), count_, scratch_, out);
      return process_cpu_seconds() - begin;
    });
  }
  // And passed on by another step, whose time is the second.
  std::pair<double, double> beside() {
    constexpr std::size_t kBuckets = 64;
    BucketSorters sorters(order_, kBuckets * count_, kBuckets, 2, scratch_);
    double passing = 0;
    const double sorting = in_all([&] {
      PlaceOutput out(to_.data());
      const double begin = process_cpu_seconds();
      if (!sorters.hand_over({bucket_.data(), count_})) return 0.0;
      sorters.await();
      const double sorted = process_cpu_seconds();
      sorters.pass_on(out);
      passing += process_cpu_seconds() - sorted;
      sorters.done_with_it();
      return sorted - begin;
    });
    return {sorting, passing};
  }

 private:
  template <typename Work>
  double in_all(const Work& work) {
    double seconds = 0;
    for (std::size_t at = 0; at + bucket_.size() <= bytes_.size(); at += bucket_.size()) {
      std::memcpy(bucket_.data(), bytes_.data() + at, bucket_.size());
      seconds += work();
    }
    return seconds;
  }

  const RecordOrder& order_;
  const std::vector<std::byte> bytes_;
  const std::size_t count_;
  std::vector<std::byte> bucket_;
  std::vector<std::byte> to_;
  std::vector<std::byte> scratch_;
};

}  // namespace

StepCosts step_costs(const FileJob& job, const SortPlan& with_one) {
  StepCosts costs;
  if (!job.format || with_one.buckets == 0) return costs;
  constexpr std::uint64_t kBytes = 64 * kMiB;
  const auto order = order_of_format(*job.format);
  std::vector<std::byte> bytes = records_of(job, kBytes);
  const double by_one = partition_seconds(*order, bytes, 1);
  costs.partition = partition_seconds(*order, bytes, 2) / by_one;
  // Those of a bucket lie near each other.
  for (std::size_t at = first_byte(job.format->keys().front()); at < bytes.size();
       at += order->record_bytes()) {
    bytes[at] &= std::byte{3};
  }
  SortedBuckets buckets(*order, std::move(bytes), 2 * with_one.run_bytes / with_one.buckets);
  const double together = buckets.together();
  const auto [sorting, passing] = buckets.beside();
  if (together <= 0 || sorting <= 0) return costs;
  costs.sort = sorting / together;
  costs.pass_on = passing / together;
  return costs;
}

}  // namespace vortex::bench
