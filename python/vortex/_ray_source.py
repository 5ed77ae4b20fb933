"""What Ray reads when somebody asks for the rows of a sorted Dataset."""

from __future__ import annotations

import functools
from typing import Any

from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from ._ray_dataset import Sorting, _merged

_UNKNOWN = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)


class SortedSource(Datasource):
    """Parts that do not exist before they are read. Ray asks for the tasks several times while it plans, and once
    when it runs them, which it shows by the context."""

    def __init__(self, sorting: Sorting) -> None:
        super().__init__()
        self._sorting = sorting

    def get_name(self) -> str:
        return "SortedByVortex"

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        parts = [[]] * parallelism if data_context is None else self._sorting.parts()
        return [
            ReadTask(functools.partial(_merged, part), _UNKNOWN, self._sorting.schema, per_task_row_limit)
            for part in parts
        ]
