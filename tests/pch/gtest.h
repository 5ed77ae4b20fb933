// Precompiled once for the tests of a room, which take longer to read GoogleTest than to compile
// most of what they say themselves. Each test includes what it uses all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>
