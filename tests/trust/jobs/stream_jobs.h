// Files as arrays, streams between threads and sorters of what is pushed, as whole jobs.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/sort/sort_cases.h"
#include "tests/trust/jobs/whole_job.h"
#include "vortex/disk.h"
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
    for (bool more = true; more;) {
      const bool of_first = add(result->got, first_reader.next());
      more = add(second, second_reader.next()) || of_first;
    }
    result->got += second;
  };
  job.complaint = complaint_of(place, result);
  return job;
}

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
  job.complaint = complaint_of(place, result);
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
  job.complaint = complaint_of(place, result);
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
  job.complaint = complaint_of(place, result);
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

}  // namespace vortex::test
