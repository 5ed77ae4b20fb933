"""A cluster of Ray in one machine, as the tests and `./dev bench ray` want it."""

import os

from ray.cluster_utils import Cluster

# No telemetry, and no token in the user's folder.
VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}


class Nodes:
    """Some with a processor and `store` bytes each, and a head that runs nothing."""

    def __init__(self, count, store, spilled):
        self._store = store
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "object_store_memory": 80 << 20,
                "include_dashboard": False,
                "object_spilling_directory": os.fspath(spilled),
                # Lost nodes are missed soon.
                "_system_config": {
                    "health_check_initial_delay_ms": 0,
                    "health_check_period_ms": 500,
                    "health_check_failure_threshold": 4,
                },
            },
        )
        self.nodes = [self.add() for _ in range(count)]

    def add(self):
        return self.cluster.add_node(num_cpus=1, object_store_memory=self._store)

    def remove_one(self):
        self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)
