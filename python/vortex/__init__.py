"""Arrays, files and streams sorted at the speed of the machine, in the memory that you name.

sort(), sorted(), argsort(), sort_by_key(), select() and unique() are for arrays in memory; sort_file(),
sort_table() and Sorter for what memory does not hold; open(), create() and blocks() make arrays of files that are
larger than memory. docs/python.md in the source has an example of each.
"""

from ._arrays import argsort, select, sort, sort_by_key, sorted, unique  # noqa: A004
from ._core import version as __version__
from ._files import Array, blocks, create, open  # noqa: A004
from ._sorts import SortReport, Sorter, sort_file
from ._tables import sort_table

__all__ = [
    "Array",
    "SortReport",
    "Sorter",
    "__version__",
    "argsort",
    "blocks",
    "create",
    "open",
    "select",
    "sort",
    "sort_by_key",
    "sort_file",
    "sort_table",
    "sorted",
    "unique",
]
