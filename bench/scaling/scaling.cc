// How sorts and streams scale with threads, a cell at a time; the script `run` beside it decides
// which cells, and in which order.
//
//   scaling KIND [OPTION...]  does the work of a cell and prints a line of JSON, in the form of
//                             Google Benchmark, so that bench/report reads a file of them:
//                               read copy                              memory's bandwidth
//                               u64 heavy_u64 pairs heavy_pairs records_100 records_300 structs
//                               strings string_keys                    vortex::sort() of an array
//                               external_u64 external_pairs external_records_100   external_sort()
//                               lines_urls lines_random lines_words    sort_lines(), LC_ALL=C
//                               pipelines pipelines_moves              two threads each
//                               stream_write stream_read               one thread each
//   scaling machine DISK [FOLDER...]  prints what the machine offers, and the disk, as JSON
//   scaling model KIND [OPTION...]  prints what a sort of files would take with more threads
//   scaling chart FILE        prints the file's curves as SVG
//
// Options: --threads=N, --mib=N of data, --memory-mib=N and --folder=DIR of files, --place=NAME,
// the folder's in the results, --rounds=N at most, --cheap=SECONDS (another round begins while all
// so far have taken less). Arrays are sorted once they lie in memory; the results of sorts are
// checked, and that is not timed.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "bench/scaling/cell.h"
#include "bench/support/disk_speed.h"
#include "bench/support/own_options.h"
#include "cli/verbs/machine_report.h"
#include "vortex/block_pool.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/version.h"

namespace vortex::bench { namespace {

using Json = nlohmann::ordered_json;

void print(const Json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

std::string name_of(const Cell& cell) {
  std::string name = cell.kind;
  if (!cell.place.empty()) name += "/" + cell.place;
  name += "/" + std::to_string(cell.bytes >> 20) + "MiB";
  if (cell.memory_bytes > 0) name += "/memory:" + std::to_string(cell.memory_bytes >> 20) + "MiB";
  return name + "/threads:" + std::to_string(cell.threads);
}

Json as_json(const Cell& cell, Result& result) {
  std::vector<double>& seconds = result.seconds;
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[(seconds.size() - 1) / 2];
  Json json = {{"name", name_of(cell)},
               {"run_type", "iteration"},
               {"threads", cell.threads},
               {"real_time", median},
               {"time_unit", "s"}};
  json["bytes_per_second"] = static_cast<double>(result.bytes) / median;
  if (result.items > 0) json["items_per_second"] = static_cast<double>(result.items) / median;
  json["rounds"] = seconds.size();
  json["least_s"] = seconds.front();
  json["most_s"] = seconds.back();
  json.update(result.counters);
  return json;
}

int measure(const Cell& cell) {
  Result result;
  try {
    for (const auto& work : {measure_bandwidth, measure_memory, measure_files, measure_streams}) {
      if (!work(cell, result)) continue;
      print(as_json(cell, result));
      return 0;
    }
    std::fprintf(stderr, "scaling: no kind '%s'\n", cell.kind.c_str());
    return 2;
  } catch (const std::exception& error) {
    print({{"name", name_of(cell)}, {"error_occurred", true}, {"error_message", error.what()}});
    return 1;
  }
}

const char* engine_name(Engine engine) {
  switch (engine) {
    case Engine::kLibsigsegv:
      return "libsigsegv";
    case Engine::kNative:
      return "native";
    case Engine::kUserfaultfd:
      return "userfaultfd";
  }
  return "unknown";
}

int describe_machine(const std::vector<std::string>& folders) {
  Json json = {{"library_version", version()}, {"num_cpus", std::thread::hardware_concurrency()}};
  FaultDispatcher::instance().start();
  json["engine"] = engine_name(FaultDispatcher::instance().engine());
  for (const PoolKind kind : {PoolKind::kOneThread, PoolKind::kThreads}) {
    const BlockPool pool({.pool_bytes = std::size_t{4} << 20, .kind = kind});
    json[kind == PoolKind::kThreads ? "pool_of_pipelines" : "pool_of_sorts"] =
        pool.aliases() ? "aliases" : "moves";
  }
  for (const cli::Fact& fact : cli::machine_report(folders)) {
    Json& entry = json[fact.group][fact.name];
    std::visit([&entry](const auto& value) { entry["value"] = value; }, fact.value);
    if (!fact.note.empty()) entry["note"] = fact.note;
  }
  json["backend"] = json["disks"]["backend"]["value"];
  if (!folders.empty()) {
    const DiskSpeed speed = speed_of_disk(folders[0]);
    json["disk_read_MiB_s"] = static_cast<std::uint64_t>(speed.read) >> 20;
    json["disk_write_MiB_s"] = static_cast<std::uint64_t>(speed.write) >> 20;
    json["disk_copy_MiB_s"] = static_cast<std::uint64_t>(speed.copy) >> 20;
  }
  print(json);
  return 0;
}

int draw_chart(const std::string& path) {
  std::ifstream file(path);
  std::printf("%s", chart_of(Json::parse(file)).c_str());
  return 0;
}

OwnOptions options_of(Cell& cell) {
  const auto at_least_one = [](unsigned& to) {
    return [&to](const std::string& value) {
      to = static_cast<unsigned>(std::max(1UL, std::stoul(value)));
    };
  };
  return {{"--threads=", at_least_one(cell.threads)},
          {"--mib=", number(cell.bytes, kMiB)},
          {"--memory-mib=", number(cell.memory_bytes, kMiB)},
          {"--folder=", text(cell.folder)},
          {"--place=", text(cell.place)},
          {"--rounds=", at_least_one(cell.rounds)},
          {"--cheap=", [&](const std::string& value) { cell.cheap_seconds = std::stod(value); }}};
}

int run(const std::vector<std::string>& arguments) {
  Cell cell;
  const std::vector<std::string> words = without_own_options(arguments, options_of(cell));
  if (words.empty()) {
    std::fprintf(stderr, "usage: scaling KIND|machine|model|chart [OPTION...]\n");
    return 2;
  }
  if (words[0] == "machine") return describe_machine({words.begin() + 1, words.end()});
  if (words[0] == "chart" && words.size() == 2) return draw_chart(words[1]);
  if (words[0] == "model" && words.size() == 2) {
    cell.kind = words[1];
    print_model(cell);
    return 0;
  }
  cell.kind = words[0];
  return measure(cell);
}

}  // namespace

}  // namespace vortex::bench

int main(int argc, char** argv) {
  try {
    return vortex::bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scaling: %s\n", error.what());
    return 2;
  }
}
