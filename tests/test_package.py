"""Importing the package is cheap, and its public names are there."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import strongticket


@pytest.mark.parametrize("module", ["strongticket", "strongticket.cli", "strongticket.subsetsum"])
def test_import_loads_neither_torch_nor_numba(module):
    run = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"torch", "numba", "gurobipy", "highspy", "ortools"}.isdisjoint(run.stdout.split())


def test_import_of_the_package_does_not_even_load_numpy():
    code = "import sys, strongticket; print('numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_public_names():
    for name in strongticket.__all__:
        assert getattr(strongticket, name) is not None
    assert set(strongticket.__all__) <= set(dir(strongticket))
    assert strongticket.solve is strongticket.subsetsum.solve


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'strongticket' has no attribute 'ticket_to_ride'"):
        strongticket.ticket_to_ride  # noqa: B018


def test_version():
    from importlib.metadata import version

    assert re.match(r"\d+\.\d+\.\d+", strongticket.__version__)
    assert version("strongticket") == strongticket.__version__
