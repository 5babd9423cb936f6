"""Random damage: every mutated ticket is refused, or is the same ticket; none costs much memory."""

from __future__ import annotations

import json
import random
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hostile import CONFIG, TENSORS, Parts, valid_ticket
from test_hostile_models import valid_model

from strongticket.ticket import Ticket, TicketError

if TYPE_CHECKING:
    from pathlib import Path

INTERESTING = [b"\0", b"\xff", b'"', b"{", b"}", b"[", b"]", b",", b"-", b"9", b"e9", b"null", b"\\u0000", b"1e400"]
VALUES = [None, True, -1, 0, 1, 2**31, 2**63, 2**70, 0.5, -0.0, 1e308, "", "x", "../x", [], {}, [1], {"a": 1}]


def mutated(content: bytes, rng: random.Random) -> bytes:
    """One to three small changes of any kind."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(data) + 1) if rng.random() < 0.7 else min(len(data), rng.randrange(3000))
        length = rng.choice([1, 1, 2, 8, 64])
        match rng.randrange(7):
            case 0 | 1:
                if at < len(data):
                    data[at] ^= 1 << rng.randrange(8)
            case 2:
                data[at : at + 1] = rng.choice(INTERESTING)
            case 3:
                del data[at : at + length]
            case 4:
                data[at:at] = rng.randbytes(length)
            case 5:
                start = rng.randrange(len(data) + 1)
                data[at : at + length] = data[start : start + length]
            case 6:
                del data[at:]
    return bytes(data)


def changed(value, rng: random.Random):
    """``value`` with one of its parts replaced, removed or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        match rng.randrange(8):
            case 0:
                return {k: v for k, v in value.items() if k != key}
            case 1:
                return value | {rng.choice(["x", "law", "part", key + "x"]): rng.choice(VALUES)}
            case _:
                return value | {key: changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], changed(value[at], rng), *value[at + 1 :]]
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice([-1, 1, 8, 2**20])
    return rng.choice(VALUES)


def bytes_fuzz(folder: Path, rounds: int, seed: int) -> int:
    rng = random.Random(seed)
    wanted = valid_ticket()
    model = 4 * sum(entry.source.size for entry in wanted.entries.values())
    parameters = {name: array.tobytes() for name, array in wanted.parameters().items()}
    originals = {}
    for compress in (False, True):
        place = folder / str(compress)
        Parts(wanted, compress=compress).write(place)
        originals[place] = {name: (place / name).read_bytes() for name in (CONFIG, TENSORS)}
        Ticket.from_pretrained(place)
    loaded = 0
    tracemalloc.start()
    try:
        for turn in range(rounds):
            place = rng.choice(sorted(originals))
            name = rng.choice([CONFIG, TENSORS, TENSORS, TENSORS])
            content = mutated(originals[place][name], rng)
            (place / name).write_bytes(content)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                ticket = Ticket.from_pretrained(place)
                loaded += 1
            except TicketError:
                ticket = None
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak <= 2 * model, (turn, peak, model)
            if ticket is not None:
                assert ticket.digest == wanted.digest, turn
                assert ticket.architecture == wanted.architecture, turn
                assert ticket.finder == wanted.finder, turn
                assert {k: v.tobytes() for k, v in ticket.parameters().items()} == parameters, turn
            (place / name).write_bytes(originals[place][name])
    finally:
        tracemalloc.stop()
    return loaded


def fields_fuzz(folder: Path, rounds: int, seed: int) -> None:
    """Change fields and seal the configuration again, as a stranger would."""
    rng = random.Random(seed)
    start = Parts(compress=True)
    original = json.dumps(start.config)
    for _ in range(rounds):
        parts = start
        parts.config, parts.config_text = changed(json.loads(original), rng), None
        parts.write(folder)
        try:
            ticket = Ticket.from_pretrained(folder, max_bytes=1 << 20)
        except TicketError:
            continue
        assert ticket.digest == parts.config["digest"]
        assert all(check.ok for check in ticket.verify().masks)


def models_fuzz(folder: Path, rounds: int, seed: int) -> int:
    """Change the settings of a Hugging Face model: what loads can be built, or is refused."""
    rng = random.Random(seed)
    parts = Parts(valid_model(), compress=False)
    original, built = json.dumps(parts.config), 0
    for _ in range(rounds):
        parts.config, parts.config_text = json.loads(original), None
        parts.config["architecture"] = changed(parts.config["architecture"], rng)
        parts.write(folder)
        try:
            Ticket.from_pretrained(folder, verify=False, max_bytes=1 << 20).module("merged")
            built += 1
        except TicketError:
            continue
    return built


def test_mutated_bytes(tmp_path):
    loaded = bytes_fuzz(tmp_path, 2000, seed=0)
    assert loaded < 200


def test_mutated_fields(tmp_path):
    fields_fuzz(tmp_path, 500, seed=0)


def test_mutated_models(tmp_path):
    assert models_fuzz(tmp_path, 300, seed=0) > 0


@pytest.mark.slow
def test_mutated_bytes_at_length(tmp_path):
    bytes_fuzz(tmp_path, 20_000, seed=1)


@pytest.mark.slow
def test_mutated_fields_at_length(tmp_path):
    fields_fuzz(tmp_path, 10_000, seed=1)
