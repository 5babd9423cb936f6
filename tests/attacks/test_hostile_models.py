"""Tickets of kind "model" from a stranger: refused by the field at fault, when loaded or at the latest when built."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from hostile import TENSORS, Parts, refused

from strongticket import Normal, Source, Uniform
from strongticket.ticket import Ticket, TicketError, structures

SIZES = {"wte.weight": (7, 4), "wpe.weight": (5, 4)}
SIZES |= {f"{layer}.{part}": (4,) for layer in ("h.0.ln_1", "h.0.ln_2", "ln_f") for part in ("weight", "bias")}
HEADS = ("h.0.attn.heads.0", "h.0.attn.heads.1")
LINEARS = ("h.0.mlp.c_fc", "h.0.mlp.c_proj")


def valid_model(n: int = 20) -> Ticket:
    """A GPT-2 of one block."""
    rng = np.random.default_rng(0)
    entries = {}
    for at in HEADS:
        for first, second, inputs, outputs in (("key", "query", 4, 5), ("value", "output", 5, 4)):
            entries |= pair(f"{at}.{first}", f"{at}.{second}", n, inputs, outputs, rng)
    for path, inputs, outputs in zip(LINEARS, (5, 7), (6, 4), strict=True):
        entries |= pair(f"{path}.first", f"{path}.second", n, inputs, outputs, rng)
    kept = {name: rng.random(shape).astype(np.float32) for name, shape in SIZES.items()}
    config = {"n_embd": 4, "n_inner": 6, "n_head": 2, "n_layer": 1, "vocab_size": 7, "n_positions": 5}
    config |= {"bos_token_id": 0, "eos_token_id": 0}
    architecture = {"kind": "model", "class": "GPT2Model", "config": config, "tied": {}, "layers": "all"}
    return Ticket(entries, kept, architecture, {"name": "test"})


def pair(first, second, n, inputs, outputs, rng):
    return {
        first: (Source(1, first, (n, inputs), Uniform(0.5)), np.arange(inputs) == rng.integers(0, inputs, n)[:, None]),
        second: (Source(1, second, (outputs, n), Normal(0.5)), rng.random((outputs, n)) < 0.5),
    }


def model_parts() -> Parts:
    return Parts(valid_model(), compress=False)


def empty(parts: Parts, name: str, shape: list[int], count: int = 0) -> None:
    """A mask of any shape in no bytes at all: none or all of its weights are kept."""
    parts.source(name)["shape"] = shape
    parts.mask(name).update(encoding="range", count=count)
    parts.tensors[f"masks/{name}"] = ("U32", [0], b"")


def build_refused(ticket: Ticket, field: str, *, limit: int = 16 << 20, **options) -> None:
    """Build, expecting a refusal that starts with ``field``, soon and without large allocations."""
    start = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(TicketError) as caught:
            ticket.module(**options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(field), str(caught.value)
    assert peak < limit, peak
    assert time.perf_counter() - start < 10


def test_the_unchanged_ticket_loads(tmp_path):
    model_parts().write(tmp_path)
    ticket = Ticket.from_pretrained(tmp_path)
    assert ticket.digest == valid_model().digest
    for mode in ("pruned", "merged"):
        assert ticket.module(mode).config.n_layer == 1


SETTINGS = [
    ("class", "os.system"),
    ("class", "LlamaForCausalLM"),
    ("class", ["GPT2Model"]),
    ("class", None),
    ("layers", None),
    ("layers", "everything"),
    ("layers", ["all"]),
    ("config", None),
    ("config", {"n_layer": 10**9, "n_head": 2}),
    ("config", {"n_layer": 0, "n_head": 2}),
    ("config", {"n_layer": -1, "n_head": 2}),
    ("config", {"n_layer": None, "n_head": 2}),
    ("config", {"n_layer": 1, "n_head": 10**9}),
    ("config", {"n_layer": 1, "n_head": 0}),
    ("config", {"n_layer": 1, "n_head": True}),
    ("config", {"n_layer": 1, "n_head": [2]}),
    ("config", {"n_layer": 1, "n_head": 2, "add_cross_attention": True}),
    ("config", {"n_layer": 1, "n_head": 2, "add_cross_attention": "yes"}),
    ("config", {"n_layer": 1, "n_head": 2, "attn_implementation": "someone/kernel"}),
    ("config", {"n_layer": 1, "n_head": 2, "n_inner": {"a": [1]}}),
    ("config", {"n_layer": 1, "n_head": 2, "vocab_size": 2**60}),
    ("tied", {"lm_head.weight": "nothing"}),
    ("tied", {"lm_head.weight": "h.0.attn.heads.0.key"}),
    ("tied", {"../x": "wte.weight"}),
    ("extra", 1),
]


@pytest.mark.parametrize(("key", "value"), SETTINGS, ids=str)
def test_settings(key, value, tmp_path):
    parts = model_parts()
    parts.config["architecture"][key] = value
    parts.write(tmp_path)
    refused(tmp_path, f"architecture.{key}" if key != "extra" else "architecture.'extra'")


@pytest.mark.parametrize("depth", [5, 17, 100_000])
def test_deep_settings(depth, tmp_path):
    parts = model_parts()
    parts.config["architecture"]["config"]["n_inner"] = "DEEP"
    parts.write(tmp_path)
    parts.config_text = parts.config_text.replace('"DEEP"', "[" * depth + "]" * depth)
    parts.write(tmp_path, seal=False)
    refused(tmp_path, ("config", TENSORS, "architecture.config.n_inner"), limit=64 << 20)


@pytest.mark.parametrize("heads", [1, 3, 6])
def test_head_count(heads, tmp_path):
    parts = model_parts()
    parts.config["architecture"]["config"]["n_head"] = heads
    parts.write(tmp_path)
    refused(tmp_path, "masks.h.0.attn.heads.")


def test_block_count(tmp_path):
    parts = model_parts()
    parts.config["architecture"]["config"]["n_layer"] = 2
    parts.write(tmp_path)
    refused(tmp_path, "masks.h.1.attn.heads.0.key: is missing")


def test_layers_that_the_masks_do_not_fit(tmp_path):
    parts = model_parts()
    parts.config["architecture"]["layers"] = "attention"
    parts.write(tmp_path)
    refused(tmp_path, "masks.h.0.mlp.c_fc.first: is no parameter")


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("h.0.attn.heads.1.key", [20, 5]),
        ("h.0.attn.heads.1.key", [21, 4]),
        ("h.0.attn.heads.1.query", [4, 20]),
        ("h.0.attn.heads.0.value", [20, 4]),
        ("h.0.attn.heads.0.output", [5, 20]),
        ("h.0.attn.heads.0.output", [5, 20, 1]),
        ("h.0.mlp.c_fc.first", [20, 4]),
        ("h.0.mlp.c_fc.second", [7, 20]),
        ("h.0.mlp.c_proj.first", [20, 2**40]),
        ("h.0.mlp.c_proj.second", [5, 20]),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit(name, shape, tmp_path):
    parts = model_parts()
    empty(parts, name, shape)
    parts.write(tmp_path)
    refused(tmp_path, "masks.h.0.")


def test_many_hidden_units_in_a_tiny_file_meet_the_limit(tmp_path):
    parts = model_parts()
    for n in (1 << 36, 1 << 58):
        empty(parts, "h.0.attn.heads.0.key", [n, 4])
        empty(parts, "h.0.attn.heads.0.query", [5, n])
        parts.config_text = None
        parts.write(tmp_path)
        assert "max_bytes" in str(refused(tmp_path, "masks: the ticket takes"))


@pytest.mark.parametrize("count", ["none", "all"])
def test_many_hidden_units_are_refused_before_they_are_sorted(count, tmp_path):
    """Packed masks of 3 MB that would be 90 MB of weights; all kept, or none."""
    n = 5 << 20
    ticket = valid_model()
    entries = dict(ticket.entries)
    for name, shape in (("h.0.attn.heads.0.key", (n, 4)), ("h.0.attn.heads.0.query", (5, n))):
        source = Source(1, name, shape, Uniform(0.5))
        bits = np.full(-(-source.size // 8), 255 if count == "all" else 0, np.uint8)
        entries[name] = type(ticket.entries[name])(source, bits)
    hostile = Ticket(entries, ticket.kept, ticket.architecture)
    for mode in ("pruned", "merged"):
        build_refused(hostile, "masks: sorting the hidden units takes", mode=mode, max_bytes=64 << 20)
    if count == "all":
        build_refused(hostile, "masks.h.0.attn.heads.0.key: the pair", mode="merged", limit=64 << 20)


def test_padding_is_counted():
    """One crowded group makes every group as large: little to draw, but much to allocate."""
    ticket, n = valid_model(), 1 << 16
    entries = dict(ticket.entries)
    served = np.arange(7) == np.zeros((n, 1))
    entries["h.0.mlp.c_proj.first"] = Source(1, "first", (n, 7), Uniform(0.5)), served
    entries["h.0.mlp.c_proj.second"] = Source(1, "second", (4, n), Uniform(0.5)), np.ones((4, n))
    hostile = Ticket(entries, ticket.kept, ticket.architecture)
    needed = 4 * 7 * n * 5
    assert hostile.module("merged", max_bytes=needed).config.n_layer == 1
    build_refused(hostile, "masks: the pruned model takes", max_bytes=needed)


def test_settings_that_fit_no_tensor():
    ticket = valid_model()
    for change in (
        {"n_positions": 10**12},
        {"vocab_size": 2**40},
        {"n_embd": 6},
        {"n_embd": 2**40},
        {"n_inner": 2**40},
        {"n_inner": None},
        {"n_inner": 0},
        {"activation_function": "none"},
        {"n_embd": 5},
    ):
        architecture = ticket.architecture | {"config": ticket.architecture["config"] | change}
        hostile = Ticket(ticket.entries, ticket.kept, architecture)
        for mode in ("pruned", "merged"):
            build_refused(hostile, ("architecture.config", "masks.h.0.mlp.c_fc"), mode=mode)


def test_kept_parameters_that_the_class_does_not_have(tmp_path):
    parts = model_parts()
    parts.config["kept"]["h.0.attn.c_attn.weight"] = {"dtype": "F32", "shape": [4, 12], "constant": True}
    parts.write(tmp_path)
    refused(tmp_path, "kept.h.0.attn.c_attn.weight: is replaced")
    ticket = valid_model()
    build_refused(
        Ticket(ticket.entries, {**ticket.kept, "h.0.attn.bias": np.zeros(3)}, ticket.architecture),
        "architecture.config: has no parameter h.0.attn.bias",
    )


def test_many_names_take_little_time():
    """Names are looked up, not compared with one another: 5000 blocks with 20 000 replaced layers, 50 000 names."""
    blocks = 5000
    shapes = {"key": (1, 1), "query": (2, 1), "value": (1, 2), "output": (1, 1)}
    masked = {f"h.{block}.attn.heads.0.{part}": shape for block in range(blocks) for part, shape in shapes.items()}
    kept = {f"h.{name}.x.y": (1,) for name in range(10 * blocks)}
    config = {"n_layer": blocks, "n_head": 1}
    architecture = {"kind": "model", "class": "GPT2Model", "config": config, "tied": {}, "layers": "attention"}
    start = time.perf_counter()
    assert len(structures.check(architecture, masked, kept)) == 2 * blocks
    assert time.perf_counter() - start < 5


def test_parts(tmp_path):
    parts = model_parts()
    name = "h.0.mlp.c_fc.first"
    parts.config["masks"]["x"] = parts.config["masks"].pop(name)
    parts.config["masks"]["x"]["part"] = {"parameter": name, "axis": 0, "start": 0}
    parts.write(tmp_path)
    refused(tmp_path, "masks.x.part: the matrices of a 'model' have one source each")
