// Tables of the numbers that callers may give, each tried with the least and the largest values.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "vortex/error.h"

namespace vortex::test {

// The errno value that a call ends with; 0: it has succeeded. Exceptions that carry none are passed
// on.
template <typename Call>
int ending_of(const Call& call, std::string* message) {
  try {
    call();
    return 0;
  } catch (const std::exception& exception) {
    const int error = errno_of(exception, 0);
    if (error == 0) throw;
    *message = exception.what();
    return error;
  }
}

struct ExtremeNumber {
  std::string name;  // "Struct::field", or "function(parameter)"
  std::uint64_t most;
  // How the largest number and the one before it may end.
  std::vector<int> endings;
  // Uses the number in the ordinary way and checks what comes of it; Errors are passed on.
  std::function<void(std::uint64_t number)> use;
};

// The type of the numbers that a field holds.
template <typename T>
struct NumberIn {
  using type = T;
};
template <typename T>
struct NumberIn<std::optional<T>> {
  using type = T;
};
template <typename T>
using NumberOf = typename NumberIn<T>::type;

inline constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

template <typename Number>
struct OfType {
  static constexpr std::uint64_t kMost =
      static_cast<std::uint64_t>(std::numeric_limits<Number>::max());
};

// With 0 and 1 a call may fail in any way that it can tell of, but it must not do harm; with the
// largest numbers it ends as the table says.
inline void try_extremes(const ExtremeNumber& row) {
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}}) {
    SCOPED_TRACE(row.name + " = " + std::to_string(number));
    std::string message;
    EXPECT_NO_THROW(ending_of([&] { row.use(number); }, &message));
  }
  for (const std::uint64_t number : {row.most - 1, row.most}) {
    SCOPED_TRACE(row.name + " = " + std::to_string(number));
    std::string message;
    int ending = 0;
    EXPECT_NO_THROW(ending = ending_of([&] { row.use(number); }, &message));
    EXPECT_NE(std::find(row.endings.begin(), row.endings.end(), ending), row.endings.end())
        << "it ended with " << ending << ": " << message;
  }
}

inline std::string name_of_row(const testing::TestParamInfo<ExtremeNumber>& row) {
  std::string name;
  for (const char c : row.param.name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  }
  return name + "_" + std::to_string(row.index);
}

}  // namespace vortex::test

// FIELD(Struct, field, endings, use): `use` is called with a Struct whose field is the number.
#define FIELD(Struct, field, endings_, use_)                                        \
  ExtremeNumber {                                                                   \
#Struct "::" #field, OfType<NumberOf<decltype(Struct::field)>>::kMost, endings_,  \
        [](std::uint64_t number) {                                                    \
          Struct options = given<Struct>();                                           \
          options.field = static_cast<NumberOf<decltype(Struct::field)>>(number);     \
          use_(options);                                                              \
        } \
  }

// CALL(name, endings, statements): these are done with a number n.
#define CALL(name, endings, ...)                               \
  ExtremeNumber {                                              \
    name, kMost, endings, [](std::uint64_t n) { __VA_ARGS__; } \
  }
