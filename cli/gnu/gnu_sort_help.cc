#include <fmt/format.h>

#include "cli/gnu/gnu_sort_options.h"

namespace vortex::cli {

std::string gnu_sort_help(const char* program) {
  return fmt::format(R"(Usage: {0} [OPTION]... [FILE]...
  or:  {0} [OPTION]... --files0-from=F
Sorts the lines of all files, or of standard input (-), as GNU sort does.

Orders:
  -b,--ignore-leading-blanks   leave out blanks in front
  -d,--dictionary-order        consider blanks, letters and digits only
  -f,--ignore-case             take lower case for upper case
  -g,--general-numeric-sort    compare floating-point numbers
  -h,--human-numeric-sort      compare numbers with units (2K 1G)
  -i,--ignore-nonprinting      consider printable characters only
  -M,--month-sort              compare months (JAN to DEC)
  -n,--numeric-sort            compare numbers of any length
  -R,--random-sort             shuffle, with equal keys together
  --random-source=FILE         take the randomness from the file
  -r,--reverse                 turn the order round
  --sort=WORD                  general-numeric, human-numeric, month, numeric, random or version
  -V,--version-sort            compare versions within text

Keys:
  -k,--key=KEYDEF              F[.C][OPTS][,F[.C][OPTS]]: from there to there; may be repeated
  -t,--field-separator=SEP     what separates fields; else the step from a non-blank to a blank

What is done:
  -c,--check                   only tell whether the input is sorted, and the first line that is not
                               (--check=diagnose-first)
  -C                           the same without a word (--check=quiet, --check=silent)
  -m,--merge                   only merge files that are sorted
  -o,--output=FILE             write there instead of to standard output; may be an input
  --in-place                   with -o, replace the contents of a file and not the file: its hard
                               links stay, and an error at the end leaves a part
  -s,--stable                  keep the order of lines whose keys are equal
  -u,--unique                  keep only the first of lines whose keys are equal
  -z,--zero-terminated         lines end with NUL, not with a newline
  --first=N                    write only the first N lines, as head -n N would leave them
  --files0-from=F              read the files whose names, each ended by NUL, are in F

How it is done:
  -S,--buffer-size=SIZE        the memory to take: K (the default), M, G ..., b for bytes, %
  -T,--temporary-directory=DIR keep runs there, not in $TMPDIR or /tmp; may be repeated
  --parallel=N                 how many threads sort
  --batch-size=N               accepted; the memory decides how many runs are merged at once
  --compress-program=PROG      compress runs, with LZ4 whatever PROG is; without this they are
                               compressed where the disk is slow
  --progress                   tell on standard error how far the sort is
  --no-sync                    do not wait until the output has reached the disk, as GNU sort does
                               not; it still appears whole
  --debug                      underline the keys, and warn of odd ones

  --help                       print this
  --version                    print the version

LC_ALL and its like decide on the order of text; LC_ALL=C compares bytes.
Exit codes: 0 done, or sorted; 1 not sorted (-c, -C); 2 an error.
)",
                     program);
}

}  // namespace vortex::cli
