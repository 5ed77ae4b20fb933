// The plan of a sort in lines for people.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "sort/merge/merge_passes.h"
#include "sort/plan/record_plan.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

namespace {

// A line for each thing, its name in a column of its own.
class PlanText {
 public:
  void add(std::string_view name, const std::string& value) {
    constexpr std::size_t kColumn = 16;
    std::string line(name);
    line.resize(kColumn, ' ');
    text_ += line + value + "\n";
  }
  std::string take() noexcept { return std::move(text_); }

 private:
  std::string text_;
};

std::string counted(std::uint64_t count, const std::string& name) {
  return std::to_string(count) + " " + name + (count == 1 ? "" : "s");
}

void add_input_merge(PlanText& text, const SortPlan& plan) {
  const bool of_records = plan.record_bytes != 0;
  text.add("merging",
           std::to_string(plan.merged_inputs) + " sorted inputs, at most " +
               std::to_string(plan.inputs_in_blocks) +
               (of_records ? " at a time" : " in blocks at a time, more in buffers") +
               (plan.merge_parts > 1 ? ", in " + counted(plan.merge_parts, "part") : ""));
  if (!of_records) return;
  text.add("passes", std::to_string(plan.passes));
  if (plan.runs <= 1) return;
  text.add("then", "the " + std::to_string(plan.runs) + " runs that they make, " +
                       std::to_string(plan.merge_order) + " at a time");
}

std::string expected_and_most(std::uint64_t expected, std::uint64_t most) {
  return std::to_string(expected) +
         (expected == most ? "" : " expected, at most " + std::to_string(most));
}

void add_record_merge(PlanText& text, const SortPlan& plan) {
  if (plan.input_bytes) {
    std::string passes = expected_and_most(plan.expected_passes, plan.passes);
    if (plan.pass_order > 1) {
      const std::uint64_t runs = plan.expected_runs;
      const MergePass first = next_merge_pass(runs, plan.merge_order, plan.pass_order);
      if (first.merged < runs) {
        passes += ", the first of " + std::to_string(first.merged) + " runs only";
      }
    }
    text.add("runs", expected_and_most(plan.expected_runs, plan.runs));
    text.add("passes", passes);
    if (plan.pass_order > 1) {
      text.add(
          "merges to runs",
          "of " + counted(plan.pass_order, "run") + " at most" +
              (plan.pass_parts > 1 ? ", in " + counted(plan.pass_parts, "part") + " each" : ""));
    }
  }
  if (plan.kept_bytes != 0) {
    text.add("last run", format_bytes(plan.kept_bytes) + " of it stay in memory");
  }
  text.add("merge order", std::to_string(plan.merge_order));
  text.add("merge buffers",
           std::to_string(plan.read_buffers) + " blocks to read, " +
               std::to_string(plan.write_requests) + " requests of " +
               format_bytes(plan.write_request_bytes) + " to write" +
               (plan.merge_parts > 1 ? ", of each of " + counted(plan.merge_parts, "part") : ""));
}

}  // namespace

void RecordPlan::tell_of_passes(SortPlan& plan) const {
  if (expected_passes < 2) return;
  plan.pass_order = pass_order(expected_runs, merge_order);
  const MergePass first = next_merge_pass(expected_runs, merge_order, plan.pass_order);
  plan.pass_parts = run_parts(detail::units_for(first.merged, first.groups));
}

SortPlan RecordPlan::told() const {
  SortPlan plan = *this;
  plan.buckets = formation.buckets;
  plan.partition_threads = formation.partition_threads;
  plan.scratch_bytes = formation.scratch_bytes;
  if (merged_inputs != 0) {
    plan.inputs_in_blocks = plain_merge_order();
  } else if (!in_memory()) {
    plan.merge_parts = merges_at_once(expected_order());
    const MergeBuffers buffers =
        merge_buffers(plan.merge_parts == 1 ? merge_order : expected_order(), plan.merge_parts);
    plan.read_buffers = buffers.read_buffers;
    plan.write_requests = buffers.writer.write_behind;
    plan.write_request_bytes = buffers.writer.request_bytes;
    if (!held_blocks) plan.kept_bytes = bytes_to_keep();
    tell_of_passes(plan);
  }
  return plan;
}

std::string to_string(const SortPlan& plan) {
  PlanText text;
  const bool of_records = plan.record_bytes != 0;
  text.add("input", plan.input_bytes ? format_bytes(*plan.input_bytes) : "length not known");
  if (of_records) text.add("records", format_bytes(plan.record_bytes));
  text.add("memory", format_bytes(plan.memory_bytes));
  text.add("blocks", std::to_string(plan.pool_blocks) + " of " + format_bytes(plan.block_bytes));
  if (plan.request_cost_bytes != 0) {
    text.add("disk requests",
             "cost as much as " + format_bytes(plan.request_cost_bytes) + " beside their bytes");
  }
  if (plan.first_records != 0) {
    text.add("first", counted(plan.first_records, of_records ? "record" : "line") +
                          "; what comes behind is dropped");
  }
  if (plan.merged_inputs != 0) {
    add_input_merge(text, plan);
    return text.take();
  }
  if (plan.first_in_memory) {
    text.add("merging", "none: they are kept in memory while the others pass");
    return text.take();
  }
  if (of_records) {
    text.add("run formation", std::to_string(plan.buckets) + " buckets on " +
                                  std::to_string(plan.bucket_blocks) + " blocks, " +
                                  format_bytes(plan.scratch_bytes) + " to sort them with");
    text.add("run length", "at least " + format_bytes(plan.least_run_bytes));
    if (plan.in_memory()) {
      text.add("merging", "none: it fits in memory");
      return text.take();
    }
    add_record_merge(text, plan);
  } else {
    text.add("run formation", format_bytes(plan.arena_bytes) +
                                  " for lines, their keys and their index, " +
                                  counted(plan.threads, "thread"));
    text.add("longest line", format_bytes(plan.longest_record) + ", key included");
    text.add("merge order", std::to_string(plan.merge_order));
  }
  text.add("prefetch",
           std::string(prefetch_kind_name(plan.prefetch)) + " on " + counted(plan.disks, "disk"));
  text.add("compression", plan.compression == RunCompression::kNever    ? "none"
                          : plan.compression == RunCompression::kAlways ? "of all runs"
                                                                        : "of runs, where it pays");
  return text.take();
}

}}  // namespace vortex::v0
