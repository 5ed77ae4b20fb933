// A header of the program's own that lies where the library once had one.
#pragma once

namespace consumer {
inline constexpr int kSort = 2;
}
