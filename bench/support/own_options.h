// Options of a benchmark's own, before those of Google Benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace vortex::bench {

// The function that each option calls with its value: "--mib=" has a value, "--warm" has none.
using OwnOptions = std::map<std::string, std::function<void(const std::string& value)>>;

// Those that keep their value as it is, or as a number of `unit`.
inline auto text(std::string& to) {
  return [&to](const std::string& value) { to = value; };
}
template <typename T>
auto number(T& to, std::uint64_t unit = 1) {
  return [&to, unit](const std::string& value) { to = static_cast<T>(std::stoull(value) * unit); };
}
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Carries out those among the arguments and returns the others.
inline std::vector<std::string> without_own_options(const std::vector<std::string>& arguments,
                                                    const OwnOptions& options) {
  std::vector<std::string> others;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    const auto option =
        options.find(equals == std::string::npos ? argument : argument.substr(0, equals + 1));
    if (option == options.end()) {
      others.push_back(argument);
    } else {
      option->second(argument.substr(option->first.size()));
    }
  }
  return others;
}

// The arguments for Google Benchmark, of a program whose rows run `rounds` times unless --rounds=N
// is among them.
inline std::vector<std::string> benchmark_arguments(int argc, char** argv, OwnOptions options,
                                                    std::string rounds) {
  options["--rounds="] = [&rounds](const std::string& value) { rounds = value; };
  std::vector<std::string> arguments = without_own_options({argv, argv + argc}, options);
  // First, so that Google Benchmark's own option wins.
  arguments.insert(arguments.begin() + 1, "--benchmark_repetitions=" + rounds);
  return arguments;
}

}  // namespace vortex::bench
