"""The examples in the docstrings run and are right."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "",
        ".corpora",
        ".drawing",
        ".extra",
        ".finders.edge_popup",
        ".finders.selecting",
        ".finders.sigmoid",
        ".layers",
        ".regions",
        ".settings",
        ".training",
    ],
)
def test_examples(module):
    result = doctest.testmod(importlib.import_module(f"strongticket.search{module}"))
    assert result.attempted > 0
    assert result.failed == 0
