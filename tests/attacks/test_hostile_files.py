"""Files from a stranger: broken, cut off, enormous once unpacked, or no files at all."""

from __future__ import annotations

import os
import zlib

import numpy as np
import pytest
from hostile import CONFIG, TENSORS, Parts, refused, valid_ticket

from strongticket.ticket import Ticket, TicketError


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
