from __future__ import annotations

import pytest
from report_samples import make_sample_store


@pytest.fixture(scope="session")
def sample_results(tmp_path_factory):
    """A folder with small results of every figure that needs no search."""
    return make_sample_store(tmp_path_factory.mktemp("results"))
