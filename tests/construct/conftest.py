"""Fixtures of the tests of constructions."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def one_thread():
    """Small tensors gain nothing from threads, and results must not depend on how many cores there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
