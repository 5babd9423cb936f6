"""Tickets from a stranger: each is refused by one exception that names the field, at no cost of memory or time."""

from __future__ import annotations

import os
import time
import tracemalloc
import zlib

import numpy as np
import pytest
from hostile import CONFIG, TENSORS, Parts, valid_ticket

from strongticket.ticket import Ticket, TicketError


def refused(folder, field: str, *, limit: int = 8 << 20, **options) -> TicketError:
    """Load, expecting a refusal that starts with ``field``, soon and without large allocations."""
    start = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(TicketError) as caught:
            Ticket.from_pretrained(folder, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(field), str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700
    assert peak < limit, peak
    assert time.perf_counter() - start < 10
    return caught.value


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


@pytest.mark.parametrize("where", ["config.json", "copy", "header"])
def test_duplicated_names(where, tmp_path):
    parts = Parts()
    parts.write(tmp_path)
    if where == "header":

        def twice(header):
            import json

            text = json.dumps(header)
            return (text[:-1] + "," + json.dumps({"config": header["config"]})[1:]).encode()

        parts.write(tmp_path, change_header=twice)
        refused(tmp_path, f"{TENSORS}: repeats the key 'config'")
        return
    text = parts.config_text.replace('"layers.0.second":', '"layers.0.first":', 1)
    if where == "copy":
        parts.config_text = text
        parts.write(tmp_path)
        refused(tmp_path, f"{TENSORS} config: repeats the key 'layers.0.first'")
    else:
        (tmp_path / CONFIG).write_text(text)
        refused(tmp_path, "config.json: repeats the key 'layers.0.first'")


@pytest.mark.parametrize("depth", [17, 900, 100_000])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_deep_json(depth, brackets, tmp_path):
    inner = "[" * depth + "]" * depth if brackets == "[]" else '{"a":' * depth + "1" + "}" * depth
    parts = Parts()
    parts.write(tmp_path)
    deep = parts.config_text[:-1] + f', "deep": {inner}' + "}"
    (tmp_path / CONFIG).write_text(deep)
    refused(tmp_path, "config.json: is nested deeper", limit=64 << 20)
    parts.config_text = deep
    parts.write(tmp_path)
    refused(tmp_path, f"{TENSORS} config: is nested deeper", limit=64 << 20)
    parts = Parts()
    parts.write(tmp_path, change_header=lambda header: inner.encode())
    refused(tmp_path, TENSORS, limit=64 << 20)


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "5", '"x"', "{", "\x00", '{"format": "strongticket"}', "{}", "1" * 5000]
)
def test_configurations_that_are_none(text, tmp_path):
    parts = Parts()
    parts.write(tmp_path)
    (tmp_path / CONFIG).write_text(text)
    refused(tmp_path, "config.json: ")
    parts.config_text = text
    parts.write(tmp_path)
    refused(tmp_path, "")


def test_json_that_is_too_long(tmp_path):
    Parts().write(tmp_path)
    with open(tmp_path / CONFIG, "w") as file:
        file.write("{" + " " * (20 << 20) + "}")
    refused(tmp_path, "config.json: is 16777217 bytes of JSON, more than", limit=40 << 20)


def test_a_deflate_bomb(tmp_path):
    parts = Parts()
    parts.deflated = zlib.compress(b'{"a": "' + b" " * (200 << 20) + b'"}', 9)
    assert len(parts.deflated) < 1 << 20
    parts.write(tmp_path)
    refused(tmp_path, f"{TENSORS} config: is 16777217 bytes of JSON, more than", limit=64 << 20)


@pytest.mark.parametrize("change", ["cut", "more", "none"])
def test_a_broken_deflate_stream(change, tmp_path):
    parts = Parts()
    parts.write(tmp_path)
    stream = zlib.compress(parts.config_text.encode())
    parts.deflated = {"cut": stream[:-9], "more": stream + b"x", "none": b"hello"}[change]
    parts.write(tmp_path)
    refused(tmp_path, f"{TENSORS} config: is ")


def test_a_range_code_bomb(tmp_path):
    parts = Parts()
    parts.mask("layers.1.first")["source"]["shape"] = [90, 20_000_000]
    parts.write(tmp_path)
    refused(tmp_path, "masks.layers.1.first: takes 20000000 inputs")
    parts = Parts(valid_ticket(rows=90))
    parts.config["architecture"] = {"kind": "linear", "scale": 1.0}
    wide = 20_000_000
    parts.config["masks"] = {"first": parts.mask("layers.0.first"), "second": parts.mask("layers.1.second")}
    parts.config["kept"] = {}
    parts.tensors = {"masks/first": parts.tensors["masks/layers.0.first"], "masks/second": ("U32", [4], b"\1" * 16)}
    parts.config["masks"]["second"]["source"]["shape"] = [wide, 90]
    parts.config["masks"]["second"]["encoding"] = "range"
    parts.config["masks"]["second"]["count"] = wide
    parts.write(tmp_path)
    refused(tmp_path, f"{TENSORS} masks/second: must hold")


HEADERS = {
    "negative offset": lambda place: place.update(data_offsets=[-1, 5]),
    "enormous offset": lambda place: place.update(data_offsets=[0, 2**63]),
    "overlap": lambda place: place.update(data_offsets=[o + 1 for o in place["data_offsets"]]),
    "three offsets": lambda place: place.update(data_offsets=[0, 1, 2]),
    "no offsets": lambda place: place.pop("data_offsets"),
    "unknown type": lambda place: place.update(dtype="F8_E4M3"),
    "type of another kind": lambda place: place.update(dtype=8),
    "negative shape": lambda place: place.update(shape=[-10]),
    "enormous shape": lambda place: place.update(shape=[2**61]),
    "product overflow": lambda place: place.update(shape=[2**31, 2**31, 2**31]),
    "shape of another kind": lambda place: place.update(shape={"0": 1}),
    "another key": lambda place: place.update(extra=1),
}


@pytest.mark.parametrize("change", HEADERS)
def test_headers(change, tmp_path):
    def apply(header):
        HEADERS[change](header["masks/layers.0.second"])
        return header

    Parts().write(tmp_path, change_header=apply)
    refused(tmp_path, TENSORS)


def test_tensors_that_are_missing_or_too_many(tmp_path):
    parts = Parts()
    del parts.tensors["masks/layers.0.first"]
    parts.write(tmp_path)
    refused(tmp_path, f"{TENSORS} masks/layers.0.first: is missing")
    parts = Parts()
    parts.tensors["extra"] = ("U8", [3], b"abc")
    parts.write(tmp_path)
    refused(tmp_path, f"{TENSORS} extra: is not mentioned")
    parts = Parts()
    parts.metadata = {"format": "pt"}
    parts.write(tmp_path)
    refused(tmp_path, f"{TENSORS} __metadata__.format")


@pytest.mark.parametrize("difference", [-1, 1])
def test_wrong_packed_length(difference, tmp_path):
    parts = Parts(compress=False)
    dtype, shape, content = parts.tensors["masks/layers.0.second"]
    content = (content + b"\0")[: len(content) + difference]
    parts.tensors["masks/layers.0.second"] = (dtype, [shape[0] + difference], content)
    parts.write(tmp_path)
    refused(tmp_path, f"{TENSORS} masks/layers.0.second: must hold 113 values")


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100, 1000, -1, -100])
def test_truncated(length, tmp_path):
    Parts().write(tmp_path)
    content = (tmp_path / TENSORS).read_bytes()
    (tmp_path / TENSORS).write_bytes(content[:length])
    refused(tmp_path, TENSORS)


def test_header_length(tmp_path):
    Parts().write(tmp_path)
    content = (tmp_path / TENSORS).read_bytes()
    for length in (0, 1, len(content), 2**31, 2**63, 2**64 - 1):
        (tmp_path / TENSORS).write_bytes(length.to_bytes(8, "little") + content[8:])
        refused(tmp_path, TENSORS)


def test_every_flipped_bit_of_masks_and_parameters(tmp_path):
    parts = Parts()
    parts.write(tmp_path)
    original = (tmp_path / TENSORS).read_bytes()
    start = len(original) - len(parts.data)
    rng = np.random.default_rng(0)
    for bit in rng.choice(8 * len(parts.data), 150, replace=False):
        content = bytearray(original)
        content[start + bit // 8] ^= 1 << (bit % 8)
        (tmp_path / TENSORS).write_bytes(content)
        with pytest.raises(TicketError):
            Ticket.from_pretrained(tmp_path, verify=False)


@pytest.mark.parametrize("key", ["digest", "config_digest"])
def test_flipped_digests(key, tmp_path):
    parts = Parts()
    parts.config[key] = ("0" if parts.config[key][0] != "0" else "1") + parts.config[key][1:]
    parts.write(tmp_path, seal=key == "digest")
    refused(tmp_path, key)


@pytest.mark.parametrize("name", [CONFIG, TENSORS])
@pytest.mark.parametrize("kind", ["symlink", "dangling", "device", "pipe", "folder", "loop"])
def test_files_that_are_none(name, kind, tmp_path):
    Parts().write(tmp_path)
    path = tmp_path / name
    path.rename(tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"symlink": tmp_path / "elsewhere", "device": "/dev/zero", "loop": path}.get(kind, "nowhere"))
    refused(tmp_path, name)


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
