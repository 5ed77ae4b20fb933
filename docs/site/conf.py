# How Sphinx makes the site; make_site lays its sources out.
import logging

from pygments.lexers.special import TextLexer

project = "vortex"
author = "the vortex authors"
html_title = "vortex"
root_doc = "docs/index"

extensions = ["myst_parser", "breathe"]
include_patterns = ["*.md", "docs/*.md", "docs/decisions/*.md", "bench/results/*.md", "api/*.md",
                    "manual/*.md", "performance/*.md"]

# Headings are link targets to the depth to which documents link.
myst_heading_anchors = 4
# Documents link to source files, which are no part of the site.
suppress_warnings = ["myst.xref_missing"]

breathe_default_project = "vortex"
cpp_id_attributes = ["VORTEX_EXPORT"]
highlight_language = "text"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False


class OneNamespace(logging.Filter):
    """Every header's page declares the namespace; Sphinx warns of all but the first."""

    def filter(self, record):
        return not (record.getMessage().startswith("Duplicate C++ declaration")
                    and record.getMessage().rstrip().endswith("'.. cpp:type:: vortex'."))


# Pages that list others: the site knows these as theirs, and shows them when one opens the list.
LISTS = {"docs/decisions/README": "0*", "bench/results/README": "[a-z]*"}


def add_children(_, name, source):
    if name in LISTS:
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{LISTS[name]}\n```\n"


def setup(app):
    app.connect("source-read", add_children)
    app.add_lexer("gdb", TextLexer)
    logging.getLogger("sphinx.sphinx.domains.cpp").addFilter(OneNamespace())
