"""A Dask cluster by its address."""

import doctest
import os
import sys

import joblib
import pytest

from strongticket import cluster
from strongticket.cluster import check_cluster, connected


def test_examples():
    result = doctest.testmod(cluster)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("address", [None, "dask://localhost:8786", "dask://10.0.0.1:1"])
def test_addresses(address):
    check_cluster(address)


@pytest.mark.parametrize(
    "address", ["", "localhost:8786", "dask://localhost", "dask://:1", "dask://a:b", "dask://a:1/x", "tcp://a:1"]
)
def test_wrong_addresses_are_refused(address):
    with pytest.raises(ValueError, match=r"a cluster is given as dask://HOST:PORT, got '"):
        check_cluster(address)


def test_work_runs_on_the_cluster_while_the_context_lasts():
    distributed = pytest.importorskip("distributed", reason="needs the extra strongticket[dask]")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", dashboard_address=":0"
    ) as local:
        (worker,) = local.workers.values()
        with connected(local.scheduler_address.replace("tcp://", "dask://")):
            found = joblib.Parallel()(joblib.delayed(os.path.join)("a", str(number)) for number in range(3))
            assert type(joblib.parallel.get_active_backend()[0]).__name__ == "DaskDistributedBackend"
        assert found == [f"a/{number}" for number in range(3)]
        assert worker.state.executed_count >= 1
    assert type(joblib.parallel.get_active_backend()[0]).__name__ != "DaskDistributedBackend"


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'strongticket\[dask\]'"), connected("dask://h:1"):
        pytest.fail("connected")
