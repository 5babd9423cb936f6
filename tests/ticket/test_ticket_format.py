"""What the files say: pinned digests, versions, and a ticket that must load for ever."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from ticket_examples import found

from strongticket import Normal, Signed, Source, Uniform, __version__
from strongticket.ticket import Entry, Part, Ticket, TicketError, TicketWarning, format, saving, writing

FIXTURES = Path(__file__).with_name("fixtures")
DIGEST = "41376613729373fb4d7620497c1f27b52fa6a190f40cb0743001662bdc178da8"


def pinned_ticket() -> Ticket:
    """The ticket in fixtures/version-1.0, which that version wrote."""
    index = np.zeros((40, 30), bool)
    index[np.arange(40), np.arange(40) * 7 % 30] = np.arange(40) != 3
    entries = {
        "layers.0.first": (Source(1, "first layer", (40, 30), Uniform(0.5)), index),
        "layers.0.second/upper": Entry.of(
            Source(2**64 - 1, "upper", (2, 40), Normal(0.25)),
            np.arange(80).reshape(2, 40) % 3 == 0,
            Part("layers.0.second", 0, 0),
        ),
        "layers.0.second/lower": Entry.of(
            Source(0, "lower", (3, 40), Signed(0.125)),
            np.arange(120).reshape(3, 40) % 11 == 0,
            Part("layers.0.second", 0, 2),
        ),
    }
    kept = {"target/layers.0": np.arange(150, dtype=np.float64).reshape(5, 30) / 8}
    architecture = {"kind": "network", "nonnegative": [False]}
    return Ticket(entries, kept, architecture, {"name": "by hand", "settings": {"text": "π", "none": None}})


def written(ticket: Ticket, folder: Path, change) -> None:
    """Save a ticket whose configuration was changed and sealed again."""
    config, tensors = saving.contents(ticket, compress=False)
    config = json.loads(json.dumps(config))
    change(config)
    writing.save(folder, format.sealed({k: v for k, v in config.items() if k != "config_digest"}), tensors)


def test_the_digest_is_pinned():
    assert pinned_ticket().digest == DIGEST


def test_the_digest_is_the_specified_one():
    ticket = pinned_ticket()
    stream = [b"strongticket 1\n"]
    for name in ("layers.0.first", "layers.0.second/lower", "layers.0.second/upper"):
        mask = ticket.entries[name].mask
        stream += [f"mask {name} {mask.shape[0]}x{mask.shape[1]}\n".encode(), np.packbits(mask, bitorder="little")]
    stream += [b"kept target/layers.0 F64 5x30\n", ticket.kept["target/layers.0"].tobytes()]
    assert hashlib.sha256(b"".join(bytes(part) for part in stream)).hexdigest() == ticket.digest


@pytest.mark.parametrize("folder", ["version-1.0", "version-1.0-compressed"])
def test_tickets_of_version_1_0_load_for_ever(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ticket = Ticket.from_pretrained(FIXTURES / folder)
    assert ticket.digest == DIGEST
    wanted = pinned_ticket()
    for name, array in ticket.parameters().items():
        assert array.tobytes() == wanted.parameters()[name].tobytes()
    assert ticket.architecture == wanted.architecture
    assert ticket.finder == wanted.finder
    assert ticket.verify().ok


def test_the_same_ticket_writes_the_same_files(tmp_path):
    for place in "ab":
        pinned_ticket().save_pretrained(tmp_path / place)
    for name in ("config.json", "ticket.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_config_holds_what_the_documentation_says(tmp_path):
    ticket = pinned_ticket()
    ticket.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["format"] == "strongticket"
    assert config["format_version"] == "1.0"
    assert config["library_version"] == __version__
    assert config["digest"] == DIGEST
    assert config["masks"]["layers.0.second/upper"] == {
        "source": {
            "seed": 2**64 - 1,
            "name": "upper",
            "shape": [2, 40],
            "law": {"law": "normal", "s": 0.25},
            "generator": {"name": "philox-4x32-10", "version": 1},
            "digest": ticket.entries["layers.0.second/upper"].source.digest(),
        },
        "encoding": "bits",
        "count": 27,
        "part": {"parameter": "layers.0.second", "axis": 0, "start": 0},
    }
    rest = {key: value for key, value in config.items() if key != "config_digest"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
    assert config["config_digest"] == hashlib.sha256(canonical).hexdigest()


def test_any_reader_of_safetensors_can_read_the_tensors(tmp_path):
    ticket = pinned_ticket()
    ticket.save_pretrained(tmp_path)
    tensors = safetensors.numpy.load_file(tmp_path / "ticket.safetensors")
    assert set(tensors) == {"config", "kept/target/layers.0", *(f"masks/{name}" for name in ticket.entries)}
    assert np.array_equal(tensors["kept/target/layers.0"], ticket.kept["target/layers.0"])
    bits = np.unpackbits(tensors["masks/layers.0.second/lower"], count=120, bitorder="little")
    assert np.array_equal(bits.reshape(3, 40), ticket.entries["layers.0.second/lower"].mask)
    assert tensors["masks/layers.0.first"].tolist() == [30 if i == 3 else i * 7 % 30 for i in range(40)]


def test_constant_parameters_are_stored_as_one_value(tmp_path):
    _, ticket, _ = found("GPT2Model")
    changed = dict(ticket.kept)
    changed["h.0.mlp.c_fc.bias"] = np.zeros(96, np.float32)
    changed["h.1.mlp.c_fc.bias"] = np.where(np.arange(96) == 5, np.float32(-0.0), np.float32(0.0))
    Ticket(ticket.entries, changed, ticket.architecture, ticket.finder).save_pretrained(tmp_path)
    tensors = safetensors.numpy.load_file(tmp_path / "ticket.safetensors")
    assert tensors["kept/h.0.mlp.c_fc.bias"].shape == (1,)
    assert tensors["kept/h.1.mlp.c_fc.bias"].shape == (96,)
    loaded = Ticket.from_pretrained(tmp_path)
    assert all(loaded.kept[name].tobytes() == array.tobytes() for name, array in changed.items())


def test_unknown_keys_of_a_newer_minor_version_are_ignored_with_a_warning(tmp_path):
    def change(config):
        config["format_version"] = "1.7"
        config["added"] = {"later": [1, 2]}
        config["masks"]["layers.0.first"]["hint"] = 3
        config["masks"]["layers.0.first"]["source"]["law"]["skew"] = 0.0
        config["architecture"]["comment"] = "new"

    written(pinned_ticket(), tmp_path, change)
    with pytest.warns(TicketWarning, match=r"1\.7.*'added'.*") as caught:
        ticket = Ticket.from_pretrained(tmp_path)
    for key in ("hint", "skew", "comment"):
        assert key in str(caught[0].message)
    assert ticket.digest == DIGEST


def test_unknown_keys_of_this_version_are_refused(tmp_path):
    written(pinned_ticket(), tmp_path, lambda config: config.update(added=1))
    with pytest.raises(TicketError, match=r"'added'.*not a key"):
        Ticket.from_pretrained(tmp_path)


@pytest.mark.parametrize("version", ["2.0", "0.9", "10.0", "1", "1.0.0", "one", "01.0", 1.0, None])
def test_other_major_versions_are_refused(version, tmp_path):
    written(pinned_ticket(), tmp_path, lambda config: config.update(format_version=version))
    with pytest.raises(TicketError, match=r"^format_version: "):
        Ticket.from_pretrained(tmp_path)


def test_another_generator_is_refused(tmp_path):
    def change(config):
        config["masks"]["layers.0.first"]["source"]["generator"]["version"] = 2

    written(pinned_ticket(), tmp_path, change)
    with pytest.raises(TicketError, match=r"^masks\.layers\.0\.first\.source\.generator: "):
        Ticket.from_pretrained(tmp_path)


def test_other_weights_are_refused_unless_asked_not_to(tmp_path):
    def change(config):
        config["masks"]["layers.0.first"]["source"]["seed"] = 2

    written(pinned_ticket(), tmp_path, change)
    with pytest.raises(TicketError, match=r"^masks\.layers\.0\.first\.source\.digest: the weights drawn here"):
        Ticket.from_pretrained(tmp_path)
    report = Ticket.from_pretrained(tmp_path, verify=False).verify()
    assert not report.ok
    assert report.failed == ("layers.0.first",)


def test_max_bytes(tmp_path):
    ticket = pinned_ticket()
    ticket.save_pretrained(tmp_path)
    model = 4 * (1200 + 80 + 120) + 8 * 150
    Ticket.from_pretrained(tmp_path, max_bytes=model)
    with pytest.raises(TicketError, match=f"takes {model} bytes in memory, more than max_bytes={model - 1}"):
        Ticket.from_pretrained(tmp_path, max_bytes=model - 1)


@pytest.mark.parametrize(
    ("entries", "kept", "architecture", "message"),
    [
        ({}, {}, None, "architecture.kind: must be one of"),
        ({}, {}, {"kind": "linear", "scale": 1.0}, "masks.first: is missing"),
        ({"../x": None}, {}, {"kind": "linear"}, "masks: the name '../x'"),
        ({"first": 5}, {}, {"kind": "linear"}, r"masks.first: must be \(source, mask\)"),
        ({}, {"k": np.array([1j])}, {"kind": "linear"}, "kept.k: has type complex128"),
        ({}, {}, {"kind": "linear", "scale": {1}}, "architecture: cannot be written as JSON"),
        ({}, {}, {"kind": "linear", "scale": float("nan")}, "architecture: cannot be written as JSON"),
    ],
)
def test_tickets_that_cannot_be_made(entries, kept, architecture, message):
    with pytest.raises(TicketError, match=message):
        Ticket(entries, kept, architecture)
