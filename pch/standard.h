// Headers of the standard library, read once for each of our libraries instead of once for each of
// its sources, where they are most of what a compiler reads. Each file includes what it uses all
// the same: the flavour `clang`, which `./dev lint` builds, is built without this.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
