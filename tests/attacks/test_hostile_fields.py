"""Fields from a stranger: each is refused by one exception that names it, at no cost of memory or time."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hostile import CONFIG, TENSORS, Parts, refused, valid_ticket

from strongticket.ticket import Ticket, TicketError


def test_the_unchanged_ticket_loads(tmp_path):
    Parts().write(tmp_path)
    assert Ticket.from_pretrained(tmp_path).digest == valid_ticket().digest
    encodings = {mask["encoding"] for mask in Parts().config["masks"].values()}
    assert encodings == {"rows", "bits", "range"}


SHAPES = [
    [-1, 200],
    [0, 200],
    [2**70, 200],
    [90, 2**61],
    [],
    [90.0, 200],
    "90x40",
    None,
    [[90], 200],
    [1] * 9,
    [True, 200],
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape, tmp_path):
    parts = Parts()
    parts.source()["shape"] = shape
    parts.write(tmp_path)
    refused(tmp_path, "masks.layers.0.first.source.shape")


def test_enormous_shapes_meet_the_limit(tmp_path):
    parts = Parts()
    rows = 1 << 36
    for name, shape in (("layers.0.first", [rows, 200]), ("layers.0.second", [10, rows])):
        parts.source(name)["shape"] = shape
        parts.mask(name)["encoding"] = "range"
        parts.mask(name)["count"] = 0
        parts.tensors[f"masks/{name}"] = ("U32", [0], b"")
    parts.write(tmp_path)
    error = refused(tmp_path, "masks: the ticket takes")
    assert "max_bytes" in str(error)


FIELDS = [
    ("seed", [-1, 2**64, 1.5, "1", True, None]),
    ("name", ["", 5, None, "x" * 2000, "a\nb", "a\x1b[31m"]),
    ("law", [{}, {"law": "cauchy", "r": 1.0}, {"law": "uniform"}, "uniform", {"law": ["uniform"], "r": 1.0}]),
    ("law", [{"law": "uniform", "r": r} for r in (-1.0, 0.0, 1e-200, 1e300, "1", True, None, [1.0], 0.1, 10**400)]),
    ("law", [{"law": "uniform", "r": 0.5, "extra": 1.0}]),
    ("generator", [{}, "philox", {"name": "mt19937", "version": 1}, {"name": "philox-4x32-10", "version": True}]),
    ("digest", ["", "0" * 63, "G" * 64, None, 5, "A" * 64]),
]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in FIELDS for value in values], ids=str)
def test_sources(field, value, tmp_path):
    parts = Parts()
    parts.source()[field] = value
    parts.write(tmp_path)
    error = refused(tmp_path, "masks.layers.0.first.source")
    assert field in error.field or field in str(error)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_ranges_that_are_not_finite(text, tmp_path):
    parts = Parts()
    parts.source()["law"]["r"] = 0.25
    parts.write(tmp_path)
    parts.config_text = parts.config_text.replace("0.25", text, 1)
    parts.write(tmp_path)
    refused(tmp_path, f"{TENSORS} config: holds")
    os.remove(tmp_path / CONFIG)
    refused(tmp_path, f"{TENSORS} config: holds")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("count", -1),
        ("count", 10**9),
        ("count", 89),
        ("count", 1.0),
        ("encoding", "zip"),
        ("encoding", ["bits"]),
        ("encoding", "columns"),
        ("encoding", "bits"),
        ("encoding", "range"),
        ("part", {"parameter": "layers.0.first", "axis": 0, "start": 5}),
        ("part", {"parameter": "layers.0.first", "axis": 2, "start": 0}),
        ("part", {"parameter": "layers.0.second", "axis": 0, "start": 0}),
        ("part", {"parameter": "../../x", "axis": 0, "start": 0}),
        ("part", None),
        ("unknown", 1),
    ],
)
def test_masks(key, value, tmp_path):
    parts = Parts()
    parts.mask()[key] = value
    parts.write(tmp_path)
    refused(tmp_path, ("masks.layers.0.", f"{TENSORS} masks/layers.0.first"))


NAMES = ["", ".", "..", "../x", "/etc/passwd", "a/../b", "a//b", "a/", "C:\\x", "a b", "a\0b", "ä", "x" * 600, "a\n"]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
@pytest.mark.parametrize("where", ["masks", "kept"])
def test_names(where, name, tmp_path):
    parts = Parts()
    old = "layers.0.first" if where == "masks" else "target/layers.0"
    parts.config[where][name] = parts.config[where].pop(old)
    parts.write(tmp_path)
    refused(tmp_path, where)


HUGGING_FACE = [
    ("class", "os.system"),
    ("class", "LlamaForCausalLM"),
    ("class", None),
    ("config", None),
    ("config", {"n_layer": 10**9}),
    ("config", {"attn_implementation": "someone/kernel"}),
    ("config", {"_attn_implementation": "someone/kernel"}),
    ("config", {"quantization_config": {"quant_method": "gptq"}}),
    ("config", {"auto_map": {"AutoModel": "someone/code--model.Model"}}),
    ("config", {"vocab_size": 2**60}),
    ("config", {"n_embd": {"a": 1}}),
    ("config", {"n_embd": [[1]]}),
    ("tied", {"lm_head.weight": "nothing"}),
    ("tied", {"../x": "wte.weight"}),
    ("tied", []),
    ("extra", 1),
]


@pytest.mark.parametrize(("key", "value"), HUGGING_FACE, ids=str)
def test_hugging_face_settings(key, value, tmp_path):
    parts = Parts()
    parts.config["architecture"] = {
        "kind": "huggingface",
        "class": "GPT2LMHeadModel",
        "config": {"n_layer": 1},
        "tied": {},
        key: value,
    }
    parts.write(tmp_path)
    refused(tmp_path, f"architecture.{key}" if key != "extra" else "architecture.'extra'")


ARCHITECTURES = [
    None,
    [],
    {},
    {"kind": "cnn"},
    {"kind": ["network"]},
    {"kind": "network"},
    {"kind": "network", "nonnegative": []},
    {"kind": "network", "nonnegative": [False]},
    {"kind": "network", "nonnegative": [False, True, True]},
    {"kind": "network", "nonnegative": [False] * 1_000_000},
    {"kind": "network", "nonnegative": [0, 1]},
    {"kind": "linear", "scale": 1.0},
    {"kind": "relu", "nonnegative": "no"},
    {"kind": "attention", "heads": 10**9, "bias": False, "batch_first": True},
    {"kind": "attention", "heads": 1, "bias": False, "batch_first": True},
    {"kind": "transformer", "blocks": []},
    {"kind": "transformer", "blocks": [5]},
    {"kind": "transformer", "blocks": [{"heads": 1, "bias": False, "batch_first": True, "nonnegative": [False]}]},
]


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda value: str(value)[:50])
def test_architectures(architecture, tmp_path):
    parts = Parts()
    parts.config["architecture"] = architecture
    parts.write(tmp_path)
    refused(tmp_path, ("architecture", "masks"), limit=64 << 20)


@pytest.mark.parametrize(
    ("key", "value"),
    [("dtype", "F8"), ("dtype", 5), ("shape", [-1]), ("shape", [10, 201]), ("shape", [2**61, 2**61]), ("constant", 1)],
)
def test_kept(key, value, tmp_path):
    parts = Parts()
    parts.config["kept"]["target/layers.0"][key] = value
    parts.write(tmp_path)
    refused(tmp_path, "kept.target/layers.0")


@pytest.mark.parametrize("finder", [None, {}, {"name": 5}, {"name": "x", "max_error": {"a": "b"}}, {"name": "a\nb"}])
def test_finders(finder, tmp_path):
    parts = Parts()
    parts.config["finder"] = finder
    parts.write(tmp_path)
    refused(tmp_path, "finder")


def test_a_configuration_of_settings_that_fit_no_tensor(tmp_path):
    """Settings that pass the first look, but ask for other tensors than the ticket has."""
    from strongticket import Normal, Source

    source = Source(0, "w", (1000, 1), Normal(1.0))
    architecture = {"kind": "huggingface", "class": "GPT2Model", "config": {}, "tied": {}}
    for config in (
        {"n_layer": 1},
        {"n_layer": 0, "n_positions": 10**12, "n_embd": 12},
        {"activation_function": "none"},
    ):
        architecture["config"] = config | ({"n_layer": 0} if "n_layer" not in config else {})
        Ticket({"w": (source, np.ones(source.shape))}, None, architecture).save_pretrained(tmp_path)
        loaded = Ticket.from_pretrained(tmp_path)
        with pytest.raises(TicketError, match=r"^architecture\.config: "):
            loaded.module()
