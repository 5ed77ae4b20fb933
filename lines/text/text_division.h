// Sorted texts cut at the same places of their order, so that the parts can be merged side by side.
#pragma once

#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include "io/file/block_file.h"
#include "lines/record/stored_record.h"
#include "lines/text/input_text.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Texts are not to be merged in parts: they are not sorted, or have long records.
class NotInParts : public Error {
 public:
  explicit NotInParts(const std::string& why) : Error(EAGAIN, why) {}
};

// A part of what the merge of all gives.
struct TextPart {
  std::vector<TextRange> texts;  // a part of each, of whole records
  std::uint64_t bytes = 0;       // of these, each record with its delimiter
};

// Cuts the texts into `parts` parts at most, about equally long, one behind the other in the order,
// none with less than `least_bytes`. They are files with offsets, as long as they were when they
// were opened, of delimited records. Records whose order is equal are in the same part. Of texts
// that are not sorted each record is in one part, whichever it is.
//
// A splitter is the record behind a place of a text, found by multiway selection as those of runs
// (divide_runs()); then the texts are searched for the first record that does not precede it. Reads
// some pages of each for each part, through the page cache. Throws NotInParts where a record that
// is looked at is longer than 64 KiB, or a file is shorter than it was; Error: what reading
// reports.
std::vector<TextPart> divide_texts(std::span<const BlockFile> texts, const LineSortOptions& options,
                                   const StoredOrder& order, unsigned parts,
                                   std::uint64_t least_bytes);

}}  // namespace vortex::v0
