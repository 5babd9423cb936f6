"""Fixtures that several folders share."""

from __future__ import annotations

import pytest


@pytest.fixture
def one_thread():
    """Small tensors gain nothing from torch's threads, and sums depend on how they are split between them."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
