// The error that a call ends with.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "vortex/error.h"

namespace vortex::test {

// 0, or the errno value of the Error that `call` throws, whose message is told.
template <typename Call>
int error_of(const Call& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code().value();
  }
  return 0;
}

// The message of the Error that `call` throws; empty: it throws none.
template <typename Call>
std::string message_of_error(const Call& call) {
  std::string message;
  error_of(call, &message);
  return message;
}

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' does not mention '" << part << "'";
}

// Whether `call` throws this error, in words that name all `parts`.
template <typename Call>
testing::AssertionResult fails(const Call& call, int error,
                               std::initializer_list<std::string> parts) {
  std::string message;
  const int thrown = error_of(call, &message);
  if (thrown != error) {
    return testing::AssertionFailure()
           << "error " << thrown << ", not " << error << ": " << message;
  }
  for (const std::string& part : parts) {
    if (const auto named = contains(message, part); !named) return named;
  }
  return testing::AssertionSuccess();
}
template <typename Call>
testing::AssertionResult fails(const Call& call, int error, const std::string& part = {}) {
  return fails(call, error, {part});
}

// The same of a failure.
inline testing::AssertionResult fails(const Failure& failure, int error,
                                      const std::string& part = {}) {
  return fails([&] { failure.throw_if_failed(); }, error, part);
}

}  // namespace vortex::test
