"""Compilation is announced once, cached, and not announced again."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import numpy as np
from strongticket.subsetsum import solve
rng = np.random.default_rng(0)
for _ in range(2):
    solve(rng.uniform(-1, 1, (40_000, 6)), rng.uniform(-1, 1, 40_000), threads=2)
"""


def test_announced_for_the_first_process_only(tmp_path):
    def run():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", SCRIPT]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr

    first = run().splitlines()
    assert len(first) == 1
    assert first[0].startswith("strongticket: compiling solve_exact (once")
    assert run() == ""
