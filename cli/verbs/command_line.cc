// The command line of the program `vortex`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/common/byte_size.h"
#include "cli/common/error_message.h"
#include "cli/common/process.h"
#include "cli/common/suggestion.h"
#include "cli/verbs/operands.h"
#include "cli/verbs/verbs.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/sort_resources.h"
#include "vortex/version.h"

namespace vortex::cli { namespace {

constexpr const char* kVersion = "vortex " VORTEX_VERSION_STRING;

// A number that the option's variable holds, or a line that says which ones there are: CLI11 takes
// those that do not fit for others.
template <typename Number>
CLI::Option& add_number(CLI::App& verb, const std::string& names, Number& number,
                        const std::string& meaning, std::uint64_t least,
                        std::uint64_t most = std::numeric_limits<Number>::max()) {
  const std::string name = names.substr(names.rfind("--"));
  return *verb.add_option_function<std::string>(
                  names,
                  [&number, name, least, most](const std::string& text) {
                    number = static_cast<Number>(parse_count(text, name, least, most));
                  },
                  meaning)
              ->type_name("UINT");
}

void add_gen(CLI::App& program, GenOptions& options) {
  CLI::App& verb = *program.add_subcommand("gen", "Make a file of records");
  verb.add_option("OUT", options.output, "The file to be, or - for standard output")->required();
  verb.add_option("-n,--records", options.records,
                  "How many records the whole has (k, M, G: powers of 1024; kB, MB: of 1000)");
  verb.add_option("--bytes", options.bytes, "As many records as fit in so many bytes");
  verb.add_option("--form", options.form,
                  "records: 100 bytes, binary, a key of 10 bytes, as in the sort benchmark; ascii: "
                  "the same in printable characters; pairs: key and number, u64 each; or numbers: "
                  "u8 ... u64, i8 ... i64, f32, f64, with le or be behind")
      ->capture_default_str();
  verb.add_option("--distribution", options.distribution,
                  "records and ascii: uniform, skewed; pairs and numbers: uniform, zipf, sorted, "
                  "reversed, nearly-sorted, organ-pipe, few, equal")
      ->capture_default_str();
  verb.add_option("--distinct", options.distinct,
                  "How many values zipf (by default 1M) and few (16) choose from");
  add_number(verb, "--seed", options.seed, "The same seed gives the same records", 0)
      .default_str(std::to_string(options.seed));
  verb.add_option("--part", options.part,
                  "K/N: only the K-th of N parts; joined in order they are the whole");
  verb.add_flag("--sync", options.sync, "Return when data and name have reached the disk");
  verb.add_flag("--progress", options.progress,
                "Tell how far it is where standard error is no terminal, too");
  verb.add_flag("--json", options.json, "Print the result as JSON");
}

// What a record is, and its order.
void add_record_options(CLI::App& verb, RecordOptions& options, const char* forms,
                        const char* name_of_key) {
  verb.add_option("--form", options.form, forms);
  verb.add_option("--record", options.record, "Length of a record in bytes");
  verb.add_option(name_of_key, options.keys,
                  "OFFSET:LENGTH[:TYPE][:desc] with a type of bytes (the default), u8 ... u64, "
                  "i8 ... i64, f32, f64, with le (the default) or be behind; may be repeated; "
                  "without it the whole record is the key")
      ->allow_extra_args(false);
  verb.add_flag("-r,--reverse", options.reverse, "Turn the order of all keys round");
}

// The options of the verbs that go by an order of records.
void add_order_options(CLI::App& verb, RecordOptions& options, bool& unique, const char* forms,
                       const char* name_of_key, const char* meaning_of_unique) {
  add_record_options(verb, options, forms, name_of_key);
  verb.add_flag("-u,--unique", unique, meaning_of_unique);
}

// The options of lines, as GNU sort calls them where it has them.
void add_line_options(CLI::App& verb, LineOptions& options, const std::string& what,
                      const char* meaning_of_header) {
  verb.option_defaults()->group("Lines (--lines) and CSV (--csv)");
  verb.add_flag("--lines", options.lines,
                what + " lines; --key is then F[.C][OPTS][,F[.C][OPTS]] as in sort(1)");
  verb.add_flag("--csv", options.csv,
                what +
                    " records of CSV, which may hold newlines in quotes; --key is then a column "
                    "by number or name, COLUMN[:OPTS]");
  add_number(verb, "--header", options.header, meaning_of_header, 0);
  verb.add_flag("--strict", options.strict,
                "Refuse CSV with quotes that RFC 4180 does not allow, naming file, line and column "
                "(without it such records are kept and counted)");
  verb.add_option("-t,--field-separator", options.separator,
                  "What separates fields (by default the blanks in front of a field; in CSV a "
                  "comma)");
  verb.add_flag("-z,--zero-terminated", options.zero_terminated,
                "Lines end with NUL, not with a newline");
  struct Letter {
    const char* names;
    char letter;
    const char* meaning;
  };
  static constexpr Letter kOrders[] = {
      {"-b,--ignore-leading-blanks", 'b', "Leave out blanks in front"},
      {"-d,--dictionary-order", 'd', "Consider blanks, letters and digits only"},
      {"-f,--ignore-case", 'f', "Take lower case for upper case"},
      {"-g,--general-numeric-sort", 'g', "Compare floating-point numbers"},
      {"--human-numeric-sort", 'h', "Compare numbers with units (2K 1G)"},
      {"-i,--ignore-nonprinting", 'i', "Consider printable characters only"},
      {"-M,--month-sort", 'M', "Compare months (JAN to DEC)"},
      {"-n,--numeric-sort", 'n', "Compare numbers of any length"},
      {"-R,--random-sort", 'R', "Shuffle, with equal keys together"},
      {"-V,--version-sort", 'V', "Compare versions within text"},
  };
  for (const Letter& order : kOrders) {
    verb.add_flag_callback(
        order.names, [&options, letter = order.letter] { options.letters += letter; },
        order.meaning);
  }
  verb.option_defaults()->group("Options");
}

// What a sort takes, and where its runs go.
void add_resources(CLI::App& verb, SortOptions& options) {
  verb.add_option(
      "-S,--memory", options.memory,
      "How much memory to take, a size or a percentage of all there is (by default half of what "
      "is free, at most 1 GiB)");
  verb.add_option("-T,--disk", options.folders,
                  "A folder to keep runs in, by default that of the output; may be repeated, a "
                  "queue of requests each. DIR:SPEED says how fast its disk is (200M a second; "
                  "auto: measured), for unequal ones")
      ->type_name("DIR[:SPEED]")
      ->allow_extra_args(false);
  verb.add_option("--block", options.block,
                  "Size of the blocks, a power of two (by default what suits the memory)");
  verb.add_option(
      "--request-cost", options.request_cost,
      "What a request costs a disk of runs beside its bytes, as a size: its access time "
      "times its speed (by default measured, where files of 4 GiB or more do not fit "
      "in memory)");
  verb.add_option("--io", options.io, "best, uring or threads")->capture_default_str();
  verb.add_option("--prefetch", options.prefetch,
                  "What a merge fetches next: optimal, srm, srm-async, naive, striped")
      ->capture_default_str();
  verb.add_option("--compress", options.compress,
                  "Runs: auto (where their disk is slower than that, and they become smaller), "
                  "always or never")
      ->capture_default_str();
  add_number(verb, "--parallel", options.threads,
             "How many threads sort, those of the disks left out: at most one for each core, as "
             "by default",
             1, kMaxSortThreads);
  add_number(verb, "--seed", options.seed, "Of the random choice of a disk for each block", 0)
      .default_str(std::to_string(options.seed));
}

void add_sort(CLI::App& program, SortOptions& options) {
  CLI::App& verb = *program.add_subcommand("sort", "Sort files of records or lines, however large");
  verb.add_option("IN", options.inputs, "Files, or - for standard input")->required();
  verb.add_option("-o,--output", options.output,
                  "The file to be, which may be an input, or - for standard output");
  verb.add_flag("--in-place", options.in_place,
                "Replace the contents of a file that exists, which keeps its hard links, and not "
                "the file; an error at the end leaves a part");
  add_order_options(verb, options.records, options.unique,
                    "What `vortex gen` calls it: records, ascii, pairs, u32be, ...", "-k,--key",
                    "Of records with equal keys keep only the first");
  add_line_options(verb, options.lines, "Sort",
                   "How many lines or records stay on top: those of the first input, others are "
                   "dropped");
  verb.add_flag("-s,--stable", options.stable,
                "Keep the order of records with equal keys (of one length: always so)");
  verb.add_flag("-m,--merge", options.merge, "The inputs are sorted already: only merge them");
  add_number(verb, "--first", options.first,
             "Only so many records or lines come out, the first of the order: few are kept in "
             "memory while the others pass",
             1);
  add_resources(verb, options);
  verb.add_flag("--plan", options.plan, "Print what would be done, and do nothing");
  verb.add_flag(
      "--bound", options.bound,
      "Measure the disks first; --json and -v tell how many times their least time the sort took");
  verb.add_option("--trace", options.trace,
                  "A file for a trace of disks and threads, which Perfetto opens");
  verb.add_flag("--no-sync", options.no_sync,
                "Do not wait until the output has reached the disk; it still appears whole");
  verb.add_flag(
      "--progress", options.progress,
      "Tell how far the sort is, and how long all that is left takes, where standard error "
      "is no terminal, too");
  verb.add_flag("--json", options.json, "Print a report as JSON");
  verb.add_flag("-v,--verbose", options.verbose, "Print the plan and what came of it");
}

void add_split(CLI::App& program, SplitOptions& options) {
  CLI::App& verb = *program.add_subcommand(
      "split", "Divide files of records into files by ranges of keys, in one pass");
  SortOptions& sort = options.sort;
  verb.add_option("IN", sort.inputs, "Files, or - for standard input")->required();
  verb.add_option("-o,--output", sort.output,
                  "What the names of the parts begin with; .00000, .00001 and so on are behind it")
      ->required();
  add_number(verb, "-n,--parts", options.parts,
             "How many parts, about equally long by a sample of the files", 1, kMostParts);
  verb.add_option("--splitters", options.splitters,
                  "A file of records in order: each begins a part, behind the first");
  verb.add_flag("--divide-equal", options.divide_equal,
                "Divide records with equal keys between parts, too, in their order");
  add_record_options(verb, sort.records, "What `vortex gen` calls it: records, u32be, ...",
                     "-k,--key");
  verb.add_option("-S,--memory", sort.memory,
                  "How much memory to take, a size or a percentage of all there is (by default "
                  "half of what is free, at most 1 GiB)");
  verb.add_option("-T,--disk", sort.folders,
                  "A folder for parts; may be repeated, a queue of requests each, and then parts "
                  "go to the folders in turn")
      ->type_name("DIR")
      ->allow_extra_args(false);
  verb.add_option("--block", sort.block,
                  "Size of the blocks, a power of two (by default what suits the memory)");
  verb.add_option("--request-cost", sort.request_cost,
                  "What a request costs a disk beside its bytes, as a size (by default measured, "
                  "where files are 4 GiB or more)");
  verb.add_option("--io", sort.io, "best, uring or threads")->capture_default_str();
  add_number(verb, "--seed", sort.seed, "Of the sample, and of the first part's folder", 0)
      .default_str(std::to_string(sort.seed));
  verb.add_flag("--no-sync", sort.no_sync,
                "Do not wait until the parts have reached the disk; they still appear whole");
  verb.add_flag("--progress", sort.progress,
                "Tell how far it is where standard error is no terminal, too");
  verb.add_flag("--json", sort.json, "Print a report as JSON");
  verb.add_flag("-v,--verbose", sort.verbose, "Print the parts and their lengths");
}

void add_check(CLI::App& program, CheckOptions& options) {
  CLI::App& verb = *program.add_subcommand(
      "check", "Tell whether files, one after the other, are sorted (exit code 0) or not (1)");
  verb.add_option("IN", options.inputs, "Files, or - for standard input; with --combine, summaries")
      ->required();
  add_order_options(verb, options.records, options.unique,
                    "What `vortex gen` calls it: records (the default), ascii, pairs, u32be, ...",
                    "-k,--key", "Equal keys count as not sorted");
  add_line_options(verb, options.lines, "Check",
                   "How many lines or records at the beginning of each file are not looked at");
  verb.add_flag("-s,--stable", options.stable,
                "Of lines: those with equal keys may stand in any order");
  verb.add_flag("--progress", options.progress,
                "Tell how far it is where standard error is no terminal, too");
  verb.add_flag("--combine", options.combine,
                "Join summaries of consecutive parts, made with --json");
  verb.add_flag("--json", options.json, "Print the summary as JSON, for people and for --combine");
  verb.footer(
      "With --lines and --csv each file is checked by itself. `vortex-sort -c FILE` checks lines "
      "with the options and the words of sort(1).");
}

void add_info(CLI::App& program, InfoOptions& options) {
  CLI::App& verb =
      *program.add_subcommand("info", "Tell what this machine offers, and why not more");
  verb.add_option("DIR", options.folders, "Folders whose disks are looked at (default: this one)");
  verb.add_flag("--json", options.json, "Print it as JSON");
}

// The names of a verb's options.
std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string listed(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list.append(list.empty() ? "" : ", ").append(word);
  return list;
}

// What CLI11 says of a command line, with what may have been meant.
std::string message_of_parsing(const CLI::App& program, const CLI::ParseError& error, int argc,
                               char** argv) {
  std::vector<std::string> verbs;
  for (const CLI::App* const verb : program.get_subcommands({})) verbs.push_back(verb->get_name());
  const auto verb = std::find(verbs.begin(), verbs.end(), argc > 1 ? argv[1] : "");
  if (verb == verbs.end()) {
    if (argc < 2) return fmt::format("a verb is missing: {}", listed(verbs));
    if (argv[1][0] == '-')
      return fmt::format("{} is no option here; a verb is first: {}", argv[1], listed(verbs));
    return fmt::format("'{}' is no verb{} (verbs: {})", argv[1], did_you_mean(argv[1], verbs),
                       listed(verbs));
  }
  const std::vector<std::string> options = option_names(*program.get_subcommand(*verb));
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string name(argument.substr(0, argument.find('=')));
    if (name == "--") break;
    if (!name.starts_with("--") || std::find(options.begin(), options.end(), name) != options.end())
      continue;
    return fmt::format("{} is no option of {}{}", name, *verb, did_you_mean(name, options));
  }
  return error.what();
}

// The value of a variable that is not set, mostly: none of the options has a use for it.
void expect_no_empty_value(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) throw Error(EINVAL, option->get_name() + " has an empty value");
    }
  }
}

int parse_and_run(int argc, char** argv) {
  CLI::App program(
      "Streams of records through virtual memory: make them, sort them, check them, and see what "
      "the machine "
      "can do.",
      "vortex");
  program.set_version_flag("--version", kVersion);
  program.require_subcommand(1);
  program.get_formatter()->label("SUBCOMMAND", "VERB");
  program.group("Verbs");
  program.footer(
      "Exit codes: 0 done, 1 not sorted, 2 an error. `vortex VERB --help` has the options.");
  GenOptions for_gen;
  SortOptions for_sort;
  SplitOptions for_split;
  CheckOptions for_check;
  InfoOptions for_info;
  add_gen(program, for_gen);
  add_sort(program, for_sort);
  add_split(program, for_split);
  add_check(program, for_check);
  add_info(program, for_info);
  keep_bracketed_names(program, argc, argv);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return program.exit(success);
  } catch (const CLI::ParseError& error) {
    const std::string message = message_of_parsing(program, error, argc, argv);
    std::fprintf(stderr, "vortex: %s (see --help)\n", printable(message).c_str());
    return kExitError;
  }
  for (const CLI::App* verb : program.get_subcommands()) expect_no_empty_value(*verb);
  if (program.got_subcommand("gen")) return gen(for_gen);
  if (program.got_subcommand("sort")) return sort(for_sort);
  if (program.got_subcommand("split")) return split(for_split);
  if (program.got_subcommand("check")) return check(for_check);
  return info(for_info);
}

int run(int argc, char** argv) noexcept {
  try {
    const int code = parse_and_run(argc, argv);
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "stdout");
    // What could not be told is an error, too.
    return std::ferror(stderr) != 0 ? kExitError : code;
  } catch (const std::exception& exception) {
    end_process_at_broken_pipe(exception);
    tell_error("vortex", exception);
  }
  return kExitError;
}

}  // namespace

}  // namespace vortex::cli

// Errors go to standard error, one line each, and make the exit code kExitError.
int main(int argc, char** argv) {
  vortex::cli::occupy_closed_standard_descriptors(false);
  return vortex::cli::run(argc, argv);
}
