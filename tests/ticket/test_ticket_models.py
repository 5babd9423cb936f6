"""Tickets of Hugging Face models whose layers are pairs: the pruned, the merged and a dense computation agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from model_tickets import BLOCKS, CLASSES, HEADS, body_output, original, parts, pinned, products, reference, ticket
from ticket_examples import output

from strongticket import Source, Uniform
from strongticket.families import family_of
from strongticket.ticket import Entry, Ticket, TicketError, format, saving, writing
from strongticket.ticket.export import export
from strongticket.ticket.pairs import find_units

IDS = torch.arange(10)[None] * 5
DIGEST = "fddb3e4d36a5e85f0fdc4130ccd7369a618b79cad58251c9b0c59abff881ab39"
OUTPUT = [-0.319063, 0.791913, -0.061334, -0.166593]
BOTH = [(name, layers) for name in CLASSES for layers in ("attention", "all")]


@cache
def made(name: str, layers: str = "all") -> Ticket:
    return ticket(name, layers)


@pytest.mark.parametrize(("name", "layers"), BOTH)
def test_pruned_merged_and_dense_agree(name, layers, tmp_path):
    made(name, layers).save_pretrained(tmp_path, compress=layers == "all")
    loaded = Ticket.from_pretrained(tmp_path)
    assert loaded.digest == made(name, layers).digest
    assert json.loads((tmp_path / "config.json").read_text())["format_version"] == "1.1"
    pruned, merged = loaded.module(), loaded.module("merged")
    assert type(pruned) is type(merged) is type(original(name))
    assert not pruned.training
    torch.testing.assert_close(output(pruned, IDS), output(merged, IDS), atol=1e-4, rtol=0)
    wanted = reference(name, layers, IDS)
    assert wanted.std() > 0.1
    torch.testing.assert_close(body_output(name, pruned.double(), IDS), wanted, atol=1e-10, rtol=0)
    torch.testing.assert_close(body_output(name, merged.double(), IDS), wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("name", "layers"), BOTH)
def test_merged_maps_are_the_products(name, layers):
    wanted = products(parts(name, layers)[0])
    module, found = made(name, layers).module("merged"), 0
    for path in family_of(name).attentions(name, BLOCKS):
        heads = module.get_submodule(f"{path}.self" if name.startswith("Bert") else path)
        for head in range(HEADS):
            qk, vo = (wanted.pop(f"{path}.heads.{head}.{kind}") for kind in ("qk", "vo"))
            np.testing.assert_allclose(heads.qk[head].matrix.T, qk, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(heads.vo[head].matrix, vo, rtol=1e-6, atol=1e-8)
            found += 1
    assert found == BLOCKS * HEADS
    for path, matrix in wanted.items():
        np.testing.assert_allclose(module.get_submodule(path).matrix, matrix, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("mode", ["pruned", "merged"])
@pytest.mark.parametrize("name", CLASSES)
def test_kept_parameters_are_the_model_s_own(name, mode):
    ticket, wanted = made(name), original(name).state_dict()
    state = ticket.module(mode).state_dict()
    replaced = family_of(name).replaced(name, BLOCKS, "all")
    kept = {key for key in wanted if not key.startswith(replaced)}
    assert kept - set(ticket.architecture["tied"]) == set(ticket.kept)
    assert all(torch.equal(state[key], wanted[key]) for key in kept)
    assert not any(key.endswith((".weight", ".bias")) for key in set(state) - kept)
    if mode == "pruned":
        assert ticket.state_dict().keys() == state.keys()


def test_tied_weights_stay_tied_and_text_is_generated():
    for mode in ("pruned", "merged"):
        model = made("GPT2LMHeadModel").module(mode)
        assert model.lm_head.weight is model.transformer.wte.weight
        out = model.generate(IDS[:, :4], max_new_tokens=5, do_sample=False, pad_token_id=0)
        assert out.shape == (1, 9)
        assert torch.equal(out[:, :4], IDS[:, :4])
        step = model(out[:, :-1]).logits[:, 3:].argmax(-1)
        assert torch.equal(step, out[:, 4:])
    assert made("BertForMaskedLM").module().config.num_hidden_layers == BLOCKS


READER = """
import sys, torch
from strongticket.ticket import Ticket
torch.set_num_threads(1)
for name in sys.argv[2:]:
    module = Ticket.from_pretrained(f"{sys.argv[1]}/{name}").module()
    with torch.inference_mode():
        torch.save(module(torch.arange(10)[None] * 5)[0].clone(), f"{sys.argv[1]}/{name}.pt")
"""


def test_a_fresh_process_gives_the_same_outputs(tmp_path):
    names = ("BertModel", "GPT2LMHeadModel")
    for name in names:
        made(name).save_pretrained(tmp_path / name)
    command = [sys.executable, "-W", "error", "-c", READER, str(tmp_path), *names]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": "99"})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name in names:
            assert torch.equal(torch.load(tmp_path / f"{name}.pt", weights_only=True), output(made(name).module(), IDS))
    finally:
        torch.set_num_threads(threads)


def test_hidden_units_differ_from_pair_to_pair():
    ticket = made("GPT2Model")
    assert len({ticket.entries[place.first].source.shape[0] for place in ticket.pairs}) > 3
    found = [find_units(place, ticket.entries) for place in ticket.pairs]
    assert {units.first for units in found} == {True, False}
    assert {units.place.name.endswith("qk") for units in found if units.first} == {True, False}
    assert all((units.serves == units.groups).any() for units in found)


def test_units_are_grouped_and_sorted():
    source = Source(0, "first", (6, 3), Uniform(1.0))
    other = Source(0, "second", (2, 6), Uniform(1.0))
    served = np.array([2, 0, 3, 2, 0, 2])
    linear = Ticket(
        {"first": (source, np.arange(3) == served[:, None]), "second": (other, np.ones((2, 6)))},
        architecture={"kind": "linear", "scale": 2.0},
    )
    units = find_units(linear.pairs[0], linear.entries)
    weights, dense = units.together()
    u, v = source.weights(), other.weights()
    wanted = np.array([[u[1, 0], u[4, 0], 0], [0, 0, 0], [u[0, 2], u[3, 2], u[5, 2]]])
    assert np.array_equal(weights, wanted)
    assert np.array_equal(dense, np.stack([v[:, k] if k >= 0 else [0, 0] for k in (1, 4, -1, -1, -1, -1, 0, 3, 5)]))
    assert units.nbytes == weights.nbytes + dense.nbytes
    np.testing.assert_allclose(units.product(), 2.0 * (v.astype(float) @ np.where(linear.entries["first"].mask, u, 0)))


def test_units_of_a_side_that_serves_outputs():
    first, second = Source(0, "first", (300, 700), Uniform(1.0)), Source(0, "second", (400, 300), Uniform(1.0))
    rng = np.random.default_rng(0)
    served = rng.integers(0, 401, 300)
    masks = rng.random(first.shape) < 0.3, np.arange(400)[:, None] == served
    entries = {"first": Entry.of(first, masks[0]), "second": Entry.of(second, masks[1])}
    place = Ticket(entries, architecture={"kind": "linear", "scale": 0.5}).pairs[0]
    units = find_units(place, entries)
    a, b = entries["first"].weights().astype(float), entries["second"].weights().astype(float)
    assert not units.first
    np.testing.assert_allclose(units.product(), 0.5 * b @ a, atol=1e-12)
    np.testing.assert_allclose(units.product(magnitudes=True), 0.5 * abs(b) @ abs(a), atol=1e-12)
    weights, dense = units.together()
    np.testing.assert_allclose(
        0.5 * np.einsum("gm,gmj->gj", weights, dense.reshape(*weights.shape, -1)), 0.5 * b @ a, atol=1e-5
    )


def with_targets() -> Ticket:
    entries, kept, architecture = parts("BertModel", "attention")
    dense, rng = products(entries), np.random.default_rng(3)
    noise = {name: rng.uniform(-1e-3, 1e-3, matrix.shape) for name, matrix in dense.items()}
    errors = {name: float(np.abs(matrix).max()) for name, matrix in noise.items()}
    kept |= {f"target/{name}": matrix + noise[name] for name, matrix in dense.items()}
    return Ticket(entries, kept, architecture, {"name": "by hand", "max_error": errors})


def test_verify(tmp_path):
    ticket = with_targets()
    ticket.save_pretrained(tmp_path)
    loaded = Ticket.from_pretrained(tmp_path)
    report = loaded.verify()
    assert report.ok
    assert report.notes == ()
    assert len(report.pairs) == 2 * BLOCKS * HEADS
    assert report.max_error == pytest.approx(max(ticket.finder["max_error"].values()), rel=1e-9)
    assert max(pair.tolerance for pair in report.pairs) < 1e-10
    assert torch.equal(output(loaded.module(), IDS), output(made("BertModel", "attention").module(), IDS))
    wrong = ticket.finder | {"max_error": {name: error * 1.001 for name, error in ticket.finder["max_error"].items()}}
    changed = Ticket(ticket.entries, ticket.kept, ticket.architecture, wrong)
    assert set(changed.verify().failed) == set(ticket.finder["max_error"])
    assert "target" in made("BertModel").verify().notes[0]


def test_known_digests_are_not_drawn_again(tmp_path, monkeypatch):
    entries, kept, architecture = parts("BertModel")
    digests = {name: source.digest() for name, (source, _) in entries.items()}
    ticket = Ticket(entries, kept, architecture, source_digests=digests)
    with monkeypatch.context() as patch:
        patch.setattr(Source, "digest", lambda self: pytest.fail("was drawn again"))
        ticket.save_pretrained(tmp_path)
    assert Ticket.from_pretrained(tmp_path).source_digests() == digests
    lie = dict.fromkeys(digests, "0" * 64)
    Ticket(entries, kept, architecture, source_digests=lie).save_pretrained(tmp_path)
    with pytest.raises(TicketError, match=r"source\.digest: the weights drawn here"):
        Ticket.from_pretrained(tmp_path)
    assert not Ticket.from_pretrained(tmp_path, verify=False).verify().ok
    with pytest.raises(TicketError, match=r"^source_digests\.x: belongs to no entry"):
        Ticket(entries, kept, architecture, source_digests={"x": "0" * 64})
    with pytest.raises(TicketError, match=r"^source_digests\.x: must be 64"):
        Ticket(entries, kept, architecture, source_digests={"x": "0"})


def test_export_writes_tied_weights_once(tmp_path):
    from safetensors.torch import load_file

    ticket = made("GPT2LMHeadModel")
    export(ticket, tmp_path / "out")
    written, state = load_file(tmp_path / "out" / "model.safetensors"), ticket.state_dict()
    assert written.keys() == state.keys() - {"lm_head.weight"}
    assert all(torch.equal(written[key], state[key]) for key in written)


def test_the_ticket_of_version_1_1_loads_for_ever():
    fixture, wanted = Ticket.from_pretrained(Path(__file__).with_name("fixtures") / "version-1.1"), pinned()
    assert fixture.digest == wanted.digest == DIGEST
    assert fixture.architecture == wanted.architecture
    assert fixture.verify().ok
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    for mode in ("pruned", "merged"):
        out = output(fixture.module(mode), ids)
        assert torch.equal(out, output(wanted.module(mode), ids))
        np.testing.assert_allclose(out[0, -1], OUTPUT, atol=1e-5)


def test_version_1_0_has_no_models(tmp_path):
    config, tensors = saving.contents(made("GPT2Model"), compress=False)
    config = {key: value for key, value in config.items() if key != "config_digest"} | {"format_version": "1.0"}
    writing.save(tmp_path, format.sealed(config), tensors)
    with pytest.raises(TicketError, match=r"^architecture\.kind: version 1\.0 has no 'model'"):
        Ticket.from_pretrained(tmp_path)
