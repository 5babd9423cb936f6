"""Constructions of models do not depend on who runs them, and go on where they were stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from model_examples import (
    PAIRS_OF_SMALL,
    QUICK,
    identity,
    own_matrices,
    quick_digest,
    small,
)

from strongticket import construct
from strongticket.construct.models.job import Job

transformers = pytest.importorskip("transformers")


pytestmark = pytest.mark.usefixtures("one_thread")


class TestRuns:
    @pytest.fixture
    def ran(self, monkeypatch):
        """The names of the pairs that were made, not loaded."""
        quick_digest()
        names, run = [], Job.run
        monkeypatch.setattr(Job, "run", lambda job: names.append(job.name) or run(job))
        return names

    @pytest.mark.parametrize("where", [{"workers": 2}, {}, {"workers": 2, "backend": "loky"}], ids=str)
    def test_masks_do_not_depend_on_where_they_are_found(self, where, tmp_path):
        assert identity(construct.model(small(), folder=tmp_path, **where, **QUICK)) == quick_digest()

    def test_another_seed_gives_other_masks_and_weights(self):
        one, other = (construct.model(small(), seed=seed, **QUICK) for seed in (0, 1))
        for pair in one.pairs:
            sides = [(one.entries[name], other.entries[name]) for name in (pair.first, pair.second)]
            assert any(not np.array_equal(a.bits, b.bits) for a, b in sides)
            assert all(one.source_digests()[n] != other.source_digests()[n] for n in (pair.first, pair.second))

    def test_another_name_gives_other_weights(self):
        ticket = construct.model(small(), name="mine", **QUICK)
        assert all(entry.source.name == f"mine/{name}" for name, entry in ticket.entries.items())
        assert not set(ticket.source_digests().values()) & set(quick_digest()[1].values())

    def test_progress_counts_all_entries_found_or_loaded(self, tmp_path):
        wanted = sum(matrix.size for matrix in own_matrices(small()).values())
        for _ in range(2):
            counted = []
            construct.model(small(), folder=tmp_path, progress=counted.append, **QUICK)
            assert sum(counted) == wanted
            assert len(counted) == PAIRS_OF_SMALL

    def test_nothing_is_done_twice(self, ran, tmp_path):
        for folder, expected in ((tmp_path, PAIRS_OF_SMALL), (tmp_path, 0), (None, PAIRS_OF_SMALL)):
            ran.clear()
            assert identity(construct.model(small(), folder=folder, **QUICK)) == quick_digest()
            assert len(set(ran)) == len(ran) == expected

    def test_damaged_parts_are_made_again(self, ran, tmp_path):
        construct.model(small(), folder=tmp_path, **QUICK)
        parts = sorted(tmp_path.iterdir())
        assert len(parts) == PAIRS_OF_SMALL
        whole = [path.read_bytes() for path in parts]
        parts[0].unlink()
        parts[1].write_bytes(b"")
        parts[2].write_bytes(whole[2][: len(whole[2]) // 2])
        parts[3].write_bytes(b"nothing of the kind")
        parts[4].write_bytes(whole[4].replace(b"max_error", b"min_error"))
        spoilt = bytearray(whole[5])
        spoilt[spoilt.index(b"NUMPY") + 127] ^= 1
        parts[5].write_bytes(spoilt)
        ran.clear()
        assert identity(construct.model(small(), folder=tmp_path, **QUICK)) == quick_digest()
        assert len(ran) == 6
        ran.clear()
        construct.model(small(), folder=tmp_path, **QUICK)
        assert ran == []

    @pytest.mark.parametrize(
        "change", [{"seed": 1}, {"refine": 1}, {"items": 5}, {"name": "other"}, {"tol": 1.0}], ids=str
    )
    def test_other_settings_do_not_meet_old_parts(self, ran, tmp_path, change):
        construct.model(small(), folder=tmp_path, **QUICK)
        ran.clear()
        settings = QUICK | change
        found = construct.model(small(), folder=tmp_path, **settings)
        assert len(ran) == PAIRS_OF_SMALL
        assert identity(found) == identity(construct.model(small(), **settings))

    def test_only_what_changed_is_made_again(self, ran, tmp_path):
        construct.model(small(), folder=tmp_path, **QUICK)
        ran.clear()
        model = small()
        model.transformer.h[1].mlp.c_fc.bias.data[0] += 0.01
        model.transformer.wte.weight.data += 1.0
        construct.model(model, folder=tmp_path, **QUICK)
        assert ran == ["transformer.h.1.mlp.c_fc"]
        ran.clear()
        construct.model(small(), folder=tmp_path, **QUICK | {"layers": "attention"})
        assert ran == []

    def test_a_failure_leaves_what_was_finished(self, monkeypatch, tmp_path):
        run, failing = Job.run, "transformer.h.1.mlp.c_proj"

        def fail(job):
            if job.name == failing:
                raise RuntimeError("out of luck")
            return run(job)

        monkeypatch.setattr(Job, "run", fail)
        with pytest.raises(RuntimeError, match="out of luck"):
            construct.model(small(), folder=tmp_path, workers=1, **QUICK)
        monkeypatch.undo()
        assert len(list(tmp_path.glob("*.npz"))) == PAIRS_OF_SMALL - 1
        assert identity(construct.model(small(), folder=tmp_path, **QUICK)) == quick_digest()

    def test_a_killed_run_goes_on(self, ran, tmp_path):
        command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(tmp_path)]
        process = subprocess.Popen(command)
        try:
            deadline = time.monotonic() + 120
            while not list(tmp_path.glob("*.npz")):
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.02)
        finally:
            process.kill()
        assert process.wait() == -signal.SIGKILL
        left = len(list(tmp_path.glob("*.npz")))
        assert 1 <= left <= 3
        assert identity(construct.model(small(), folder=tmp_path, **QUICK)) == quick_digest()
        assert len(ran) == PAIRS_OF_SMALL - left


KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from model_examples import QUICK, small
from strongticket import construct
from strongticket.construct.models.job import Job
run, begun = Job.run, []

def run_three(job):
    begun.append(job)
    if len(begun) > 3:
        time.sleep(600)
    return run(job)

Job.run = run_three
construct.model(small(), folder=Path(sys.argv[2]), workers=1, **QUICK)
"""
