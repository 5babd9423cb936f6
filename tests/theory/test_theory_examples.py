"""The examples in the docstrings run and are right."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    ["affine", "bounds", "calibrate", "certificate", "layers", "norms", "practice", "softmax", "widths"],
)
def test_examples(module):
    result = doctest.testmod(importlib.import_module(f"strongticket.theory.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
