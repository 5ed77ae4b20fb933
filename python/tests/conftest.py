import os
import random

import numpy as np
import pytest


@pytest.fixture
def rng(request):
    """Random numbers; the seed is printed with a failure, and VORTEX_TEST_SEED repeats it."""
    seed = int(os.environ.get("VORTEX_TEST_SEED", random.randrange(1 << 32)))
    print(f"seed: VORTEX_TEST_SEED={seed}")
    return np.random.default_rng(seed)
