// Code that has never heard of blocks, on files larger than the memory of their reader or array:
// algorithms, the C library, and libraries that want the whole of a file in memory.
#include <expat.h>
#include <gtest/gtest.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <sqlite3.h>
#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/support/file_text.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"

namespace vortex::file_libraries_test { namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;
constexpr std::size_t kFile = (test::kShadowMemory ? 2 : 16) * (std::size_t{1} << 20) + 12345;

// A reader or an array, and the file.
class OnAFile : public testing::Test {
 protected:
  template <typename T>
  void put(const T& values) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(values[0])));
  }
  // Requests of one block, so that the memory stays small.
  template <typename T>
  std::unique_ptr<FileReader<T>> open() {
    auto in = std::make_unique<FileReader<T>>(
        path, FileReaderOptions{.block_bytes = kBlock, .read_ahead = 2, .request_bytes = kBlock});
    EXPECT_LE(in->statistics().pool_bytes, in->size() * sizeof(T) / 2);
    return in;
  }

  std::mt19937_64 random = test::test_random();
  test::TemporaryFolder folder;
  std::string path = folder.file("file");
};

class AnyOrderLibraries : public OnAFile {
 protected:
  std::string random_text(std::size_t size) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>('a' + random() % 16);
    return text;
  }
};

// memcpy() and memmove() of the C library begin at both ends.
TEST_F(AnyOrderLibraries, CopiesOfTheWholeFile) {
  const std::string text = random_text(kFile);
  put(text);
  const auto in = open<char>();
  std::string copy(kFile, '\0');
  std::memcpy(copy.data(), in->data(), kFile);
  EXPECT_TRUE(copy == text);
  std::fill(copy.begin(), copy.end(), '\0');
  std::memmove(copy.data(), in->data(), kFile);
  EXPECT_TRUE(copy == text);
  std::fill(copy.begin(), copy.end(), '\0');
  std::copy(in->data(), in->data() + in->size(), copy.begin());
  EXPECT_TRUE(copy == text);
  std::reverse_copy(in->data(), in->data() + in->size(), copy.begin());
  EXPECT_TRUE(std::equal(copy.rbegin(), copy.rend(), text.begin(), text.end()));
  EXPECT_EQ(std::memcmp(in->data(), text.data(), kFile), 0);
}

// The whole input of inflate() in one call.
TEST_F(AnyOrderLibraries, Inflate) {
  const std::string text = random_text(2 * kFile);
  std::vector<Bytef> packed(compressBound(text.size()));
  uLongf packed_size = packed.size();
  ASSERT_EQ(compress(packed.data(), &packed_size, reinterpret_cast<const Bytef*>(text.data()),
                     text.size()),
            Z_OK);
  packed.resize(packed_size);
  put(packed);
  const auto in = open<Bytef>();
  std::string unpacked(text.size(), '\0');
  z_stream all{};
  ASSERT_EQ(inflateInit(&all), Z_OK);
  all.next_in = const_cast<Bytef*>(in->data());
  all.avail_in = static_cast<uInt>(in->size());
  all.next_out = reinterpret_cast<Bytef*>(unpacked.data());
  all.avail_out = static_cast<uInt>(unpacked.size());
  EXPECT_EQ(inflate(&all, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(inflateEnd(&all), Z_OK);
  EXPECT_TRUE(unpacked == text);
}

// A file with its table of contents at the end, as archives have it: found from the end backward,
// it says where the parts are.
TEST_F(AnyOrderLibraries, ADirectoryAtTheEnd) {
  constexpr std::uint64_t kMagic = 0x5f656e645f686572;
  std::string file;
  std::string directory;
  const auto append = [](std::string& to, std::uint64_t value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::vector<std::uint32_t> sums;
  while (file.size() < kFile) {
    const std::string part = random_text(random() % (3 * kBlock));
    append(directory, file.size());
    append(directory, part.size());
    sums.push_back(static_cast<std::uint32_t>(
        adler32(1, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()))));
    file += part;
  }
  const std::uint64_t begin = file.size();
  file += directory;
  append(file, kMagic);
  append(file, begin);
  append(file, sums.size());
  file += random_text(100);  // a comment
  put(file);

  const auto in = open<char>();
  const auto number = [&](std::uint64_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, in->data() + at, sizeof value);
    return value;
  };
  std::uint64_t end = in->size() - 3 * sizeof(std::uint64_t);
  while (number(end) != kMagic) --end;
  ASSERT_EQ(number(end + 16), sums.size());
  const std::uint64_t entries = number(end + 8);
  // The directory in order, its parts at random.
  std::vector<std::size_t> order(sums.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t i : order) {
    const auto* const part = reinterpret_cast<const Bytef*>(in->data() + number(entries + 16 * i));
    EXPECT_EQ(adler32(1, part, static_cast<uInt>(number(entries + 16 * i + 8))), sums[i]);
  }
}

TEST_F(AnyOrderLibraries, BinarySearch) {
  std::vector<std::uint64_t> values(kFile / 8);
  for (std::uint64_t& value : values) value = random() % (8 * values.size());
  std::sort(values.begin(), values.end());
  put(values);
  const auto in = open<std::uint64_t>();
  const std::uint64_t* const begin = in->data();
  const std::uint64_t* const end = begin + in->size();
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t wanted = random() % (8 * values.size());
    EXPECT_EQ(std::binary_search(begin, end, wanted),
              std::binary_search(values.begin(), values.end(), wanted));
    EXPECT_EQ(std::lower_bound(begin, end, wanted) - begin,
              std::lower_bound(values.begin(), values.end(), wanted) - values.begin());
  }
}

// Two passes: the length, and then the contents.
TEST_F(AnyOrderLibraries, TwoPasses) {
  std::string text = random_text(kFile);
  text.replace(kFile - 5, 3, "XYZ");
  put(text);
  const auto in = open<char>();
  ASSERT_EQ(std::strlen(in->data()), kFile);
  EXPECT_EQ(std::strstr(in->data(), "XYZ") - in->data(), static_cast<std::ptrdiff_t>(kFile - 5));
  EXPECT_EQ(std::count(in->data(), in->data() + kFile, 'a'),
            std::count(text.begin(), text.end(), 'a'));
  EXPECT_GE(in->statistics().any_order.reread_bytes, kFile);
}

// A merge of parts of one file, which are sorted each.
TEST_F(AnyOrderLibraries, AMergeOfPartsOfOneFile) {
  std::vector<std::uint32_t> values(kFile / 4 / 4 * 4);
  for (std::uint32_t& value : values) value = static_cast<std::uint32_t>(random());
  const std::size_t half = values.size() / 2;
  std::sort(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half));
  std::sort(values.begin() + static_cast<std::ptrdiff_t>(half), values.end());
  put(values);
  const auto in = open<std::uint32_t>();
  std::vector<std::uint32_t> merged(values.size());
  std::merge(in->data(), in->data() + half, in->data() + half, in->data() + in->size(),
             merged.begin());
  std::sort(values.begin(), values.end());
  EXPECT_TRUE(merged == values);
  EXPECT_EQ(in->statistics().any_order.cursors, 2u);
}

constexpr std::size_t kMemory = (test::kShadowMemory ? 1 : 2) * (std::size_t{1} << 20);
constexpr std::size_t kNumbers = 4 * kMemory / sizeof(std::uint32_t);

class FileArrayLibraries : public OnAFile {
 protected:
  void SetUp() override {
    for (std::uint32_t& number : numbers) number = static_cast<std::uint32_t>(random());
    put(numbers);
  }
  // All files are four times as large as the memory.
  FileArray<std::uint32_t> open() { return open(path, kNumbers); }
  FileArray<std::uint32_t> open(const std::string& file, std::uint64_t size) {
    FileArray<std::uint32_t> array(file, {.memory_bytes = kMemory,
                                          .block_bytes = kBlock,
                                          .request_bytes = kBlock,
                                          .make = true,
                                          .reserve_bytes = 8 * kMemory});
    EXPECT_EQ(array.statistics().pool_bytes, kMemory);
    array.resize(size);
    return array;
  }
  bool file_is(const std::vector<std::uint32_t>& wanted) const {
    const std::string there = test::file_text(path);
    return there.size() == wanted.size() * sizeof(wanted[0]) &&
           std::memcmp(there.data(), wanted.data(), there.size()) == 0;
  }

  std::vector<std::uint32_t> numbers = std::vector<std::uint32_t>(kNumbers);
};

TEST_F(FileArrayLibraries, StdSort) {
  {
    auto array = open();
    std::sort(array.begin(), array.end());
    array.flush();
    std::sort(numbers.begin(), numbers.end());
    EXPECT_TRUE(std::equal(array.begin(), array.end(), numbers.begin(), numbers.end()));
  }
  EXPECT_TRUE(file_is(numbers));
}

// glibc before 2.37 sorts in a copy on the heap where the machine's memory has room for one.
TEST_F(FileArrayLibraries, Qsort) {
  const auto order = [](const void* one, const void* other) {
    std::uint32_t left = 0;
    std::uint32_t right = 0;
    std::memcpy(&left, one, sizeof left);
    std::memcpy(&right, other, sizeof right);
    return left < right ? -1 : static_cast<int>(left > right);
  };
  {
    auto array = open();
    std::qsort(array.data(), array.size(), sizeof(std::uint32_t), order);
  }
  std::sort(numbers.begin(), numbers.end());
  EXPECT_TRUE(file_is(numbers));
}

// memcpy() and memmove() of the C library begin at both ends.
TEST_F(FileArrayLibraries, CopiesOfTheWholeFile) {
  const std::string other = folder.file("other");
  {
    const auto array = open();
    auto copy = open(other, kNumbers);
    std::memcpy(copy.data(), array.data(), kNumbers * sizeof(std::uint32_t));
    EXPECT_EQ(std::memcmp(copy.data(), numbers.data(), kNumbers * sizeof(std::uint32_t)), 0);
    // Within one array, over itself, upwards and downwards.
    std::memmove(copy.data() + 1, copy.data(), (kNumbers - 1) * sizeof(std::uint32_t));
    std::memmove(copy.data(), copy.data() + 1, (kNumbers - 1) * sizeof(std::uint32_t));
    std::copy(copy.begin(), copy.begin() + kNumbers / 2, copy.begin() + kNumbers / 2);
    std::copy_backward(copy.begin(), copy.end() - 9, copy.end());
  }
  std::copy(numbers.begin(), numbers.begin() + kNumbers / 2, numbers.begin() + kNumbers / 2);
  std::copy_backward(numbers.begin(), numbers.end() - 9, numbers.end());
  path = other;
  EXPECT_TRUE(file_is(numbers));
}

// In one call, which reads what it has written: far back for copies, and all again for the
// checksum.
TEST_F(FileArrayLibraries, InflateIntoAnArray) {
  for (std::uint32_t& number : numbers) number &= 0x0f0f0f0f;
  std::vector<Bytef> packed(compressBound(sizeof(numbers[0]) * kNumbers));
  uLongf packed_size = packed.size();
  ASSERT_EQ(compress(packed.data(), &packed_size, reinterpret_cast<const Bytef*>(numbers.data()),
                     sizeof(numbers[0]) * kNumbers),
            Z_OK);
  path = folder.file("unpacked");
  {
    auto unpacked = open();
    z_stream all{};
    ASSERT_EQ(inflateInit(&all), Z_OK);
    all.next_in = packed.data();
    all.avail_in = static_cast<uInt>(packed_size);
    all.next_out = reinterpret_cast<Bytef*>(unpacked.data());
    all.avail_out = static_cast<uInt>(sizeof(numbers[0]) * kNumbers);
    EXPECT_EQ(inflate(&all, Z_FINISH), Z_STREAM_END);
    EXPECT_EQ(inflateEnd(&all), Z_OK);
  }
  EXPECT_TRUE(file_is(numbers));
}

TEST_F(FileArrayLibraries, ReverseRotateAndAccumulate) {
  {
    auto array = open();
    std::reverse(array.begin(), array.end());
    std::rotate(array.begin(), array.begin() + kNumbers / 3, array.end());
    std::partial_sum(array.begin(), array.end(), array.begin());
  }
  std::reverse(numbers.begin(), numbers.end());
  std::rotate(numbers.begin(), numbers.begin() + kNumbers / 3, numbers.end());
  std::partial_sum(numbers.begin(), numbers.end(), numbers.begin());
  EXPECT_TRUE(file_is(numbers));
}

constexpr std::size_t kFormat = (test::kShadowMemory ? 2 : 5) * (std::size_t{1} << 20);

template <typename T, void (*end)(T*)>
struct Ender {
  void operator()(T* object) const noexcept { end(object); }
};

class AnyOrderFormats : public OnAFile {};

// The contents of a document: how many elements, and the sum of the numbers in their attributes.
struct Totals {
  std::uint64_t items = 0;
  std::uint64_t sum = 0;
  friend bool operator==(const Totals&, const Totals&) = default;
};

class Xml : public AnyOrderFormats {
 protected:
  void SetUp() override {
    std::ofstream out(path);
    out << "<list>\n";
    while (static_cast<std::size_t>(out.tellp()) < kFormat) {
      const std::uint64_t value = random() % 1000000;
      out << "  <item value=\"" << value << "\">" << std::string(random() % 400, 'x')
          << " &amp; more</item>\n";
      ++expected.items;
      expected.sum += value;
    }
    out << "</list>\n";
  }
  static void count(Totals& totals, const char* name, const char* value) {
    if (std::string(name) != "item") return;
    ++totals.items;
    totals.sum += std::stoull(value);
  }
  // As both libraries call it: names and values in turn.
  static void on_start(void* totals, const char* name, const char** attributes) {
    count(*static_cast<Totals*>(totals), name, attributes == nullptr ? "0" : attributes[1]);
  }

  Totals expected;
};

TEST_F(Xml, Expat) {
  const auto in = open<char>();
  Totals totals;
  const std::unique_ptr<XML_ParserStruct, Ender<XML_ParserStruct, XML_ParserFree>> parser(
      XML_ParserCreate(nullptr));
  XML_SetUserData(parser.get(), &totals);
  XML_SetStartElementHandler(parser.get(), on_start);
  ASSERT_EQ(XML_Parse(parser.get(), in->data(), static_cast<int>(in->size()), 1), XML_STATUS_OK);
  EXPECT_EQ(totals, expected);
}

TEST_F(Xml, LibxmlSax) {
  const auto in = open<char>();
  Totals totals;
  xmlSAXHandler handler{};
  handler.startElement = [](void* user, const xmlChar* name, const xmlChar** attributes) {
    on_start(user, reinterpret_cast<const char*>(name), reinterpret_cast<const char**>(attributes));
  };
  ASSERT_EQ(xmlSAXUserParseMemory(&handler, &totals, in->data(), static_cast<int>(in->size())), 0);
  EXPECT_EQ(totals, expected);
}

TEST_F(Xml, LibxmlDom) {
  const auto in = open<char>();
  const std::unique_ptr<xmlDoc, Ender<xmlDoc, xmlFreeDoc>> document(
      xmlReadMemory(in->data(), static_cast<int>(in->size()), "list.xml", nullptr, XML_PARSE_HUGE));
  ASSERT_NE(document, nullptr);
  Totals totals;
  for (const xmlNode* node = xmlDocGetRootElement(document.get())->children; node != nullptr;
       node = node->next) {
    if (node->type != XML_ELEMENT_NODE) continue;
    count(totals, reinterpret_cast<const char*>(node->name),
          reinterpret_cast<const char*>(node->properties->children->content));
  }
  EXPECT_EQ(totals, expected);
}

// The directory is at the end of the file, and says where the parts are.
TEST_F(AnyOrderFormats, Zip) {
  std::vector<std::string> parts;
  int error = 0;
  zip_t* const made = zip_open(path.c_str(), ZIP_CREATE | ZIP_EXCL, &error);
  ASSERT_NE(made, nullptr);
  for (std::size_t bytes = 0; bytes < kFormat; bytes += parts.back().size()) {
    std::string part(random() % (4 * kBlock), '\0');
    for (char& c : part) c = static_cast<char>(random());
    parts.push_back(std::move(part));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const zip_int64_t index =
        zip_file_add(made, std::to_string(i).c_str(),
                     zip_source_buffer(made, parts[i].data(), parts[i].size(), 0), 0);
    ASSERT_GE(index, 0);
    if (i % 2 == 0)
      zip_set_file_compression(made, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  ASSERT_EQ(zip_close(made), 0);

  const auto in = open<char>();
  zip_error_t why;
  zip_error_init(&why);
  zip_source_t* const source = zip_source_buffer_create(in->data(), in->size(), 0, &why);
  ASSERT_NE(source, nullptr);
  zip_t* const archive = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &why);
  ASSERT_NE(archive, nullptr) << zip_error_strerror(&why);
  ASSERT_EQ(zip_get_num_entries(archive, 0), static_cast<zip_int64_t>(parts.size()));
  for (int i = 0; i < 20; ++i) {
    const std::size_t wanted = random() % parts.size();
    zip_file_t* const part = zip_fopen(archive, std::to_string(wanted).c_str(), 0);
    ASSERT_NE(part, nullptr);
    std::string unpacked(parts[wanted].size() + 1, '\0');
    unpacked.resize(static_cast<std::size_t>(zip_fread(part, unpacked.data(), unpacked.size())));
    EXPECT_EQ(zip_fclose(part), 0);
    EXPECT_TRUE(unpacked == parts[wanted]);
  }
  zip_discard(archive);
}

// A database as it lies in its file, read wherever its trees lead.
TEST_F(AnyOrderFormats, SqliteDeserialize) {
  const auto run = [](sqlite3* database, const std::string& statement) {
    char* message = nullptr;
    ASSERT_EQ(sqlite3_exec(database, statement.c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << message;
  };
  sqlite3* made = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &made), SQLITE_OK);
  run(made,
      "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; PRAGMA page_size = 4096;"
      "CREATE TABLE items (id INTEGER PRIMARY KEY, key INTEGER, text BLOB);"
      "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < " +
          std::to_string(kFormat / 1100) +
          ") INSERT INTO items SELECT i, (i * 7919) % 100003, randomblob(1000) FROM n;"
          "CREATE INDEX by_key ON items (key);");
  const auto ask = [](sqlite3* database, const std::string& question) {
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(database, question.c_str(), -1, &statement, nullptr), SQLITE_OK);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW) << sqlite3_errmsg(database);
    const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    std::string answer = text == nullptr ? "" : text;
    sqlite3_finalize(statement);
    return answer;
  };
  std::vector<std::string> questions = {
      "PRAGMA integrity_check",
      "SELECT hex(max(text)) FROM items",
      "SELECT sum(a.key * b.id) FROM items a JOIN items b ON b.key = (a.key * 31) % 100003",
  };
  for (int i = 0; i < 20; ++i) {
    questions.push_back("SELECT hex(text) FROM items WHERE key >= " +
                        std::to_string(random() % 100003) + " ORDER BY key LIMIT 1");
  }
  std::vector<std::string> answers;
  for (const std::string& question : questions) {
    answers.push_back(question.find("LIMIT") == std::string::npos ||
                              ask(made, "SELECT count(*) FROM (" + question + ")") == "1"
                          ? ask(made, question)
                          : "");
  }
  sqlite3_close(made);

  const auto in = open<char>();
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(":memory:", &database), SQLITE_OK);
  auto* const bytes = reinterpret_cast<unsigned char*>(const_cast<char*>(in->data()));
  const auto size = static_cast<sqlite3_int64>(in->size());
  ASSERT_EQ(sqlite3_deserialize(database, "main", bytes, size, size, SQLITE_DESERIALIZE_READONLY),
            SQLITE_OK);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (answers[i].empty()) continue;
    EXPECT_TRUE(ask(database, questions[i]) == answers[i]) << questions[i];
  }
  sqlite3_close(database);
  EXPECT_GT(in->statistics().any_order.reread_bytes, 0u);
}

}  // namespace

}  // namespace vortex::file_libraries_test
