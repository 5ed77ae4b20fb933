#include "tests/sort/pushed_sorts.h"

#include <algorithm>

namespace vortex::test {

void put_in_order(std::vector<std::uint64_t>& items) { std::sort(items.begin(), items.end()); }
void put_in_order(std::vector<std::string>& items) { std::sort(items.begin(), items.end()); }

}  // namespace vortex::test
