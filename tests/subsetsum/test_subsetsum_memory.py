"""Memory stays bounded however many problems there are."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import contextlib, json, sys
from pathlib import Path
from strongticket.subsetsum import solve
from strongticket.subsetsum.problems import random_problems
def peak():
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
items, targets = random_problems(int(sys.argv[1]), int(sys.argv[2]), seed=0)
solve(items[:100], targets[:100])
with contextlib.suppress(OSError):
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
before = peak()
solution = solve(items, targets, tol=float(sys.argv[3]))
result = solution.masks.nbytes + solution.residuals.nbytes
print(json.dumps({"before": before, "after": peak(), "result": result}))
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")


def memory(problems, items, tol=0.0):
    command = [sys.executable, "-c", SCRIPT, str(problems), str(items), str(tol)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(("items", "tol"), [(16, 0.0), (24, 1e-2)])
def test_a_matrix_of_768_by_768(items, tol):
    used = memory(768 * 768, items, tol)
    assert used["after"] < 1.5e9
    assert used["after"] - used["before"] < used["result"] + 100e6


@pytest.mark.slow
def test_a_matrix_of_768_by_768_with_24_items():
    assert memory(768 * 768, 24)["after"] < 1.5e9
