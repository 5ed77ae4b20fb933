// What a benchmark of sorts larger than memory is told.
#pragma once

#include <cstdint>
#include <string>

#include "bench/support/own_options.h"

namespace vortex::bench {

struct SortSettings {
  std::string folder = ".";  // of the input, the runs and the output: it decides the disk
  std::uint64_t input_bytes = std::uint64_t{1} << 30;
  std::uint64_t memory_bytes = std::uint64_t{128} << 20;

  // --folder=DIR, --mib=N of input, --memory-mib=N. They refer to this object.
  OwnOptions options() {
    return {
        {"--folder=", [this](const std::string& value) { folder = value; }},
        {"--mib=", [this](const std::string& value) { input_bytes = std::stoull(value) << 20; }},
        {"--memory-mib=",
         [this](const std::string& value) { memory_bytes = std::stoull(value) << 20; }}};
  }
};

}  // namespace vortex::bench
