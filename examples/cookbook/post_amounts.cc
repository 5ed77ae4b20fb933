// Changes a file in place: adds each amount of a list to the balance of its account.
//
//   g++ -std=c++20 -O2 post_amounts.cc $(pkg-config --cflags --libs vortex) -o post_amounts
//   ./post_amounts BALANCES POSTINGS
#include <cstdint>
#include <cstdio>

#include "vortex/error.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"

namespace {

struct Posting {
  std::uint64_t account;  // the place of its balance
  std::int64_t amount;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s BALANCES POSTINGS\n", argv[0]);
    return 2;
  }
  try {
    vortex::FileArray<std::int64_t> balances(argv[1], {.memory_bytes = 64 << 20});
    const vortex::FileReader<Posting> postings(argv[2]);
    std::uint64_t refused = 0;
    for (std::uint64_t i = 0; i < postings.size(); ++i) {
      const Posting& posting = postings.data()[i];
      if (posting.account < balances.size()) {
        balances.data()[posting.account] += posting.amount;
      } else {
        ++refused;
      }
    }
    balances.flush();  // on the disk, or an error that says what is not
    std::printf("%llu postings, %llu of them to no account\n",
                static_cast<unsigned long long>(postings.size()),
                static_cast<unsigned long long>(refused));
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
