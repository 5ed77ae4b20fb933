// Three threads and two arrays between them: one makes numbers, one keeps the primes, one adds up.
// Nothing is copied, and each thread sees a plain array without an end.
//
//   g++ -std=c++20 -O2 three_threads.cc $(pkg-config --cflags --libs vortex) -o three_threads
//   ./three_threads
#include <cstdint>
#include <cstdio>
#include <thread>

#include "vortex/error.h"
#include "vortex/pipeline.h"

namespace {

bool is_prime(std::uint64_t number) {
  if (number < 2) return false;
  for (std::uint64_t d = 2; d * d <= number; ++d) {
    if (number % d == 0) return false;
  }
  return true;
}

}  // namespace

int main(int /*argc*/, char** argv) {
  constexpr std::uint64_t kCount = 1'000'000;
  try {
    vortex::Pipeline<std::uint64_t> numbers({.name = "numbers"});
    vortex::Pipeline<std::uint64_t> primes({.name = "primes"});

    std::jthread maker([out = numbers.writer()]() mutable {
      for (std::uint64_t i = 0; i < kCount; ++i) out.data()[i] = i;
      out.finish(kCount);
    });
    std::jthread filter([in = numbers.reader(), out = primes.writer()]() mutable {
      std::uint64_t found = 0;
      for (std::uint64_t i = 0; i < kCount; ++i) {
        if (is_prime(in.data()[i])) out.data()[found++] = in.data()[i];
      }
      out.finish(found);
    });

    const auto in = primes.reader();
    std::uint64_t count = 0;
    std::uint64_t sum = 0;
    // Zeros follow the last number, as they follow the last byte of every stream.
    for (; in.data()[count] != 0; ++count) sum += in.data()[count];
    std::printf("%llu primes below %llu, their sum is %llu\n",
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(kCount),
                static_cast<unsigned long long>(sum));
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
