"""The number of problems solved side by side depends on the processor; the masks do not."""

import json
import os
import subprocess
import sys

from strongticket.subsetsum import solve
from strongticket.subsetsum.backends.vector import LANES
from strongticket.subsetsum.problems import random_problems

ITEMS = (6, 9, 16, 21)
WITH_OTHER_LANES = """
import llvmlite.binding

host = llvmlite.binding.get_host_cpu_features
llvmlite.binding.get_host_cpu_features = lambda: {"avx512f": not host().get("avx512f")}
import strongticket.subsetsum.backends.vector as vector
llvmlite.binding.get_host_cpu_features = host

import json
from test_subsetsum_lanes import solved
print(json.dumps([vector.LANES, solved()]))
"""


def solved():
    solutions = [solve(*random_problems(37, items, seed=items), threads=1) for items in ITEMS]
    return [[s.masks.tolist(), [r.hex() for r in s.residuals.tolist()]] for s in solutions]


def test_four_and_eight_lanes_find_the_same_masks(tmp_path):
    environment = dict(os.environ, NUMBA_CACHE_DIR=str(tmp_path), PYTHONPATH=os.path.dirname(__file__))
    run = subprocess.run(
        [sys.executable, "-c", WITH_OTHER_LANES], env=environment, capture_output=True, text=True, check=True
    )
    lanes, found = json.loads(run.stdout)
    assert {lanes, LANES} == {4, 8}
    assert found == solved()
