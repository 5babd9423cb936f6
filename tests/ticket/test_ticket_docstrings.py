"""The examples in the docstrings run and are right."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "ticket",
        "ticket.checks",
        "ticket.compare",
        "ticket.entry",
        "ticket.errors",
        "ticket.huggingface",
        "ticket.packing",
        "ticket.ticket",
        "construct.tickets",
    ],
)
def test_examples(module):
    result = doctest.testmod(importlib.import_module(f"strongticket.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
