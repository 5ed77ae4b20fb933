// Benchmarks whose peers run in the same process: repeated, interleaved, compared by their medians.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vortex::bench {

// "`what`: `numerator` runs at R times the rate of `denominator`". The names are those that the
// console shows, without suffixes such as "/real_time" or "/threads:2" only if the name has none.
struct Ratio {
  std::string what;
  std::string numerator;
  std::string denominator;
};

// A row of one iteration, which sets its time. What it throws is its error.
inline void add_row(const std::string& name, std::function<void(benchmark::State&)> run,
                    benchmark::TimeUnit unit = benchmark::kMillisecond) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [run = std::move(run)](benchmark::State& state) {
                                 try {
                                   run(state);
                                 } catch (const std::exception& error) {
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(unit);
}
// What the console calls it.
inline std::string shown(const std::string& row) { return row + "/iterations:1/manual_time"; }

// Shows results as usual and keeps the median rate of each benchmark.
class RatioReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      // Repeated runs come as aggregates (alone, when only those are shown); a single run as
      // itself.
      const bool is_median = run.run_type == Run::RT_Aggregate && run.aggregate_name == "median";
      const bool is_single = run.run_type == Run::RT_Iteration && run.repetitions <= 1;
      if (run.error_occurred || (!is_median && !is_single)) continue;
      for (const char* rate : {"bytes_per_second", "items_per_second"}) {
        const auto counter = run.counters.find(rate);
        if (counter == run.counters.end()) continue;
        medians_[run.run_name.str()] = counter->second.value;
        break;
      }
    }
    ConsoleReporter::ReportRuns(runs);
  }

  // The median rate of a benchmark, or 0 when it did not run.
  double median(const std::string& name) const {
    const auto found = medians_.find(name);
    return found == medians_.end() ? 0 : found->second;
  }

  void print(const std::vector<Ratio>& ratios) const {
    std::printf("\nRatios of median rates:\n");
    for (const Ratio& ratio : ratios) {
      const double above = median(ratio.numerator);
      const double below = median(ratio.denominator);
      if (above == 0 || below == 0) continue;  // filtered out
      std::printf("  %-60s %8.2f\n", ratio.what.c_str(), above / below);
    }
  }

 private:
  std::map<std::string, double> medians_;
};

// Runs the registered benchmarks, by default five times each in random order, and prints the
// ratios. Every flag of Google Benchmark may be given and wins. The result is for main().
inline int run_with_ratios(int argc, char** argv, const std::vector<Ratio>& ratios) {
  std::vector<std::string> defaults = {"--benchmark_repetitions=5",
                                       "--benchmark_enable_random_interleaving=true",
                                       "--benchmark_display_aggregates_only=true"};
  std::vector<char*> arguments = {argv[0]};
  for (std::string& argument : defaults) arguments.push_back(argument.data());
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.print(ratios);
  benchmark::Shutdown();
  return 0;
}

inline int run_with_ratios(std::vector<std::string> arguments, const std::vector<Ratio>& ratios) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return run_with_ratios(static_cast<int>(pointers.size()), pointers.data(), ratios);
}

}  // namespace vortex::bench
