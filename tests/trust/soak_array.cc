// Changes numbers of a file for ever, for soak.py, which kills it and knows what must be there.
//
//   soak_array FILE SEED
//
// Operation n writes n to a number that the seed chooses. Behind a flush() the last operation
// goes to standard output, as a number of 64 bits.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "vortex/file_array.h"

int main(int count, char** arguments) {
  if (count != 3) return 2;
  vortex::FileArray<std::uint64_t> array(
      arguments[1], {.memory_bytes = std::size_t{1} << 18, .block_bytes = std::size_t{16} << 10});
  std::uint64_t state = std::strtoull(arguments[2], nullptr, 10);
  for (std::uint64_t operation = 1;; ++operation) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's, as in soak.py
    array.data()[(state >> 33) % array.size()] = operation;
    if ((state >> 20) % 64 != 0) continue;
    array.flush((state >> 26) % 2 == 0 ? vortex::Flush::kWritten : vortex::Flush::kSynced);
    if (write(STDOUT_FILENO, &operation, sizeof operation) != sizeof operation) return 0;
  }
}
