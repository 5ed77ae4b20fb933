"""Arrays, files and streams sorted at the speed of the machine, in the memory that you name.

sort(), sorted(), argsort(), sort_by_key(), select() and unique() are for arrays in memory; sort_file(),
sort_table(), merge(), partition(), check() and Sorter for what memory does not hold; open(), create() and blocks()
make arrays of files that are larger than memory. docs/python.md in the source has an example of each.
"""

from ._arrays import argsort, select, sort, sort_by_key, sorted, unique  # noqa: A004
from ._core import version as __version__
from ._files import Array, StreamError, blocks, engine, open, use_engine, write  # noqa: A004
from ._new_files import create
from ._partition import partition
from ._records import merge_arrays
from ._sort_forms import SortReport
from ._sorts import Disorder, Sorter, check, merge, sort_file
from ._tables import sort_table

__all__ = [
    "Array",
    "Disorder",
    "SortReport",
    "Sorter",
    "StreamError",
    "__version__",
    "argsort",
    "blocks",
    "check",
    "create",
    "engine",
    "merge",
    "merge_arrays",
    "open",
    "partition",
    "select",
    "sort",
    "sort_by_key",
    "sort_file",
    "sort_table",
    "sorted",
    "unique",
    "use_engine",
    "write",
]
