// The verbs of the program `vortex`, each with its options, as the command line fills them in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/records/line_options.h"
#include "cli/records/record_options.h"

namespace vortex::cli {

// Exit codes of the program.
inline constexpr int kExitGood = 0;
inline constexpr int kExitNotSorted = 1;
inline constexpr int kExitError = 2;

struct GenOptions {
  std::string output;
  std::string form = "records";
  std::string distribution = "uniform";
  std::string records;   // how many; or
  std::string bytes;     // as many as fit in this size
  std::string distinct;  // empty: as the distribution likes
  std::string part;      // K/N; empty: all
  std::uint64_t seed = 1;
  bool sync = false;
  bool progress = false;
  bool json = false;
};

struct SortOptions {
  std::vector<std::string> inputs;
  std::string output;
  RecordOptions records;
  LineOptions lines;
  std::string memory;  // empty: half of what is there
  std::vector<std::string> folders;
  std::string block;         // empty: what suits the memory
  std::string request_cost;  // empty: measured
  std::string io = "best";
  std::string prefetch = "optimal";
  std::string compress = "auto";
  unsigned threads = 0;
  std::uint64_t seed = 1;
  std::uint64_t first = 0;  // 0: all
  std::string trace;        // empty: none
  bool unique = false;
  bool stable = false;  // of records every sort is
  bool merge = false;
  bool in_place = false;
  bool plan = false;
  bool bound = false;
  bool progress = false;
  bool no_sync = false;
  bool json = false;
  bool verbose = false;
};

struct SplitOptions {
  // Of these: inputs, the name of the parts as the output, records, and what the verb has of
  // resources.
  SortOptions sort;
  std::uint64_t parts = 0;  // 0: as many as the splitters make
  std::string splitters;    // a file; empty: sampled
  bool divide_equal = false;
};

struct CheckOptions {
  std::vector<std::string> inputs;
  RecordOptions records;  // empty: the form "records"
  LineOptions lines;
  bool unique = false;
  bool stable = false;  // lines with equal keys may stand in any order
  bool combine = false;
  bool progress = false;
  bool json = false;
};

struct InfoOptions {
  std::vector<std::string> folders;
  bool json = false;
};

// Each returns the exit code and throws vortex::Error.
int gen(const GenOptions& options);
int sort(const SortOptions& options);
int split(const SplitOptions& options);
int check(const CheckOptions& options);
int info(const InfoOptions& options);

// The same for options whose `lines` are wanted.
int sort_lines(const SortOptions& options);
int check_lines(const CheckOptions& options);

}  // namespace vortex::cli
