"""A ticket that was saved and loaded is the same model, bit for bit."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch
from ticket_examples import CONSTRUCTED, LABELS, LAWS, MODELS, constructed, found, output

from strongticket import Normal, Source
from strongticket.ticket import Entry, Part, Ticket, TicketError


def same_parameters(a: Ticket, b: Ticket) -> bool:
    one, other = a.parameters(), b.parameters()
    return one.keys() == other.keys() and all(one[k].tobytes() == other[k].tobytes() for k in one)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("kind", CONSTRUCTED)
def test_constructed(kind, compress, tmp_path):
    original, ticket, x = constructed(kind)
    ticket.save_pretrained(tmp_path, compress=compress)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "ticket.safetensors"]
    loaded = Ticket.from_pretrained(tmp_path)
    assert loaded.digest == ticket.digest
    assert loaded.architecture == ticket.architecture
    assert loaded.finder == ticket.finder
    assert same_parameters(loaded, ticket)
    wanted = output(ticket.module(), x)
    assert torch.equal(output(loaded.module(), x), wanted)
    if hasattr(original, "module"):
        assert torch.equal(output(original.module(), x), wanted)
    else:
        run = original if callable(original) else lambda rows: rows @ original.product().T
        np.testing.assert_allclose(wanted, run(x.double().numpy()), atol=1e-4)
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, ticket.state_dict()[name])


@pytest.mark.parametrize("kind", CONSTRUCTED)
def test_verify_recomputes_the_errors(kind, tmp_path):
    original, ticket, _ = constructed(kind)
    ticket.save_pretrained(tmp_path)
    report = Ticket.from_pretrained(tmp_path).verify()
    assert report.ok
    assert report.notes == ()
    assert report.max_error == pytest.approx(original.max_error, rel=1e-9)
    assert len(report.pairs) == len(getattr(original, "pairs", [original]))
    assert all(pair.recorded is not None for pair in report.pairs)


def test_verify_without_the_target_says_so(tmp_path):
    from strongticket.construct.tickets import pair_ticket

    ticket = pair_ticket(constructed("relu")[0], include_target=False)
    assert not ticket.kept
    ticket.save_pretrained(tmp_path)
    report = Ticket.from_pretrained(tmp_path).verify()
    assert report.ok
    assert report.pairs == ()
    assert "target" in report.notes[0]


def test_verify_finds_a_wrong_error():
    ticket = constructed("linear")[1]
    wrong = ticket.finder | {"max_error": {"pair": ticket.finder["max_error"]["pair"] * 1.001}}
    changed = Ticket(ticket.entries, ticket.kept, ticket.architecture, wrong)
    assert changed.verify().failed == ("pair",)


def test_a_mask_of_one_unit_per_row_is_an_index(tmp_path):
    for kind in ("linear", "relu"):
        ticket = constructed(kind)[1]
        ticket.save_pretrained(tmp_path)
        encodings = {name: mask.encoding for name, mask in Ticket.from_pretrained(tmp_path)._loaded.spec.masks.items()}
        assert set(encodings.values()) - {"bits"} != set(), (kind, encodings)


@pytest.mark.parametrize("kind", CONSTRUCTED)
def test_merged(kind):
    _, ticket, x = constructed(kind)
    if kind not in ("linear", "attention", "attention-bias"):
        with pytest.raises(
            TicketError, match=r"^architecture\.kind: .* has no merged form.*linear, attention and model"
        ):
            ticket.module("merged")
        return
    merged = ticket.module("merged")
    assert {value.dtype for value in merged.state_dict().values()} == {torch.float32}
    torch.testing.assert_close(output(merged, x), output(ticket.module(), x), atol=1e-4, rtol=0)
    torch.testing.assert_close(output(merged.double(), x.double()), output(ticket.module().double(), x.double()))


def test_modes_that_are_none():
    with pytest.raises(TicketError, match=r"^architecture\.kind: 'huggingface' has no pairs to fold"):
        found("GPT2Model")[1].module("merged")
    with pytest.raises(ValueError, match="mode must be one of pruned, merged, got 'dense'"):
        constructed("linear")[1].module("dense")


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", MODELS)
def test_models(name, law, tmp_path):
    model, ticket, x = found(name, law)
    ticket.save_pretrained(tmp_path, compress=law == "signed")
    loaded = Ticket.from_pretrained(tmp_path)
    assert loaded.digest == ticket.digest
    built = loaded.module()
    assert type(built) is type(model)
    assert not built.training
    assert torch.equal(output(built, x), output(model, x))
    state, wanted = loaded.state_dict(), model.state_dict()
    assert state.keys() == wanted.keys()
    assert all(torch.equal(state[key], wanted[key]) for key in wanted)
    assert loaded.verify().ok


def test_classifiers_keep_the_names_of_their_labels(tmp_path):
    _, ticket, _ = found("BertForSequenceClassification")
    ticket.save_pretrained(tmp_path)
    config = Ticket.from_pretrained(tmp_path).module().config
    assert config.id2label == LABELS
    assert config.label2id == {label: place for place, label in LABELS.items()}
    assert json.loads((tmp_path / "config.json").read_text())["format_version"] == "1.1"


@pytest.mark.parametrize("labels", [["a", 1], "ab", {"0": "a"}, ["x"] * 2000])
def test_labels_that_are_no_names(labels):
    _, ticket, _ = found("BertForSequenceClassification")
    architecture = ticket.architecture | {"config": ticket.architecture["config"] | {"labels": labels}}
    with pytest.raises(TicketError, match=r"architecture\.config\.labels"):
        Ticket(ticket.entries, ticket.kept, architecture)


def test_tied_embeddings_are_stored_and_built_once():
    _, ticket, _ = found("GPT2LMHeadModel")
    assert ticket.architecture["tied"] == {"lm_head.weight": "transformer.wte.weight"}
    assert "lm_head.weight" not in {**ticket.entries, **ticket.kept}
    built = ticket.module()
    assert built.lm_head.weight is built.transformer.wte.weight


def test_the_model_must_be_its_masked_sources():
    model, ticket, _ = found("GPT2Model")
    with torch.no_grad():
        model.wpe.weight[0, 0] += 1
    try:
        with pytest.raises(TicketError, match=r"masks\.wpe\.weight: the model's parameter is not its masked source"):
            Ticket.from_model(model, ticket.entries, finder={"name": "test"})
        Ticket.from_model(model, ticket.entries, finder={"name": "test"}, check=False)
    finally:
        found.cache_clear()


def test_from_model_names_its_mistakes():
    model, ticket, _ = found("GPT2LMHeadModel")
    source = ticket.entries["transformer.wte.weight"]
    for name, problem in (("lm_head.weight", "is tied: name it transformer.wte.weight"), ("other", "is no parameter")):
        with pytest.raises(TicketError, match=problem):
            Ticket.from_model(model, {name: source}, finder={"name": "test"})
    with pytest.raises(TicketError, match=r"model\.float\(\)"):
        Ticket.from_model(model.half(), {}, finder={"name": "test"})
    model.float()
    with pytest.raises(TicketError, match=r"architecture\.class.*Linear"):
        Ticket.from_model(torch.nn.Linear(2, 2), {}, finder={"name": "test"})
    found.cache_clear()


def test_density_and_size(tmp_path):
    _, ticket, _ = found("BertModel")
    density = ticket.density()
    for name, entry in ticket.entries.items():
        assert density[name] == entry.mask.mean()
    kept = sum(entry.mask.sum() for entry in ticket.entries.values())
    weights = sum(entry.mask.size for entry in ticket.entries.values())
    assert density["all"] == kept / weights
    for compress in (False, True):
        ticket.save_pretrained(tmp_path, compress=compress)
        on_disk = sum(file.stat().st_size for file in tmp_path.iterdir())
        assert ticket.size(compress=compress).ticket == on_disk
        size = Ticket.from_pretrained(tmp_path).size()
        assert size.ticket == on_disk
        values = weights + sum(array.size for array in ticket.kept.values())
        assert (size.float32, size.float16) == (4 * values, 2 * values)


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_a_parameter(axis):
    sources = [Source(0, f"part {i}", (5, 7), Normal(1.0)) for i in range(3)]
    masks = np.random.default_rng(0).random((3, 5, 7)) < 0.5
    parts = {
        f"w/{i}": Entry.of(source, masks[i], Part("first", axis, i * (5, 7)[axis])) for i, source in enumerate(sources)
    }
    shape = (15, 7) if axis == 0 else (5, 21)
    second = Source(0, "second", (2, shape[0]), Normal(1.0))
    ticket = Ticket({**parts, "second": (second, np.ones(second.shape))}, None, {"kind": "relu", "nonnegative": False})
    joined = [np.where(mask, source.weights(), 0) for mask, source in zip(masks, sources, strict=True)]
    assert np.array_equal(ticket.parameters()["first"], np.concatenate(joined, axis=axis))


def test_large_entries_are_drawn_in_chunks():
    source = Source(3, "large", (700, 301), Normal(0.5))
    mask = np.random.default_rng(1).random(source.shape) < 0.4
    entry = Entry.of(source, mask)
    wanted = np.where(mask, source.weights(), np.float32(0))
    assert entry.weights().tobytes() == wanted.tobytes()
    wide = np.full((700, 600), 9.0, np.float32)
    entry.write(wide[:, 100:401])
    assert np.array_equal(wide[:, 100:401], wanted)
    assert (wide[:, :100] == 9).all()
    assert (wide[:, 401:] == 9).all()


def test_masks_of_numbers_and_tensors():
    source = Source(0, "w", (2, 2), Normal(1.0))
    eye = np.eye(2)
    for mask in (eye, eye.astype(np.int8), torch.eye(2), torch.eye(2, dtype=torch.bool), eye != 0):
        assert Entry.of(source, mask).bits.tolist() == [9]
    with pytest.raises(TicketError, match="True and False"):
        Entry.of(source, 0.5 * eye)
    with pytest.raises(TicketError, match=r"shape \(3, 3\).*\(2, 2\)"):
        Entry.of(source, np.eye(3))
