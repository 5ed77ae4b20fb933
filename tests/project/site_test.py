#!/usr/bin/env python3
"""Makes the documentation as a site and follows every link of it.

  site_test.py SOURCE_ROOT BUILD_ROOT

Every link leads to a page that is there and to a place in it; every picture, script and style sheet
lies in the site, which therefore works from the disk without a network; a warning of the generator
is an error. The first page has code, the lines that install, and the programs; what one uses comes
before what was measured, and the page of measurements is full without a benchmark. The reference has a
page for each public header: the plainest call first, then what the header declares, with what it requires.
"""

import html
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
BUILD_ROOT = pathlib.Path(sys.argv[2]).resolve()
SKIPPED = 77
# C has an example in its first comment; a class of one's own has no call.
WITHOUT_A_CALL = ("c.h", "stream.h")


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.places, self.links, self.parts = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.places |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in ("img", "script") and values.get("src"):
            self.parts.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "shortcut icon"):
            self.parts.append(values["href"])


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory())) / "site"
        done = subprocess.run([SOURCE_ROOT / "docs/site/make_site", cls.folder, "--build", BUILD_ROOT],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        cls.status, cls.said = done.returncode, done.stdout
        cls.pages = {path.resolve(): Page(path) for path in cls.folder.rglob("*.html")
                     if ".sources" not in path.parts}

    def test_the_generator_has_nothing_to_say(self):
        self.assertEqual((self.status, self.said), (0, ""))

    def test_links_lead_somewhere(self):
        self.assertGreater(len(self.pages), 40)
        dead, followed = [], 0
        for path, page in self.pages.items():
            for link in page.links:
                target = urllib.parse.urlparse(link)
                if target.scheme or target.netloc:
                    continue
                followed += 1
                other = (path.parent / urllib.parse.unquote(target.path)).resolve() if target.path else path
                if not other.is_file():
                    dead.append(f"{path.relative_to(self.folder)}: {link}: no such file")
                elif target.fragment and other in self.pages:
                    if urllib.parse.unquote(target.fragment) not in self.pages[other].places:
                        dead.append(f"{path.relative_to(self.folder)}: {link}: no such place")
        self.assertEqual(dead, [])
        self.assertGreater(followed, 1000)

    def test_pages_need_no_network(self):
        for path, page in self.pages.items():
            for part in page.parts:
                target = urllib.parse.urlparse(part)
                self.assertEqual((target.scheme, target.netloc), ("", ""), f"{path}: {part}")
                self.assertTrue((path.parent / target.path).is_file(), f"{path}: {part}")

    def test_first_page_shows_two_pictures(self):
        self.assertEqual([pathlib.PurePath(part).name for part in
                          self.pages[(self.folder / "docs/index.html").resolve()].parts
                          if part.endswith(".svg")], ["read.svg", "sort.svg"])

    def text_of(self, page):
        text = (self.folder / page).read_text(encoding="utf-8")
        return html.unescape(re.sub(r"<[^>]+>", "", text[text.index("<article"):text.index("</article>")]))

    def test_first_page_has_code_install_lines_and_programs(self):
        text = self.text_of("docs/index.html")
        begin = text[:text.index("What happens when a pointer is read")]
        for part in ("std::strstr(", "meson install -C build", "pkg-config --cflags --libs vortex", "vortex sort --csv",
                     "vortex-sort -t: -k3,3n"):
            self.assertIn(part, begin)

    def test_use_comes_before_measurements(self):
        text = (self.folder / "docs/index.html").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r'<p class="caption"[^>]*><span[^>]*>(\w+)</span>', text),
                         ["Use", "Reference", "Inside", "Measurements"])

    def test_page_of_measurements_has_the_tables_of_the_results(self):
        if (BUILD_ROOT / "performance" / "index.md").exists():
            self.skipTest("a benchmark has made a page of its own")
        text = (self.folder / "performance/index.html").read_text(encoding="utf-8")
        topics = [path for path in (SOURCE_ROOT / "bench" / "results").glob("*.md")
                  if "\n|--" in path.read_text(encoding="utf-8")]
        self.assertGreater(len(topics), 10)
        self.assertEqual(text.count("<table"), len(topics))

    def test_list_of_headers_is_short(self):
        text = (self.folder / "api" / "index.html").read_text(encoding="utf-8")
        lines = re.findall(r"<li><p><a[^>]*><span[^>]*>vortex/\w+\.h</span></a>:(.*?)</p></li>", text, re.S)
        self.assertEqual(len(lines), len(list((SOURCE_ROOT / "include" / "vortex").glob("*.h"))))
        for line in lines:
            self.assertLess(len(line), 300, line)

    def test_reference_has_what_headers_declare(self):
        for header in sorted((SOURCE_ROOT / "include" / "vortex").glob("*.h")):
            page = (self.folder / "api" / f"{header.stem}.html").read_text(encoding="utf-8")
            text = re.sub(r"<[^>]+>", "", page)
            outside = re.sub(r"^namespace detail \{.*?^\}  // namespace detail$", "", header.read_text(encoding="utf-8"),
                             flags=re.M | re.S)
            outside = re.sub(r"//.*", "", outside)
            declared = re.findall(r"^(?:class|struct)(?: VORTEX_EXPORT)? (\w+)(?: : [^{;]*)? \{", outside,
                                  re.MULTILINE)
            for name in declared:
                self.assertIn(name, text, f"{header.name} declares {name}")
            shown = self.text_of(f"api/{header.stem}.html")
            first = shown.index(f"#include <vortex/{header.name}>")
            self.assertLess(first, shown.find("namespace vortex") % len(shown), header.name)
            if header.name not in WITHOUT_A_CALL:
                call = shown[first:].split("namespace vortex")[0]
                self.assertRegex(call, r"\bvortex::\w|VORTEX_", header.name)

    def test_reference_says_what_templates_require(self):
        text = " ".join(self.text_of("api/sort.html").split())
        overloads = re.findall(r"void sort\(std::span<T> records.*?requires (\S+)", text)
        code = re.sub(r"//.*", "", (SOURCE_ROOT / "include/vortex/sort.h").read_text(encoding="utf-8"))
        declared = re.findall(r"\brequires (\S+)(?:(?!\brequires\b).)*?\bvoid sort\(std::span<T> records", code, re.S)
        self.assertEqual(overloads, declared)
        self.assertGreater(len(overloads), 2)
        self.assertNotIn("answered at compile time", text)


if __name__ == "__main__":
    missing = [tool for tool in ("sphinx-build", "doxygen", "mandoc") if not shutil.which(tool)]
    if missing:
        print(f"without {', '.join(missing)} there is no site (./dev setup installs them)")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
