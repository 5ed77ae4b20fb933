// Keys that were shortened, made whole where records are compared by them.
#pragma once

#include <string>
#include <string_view>

#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Room for the whole keys of one order.
class WholeKey {
 public:
  // The whole key of a record, valid until the next call. It is made once for equal records that
  // follow each other; the last one must still be there.
  std::string_view of(std::string_view record, const RecordKeys& keys);

 private:
  std::string_view record_;
  std::string key_;
  bool made_ = false;
};

// Below 0 where the whole key of `a` is less, 0 where they are equal. Inside guarded() where the
// records lie in streams.
int compare_whole_keys(std::string_view a, std::string_view b, const RecordKeys& keys);

// The same by keys that are made, as RecordKeys does it by itself.
int compare_made_keys(std::string_view a, std::string_view b, const RecordKeys& keys);

}}  // namespace vortex::v0
