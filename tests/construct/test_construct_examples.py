"""The examples in the docstrings run and are right."""

import doctest
import importlib
import pkgutil

import pytest

from strongticket import construct

MODULES = [module.name for module in pkgutil.walk_packages(construct.__path__, "strongticket.construct.")]
WITH_EXAMPLES = {
    f"strongticket.construct.{name}"
    for name in (
        "attention",
        "draw",
        "linear",
        "relu",
        "targets.attention",
        "targets.torch_attention",
        "targets.transformer",
        "transformer",
    )
}


@pytest.mark.parametrize("module", MODULES)
def test_examples(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.failed == 0
    assert result.attempted > 0 or module not in WITH_EXAMPLES


def test_all_are_there():
    assert set(MODULES) >= WITH_EXAMPLES
