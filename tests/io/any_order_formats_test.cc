// Libraries that want the whole of a file in memory, on files larger than the memory of their
// reader: one call each.
#include <expat.h>
#include <gtest/gtest.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <sqlite3.h>
#include <zip.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/file_reader.h"

namespace vortex { namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;
constexpr std::size_t kFile = (test::kShadowMemory ? 2 : 5) * (std::size_t{1} << 20);

template <typename T, void (*end)(T*)>
struct Ender {
  void operator()(T* object) const noexcept { end(object); }
};

class AnyOrderFormats : public testing::Test {
 protected:
  // Requests of one block, so that the memory stays small.
  std::unique_ptr<FileReader<char>> open() {
    auto in = std::make_unique<FileReader<char>>(
        path, FileReaderOptions{.block_bytes = kBlock, .read_ahead = 2, .request_bytes = kBlock});
    EXPECT_LE(in->statistics().pool_bytes, in->size() / 2);
    return in;
  }

  std::mt19937_64 random = test::test_random();
  test::TemporaryFolder folder;
  std::string path = folder.file("file");
};

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
    while (static_cast<std::size_t>(out.tellp()) < kFile) {
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
  const auto in = open();
  Totals totals;
  const std::unique_ptr<XML_ParserStruct, Ender<XML_ParserStruct, XML_ParserFree>> parser(
      XML_ParserCreate(nullptr));
  XML_SetUserData(parser.get(), &totals);
  XML_SetStartElementHandler(parser.get(), on_start);
  ASSERT_EQ(XML_Parse(parser.get(), in->data(), static_cast<int>(in->size()), 1), XML_STATUS_OK);
  EXPECT_EQ(totals, expected);
}

TEST_F(Xml, LibxmlSax) {
  const auto in = open();
  Totals totals;
  xmlSAXHandler handler{};
  handler.startElement = [](void* user, const xmlChar* name, const xmlChar** attributes) {
    on_start(user, reinterpret_cast<const char*>(name), reinterpret_cast<const char**>(attributes));
  };
  ASSERT_EQ(xmlSAXUserParseMemory(&handler, &totals, in->data(), static_cast<int>(in->size())), 0);
  EXPECT_EQ(totals, expected);
}

TEST_F(Xml, LibxmlDom) {
  const auto in = open();
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
  for (std::size_t bytes = 0; bytes < kFile; bytes += parts.back().size()) {
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

  const auto in = open();
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
          std::to_string(kFile / 1100) +
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

  const auto in = open();
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

}  // namespace vortex
