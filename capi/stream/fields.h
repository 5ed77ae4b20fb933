// One description of the fields that a struct of C and one of C++ share, for both directions.
//
// Each pair of structs has a list: FIELDS_OF(the struct of C, the one of C++, how many fields are
// in C only, how many in C++ only, row...). Options are taken from C by the list, reports are told
// by it. A field of either struct that no list knows of is an error of the compiler.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "capi/stream/handle.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace capi {

template <typename C, typename Cpp>
struct Fields;

#define FIELDS_OF(of_c, of_cpp, only_in_c, only_in_cpp, ...)    \
  template <>                                                   \
  struct Fields<of_c, of_cpp> {                                 \
    using C = of_c;                                             \
    using Cpp = of_cpp;                                         \
    static constexpr std::size_t kOnlyInC = only_in_c;          \
    static constexpr std::size_t kOnlyInCpp = only_in_cpp;      \
    static constexpr auto kRows = std::make_tuple(__VA_ARGS__); \
  }
// A row for two fields of the same name.
#define SAME(name) \
  Field { &C::name, &Cpp::name }

// The same value. 0 and NULL are the default, which the struct of C++ has.
template <typename OfC, typename OfCpp>
struct Field {
  OfC c;
  OfCpp cpp;
};
template <typename OfC, typename OfCpp>
Field(OfC, OfCpp) -> Field<OfC, OfCpp>;

// A flag: 1 stands for one value of the field of C++.
template <typename OfC, typename OfCpp, typename Value>
struct Flag {
  OfC c;
  OfCpp cpp;
  Value value;
};
template <typename OfC, typename OfCpp, typename Value>
Flag(OfC, OfCpp, Value) -> Flag<OfC, OfCpp, Value>;

// An array and its length; `many` and `one` name its elements in messages.
template <typename OfC, typename Count, typename OfCpp>
struct List {
  OfC c;
  Count count;
  OfCpp cpp;
  const char* many;
  const char* one;
};
template <typename OfC, typename Count, typename OfCpp>
List(OfC, Count, OfCpp, const char*, const char*) -> List<OfC, Count, OfCpp>;

// An enumeration of C++ whose enumerators C numbers in the same order, from kFirst to kLast.
template <typename Enumeration>
struct Choice;
#define CHOICE_OF(enumeration, name, first, last) \
  template <>                                     \
  struct Choice<enumeration> {                    \
    static constexpr const char* kName = name;    \
    static constexpr int kFirst = first;          \
    static constexpr int kLast = last;            \
  }

// ---- No field is forgotten.

struct Anything {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

// With how many values an aggregate can be initialised, the first ones being Given.
template <typename T, typename... Given>
consteval std::size_t field_count() {
  if constexpr (requires { T{std::declval<Given>()..., std::declval<Anything>()}; }) {
    return field_count<T, Given..., Anything>();
  } else if constexpr (requires { T{std::declval<Given>()..., std::nullopt}; }) {
    return field_count<T, Given..., const std::nullopt_t&>();
  } else {
    return sizeof...(Given);
  }
}

template <typename C, typename A>
constexpr std::size_t width_in_c(A C::*) {
  return std::is_array_v<A> ? std::extent_v<A> : 1;
}
template <typename OfC, typename OfCpp>
constexpr std::size_t width_in_c(const Field<OfC, OfCpp>& row) {
  return width_in_c(row.c);
}
template <typename OfC, typename OfCpp, typename Value>
constexpr std::size_t width_in_c(const Flag<OfC, OfCpp, Value>&) {
  return 1;
}
template <typename OfC, typename Count, typename OfCpp>
constexpr std::size_t width_in_c(const List<OfC, Count, OfCpp>&) {
  return 2;
}

template <typename C, typename Cpp>
constexpr void expect_all_fields() {
  using Table = Fields<C, Cpp>;
  constexpr std::size_t in_c = std::apply(
      [](const auto&... rows) { return (std::size_t{0} + ... + width_in_c(rows)); }, Table::kRows);
  static_assert(field_count<Cpp>() == std::tuple_size_v<decltype(Table::kRows)> + Table::kOnlyInCpp,
                "a field of the struct of C++ has no row: give it one, and C a field");
  static_assert(field_count<C>() == in_c + Table::kOnlyInC,
                "a field of the struct of C has no row");
}

// ---- From C.

template <typename Enumeration>
Enumeration choice_of(int given) {
  using Known = Choice<Enumeration>;
  if (given < Known::kFirst || given > Known::kLast) {
    throw Error(EINVAL, "there is no " + std::string(Known::kName) + " " + std::to_string(given));
  }
  return static_cast<Enumeration>(given - Known::kFirst);
}

template <typename A, typename B>
void take(const A& given, B& option) {
  if (given == A{}) return;
  if constexpr (std::is_enum_v<B>) {
    option = choice_of<B>(given);
  } else if constexpr (std::is_arithmetic_v<A>) {
    option = static_cast<std::conditional_t<std::is_arithmetic_v<B>, B, A>>(given);
  } else if constexpr (std::is_same_v<B, std::string>) {
    option = given;
  } else {
    given->give_to(option);  // a handle
  }
}

template <typename C, typename Cpp, typename OfC, typename OfCpp>
void take_row(const C& given, Cpp& options, const Field<OfC, OfCpp>& row) {
  take(given.*row.c, options.*row.cpp);
}
template <typename C, typename Cpp, typename OfC, typename OfCpp, typename Value>
void take_row(const C& given, Cpp& options, const Flag<OfC, OfCpp, Value>& row) {
  if (given.*row.c != 0) options.*row.cpp = row.value;
}
template <typename C, typename Cpp, typename OfC, typename Count, typename OfCpp>
void take_row(const C& given, Cpp& options, const List<OfC, Count, OfCpp>& row) {
  const auto* const array = given.*row.c;
  const std::size_t count = given.*row.count;
  expect_array(array, count, sizeof(*array), row.many);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(*array)>>) {
      (options.*row.cpp).push_back(required(array[i], row.one));
    } else {
      (options.*row.cpp).push_back(array[i]);
    }
  }
}

// Sets what the caller has given; the rest keeps its defaults. Throws Error(EINVAL) for choices
// that there are not, and for arrays that are NULL.
template <typename C, typename Cpp>
void take_fields(const C& given, Cpp& options) {
  expect_all_fields<C, Cpp>();
  std::apply([&](const auto&... rows) { (take_row(given, options, rows), ...); },
             Fields<C, Cpp>::kRows);
}

// Options from a struct that may be NULL.
template <typename Cpp, typename C>
Cpp options_of(const C* given) {
  Cpp options;
  if (given != nullptr) take_fields(*given, options);
  return options;
}

// ---- To C.

template <typename C, typename Cpp>
void tell_fields(const Cpp& made, C& told);

template <typename B, typename A>
void tell(const B& made, A& told) {
  if constexpr (std::is_enum_v<B>) {
    told = static_cast<A>(static_cast<int>(made) + Choice<B>::kFirst);
  } else if constexpr (std::is_arithmetic_v<B>) {
    told = static_cast<A>(made);
  } else if constexpr (std::is_same_v<B, std::string>) {
    told = made.c_str();
  } else if constexpr (std::is_same_v<B, std::optional<A>>) {
    told = made.value_or(0);
  } else if constexpr (std::is_array_v<A>) {
    for (std::size_t i = 0; i < std::extent_v<A>; ++i) tell_fields(made[i], told[i]);
  } else {
    tell_fields(made, told);
  }
}

template <typename C, typename Cpp, typename OfC, typename OfCpp>
void tell_row(const Cpp& made, C& told, const Field<OfC, OfCpp>& row) {
  tell(made.*row.cpp, told.*row.c);
}
template <typename C, typename Cpp, typename OfC, typename Count, typename OfCpp>
void tell_row(const Cpp& made, C& told, const List<OfC, Count, OfCpp>& row) {
  told.*row.c = (made.*row.cpp).data();
  told.*row.count = (made.*row.cpp).size();
}

// Texts and arrays stay where `made` has them.
template <typename C, typename Cpp>
void tell_fields(const Cpp& made, C& told) {
  expect_all_fields<C, Cpp>();
  std::apply([&](const auto&... rows) { (tell_row(made, told, rows), ...); },
             Fields<C, Cpp>::kRows);
}

}}}  // namespace vortex::v0::capi
