"""Tickets of models whose masks, settings or sizes do not fit are refused, with the field named."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from model_tickets import D, original, parts, ticket

from strongticket import Source, Uniform
from strongticket.ticket import Entry, Part, Ticket, TicketError
from strongticket.ticket.huggingface import describe_constructed
from strongticket.ticket.pairs import find_units


@cache
def made(name: str, layers: str = "all") -> Ticket:
    return ticket(name, layers)


def changed(name="BertModel", layers="all", **changes):
    entries, kept, architecture = parts(name, layers)
    for key, value in changes.items():
        {"entries": entries, "kept": kept, "architecture": architecture}[key].update(value)
    return (
        {k: v for k, v in entries.items() if v is not None},
        {k: v for k, v in kept.items() if v is not None},
        architecture,
    )


def masked(*shape):
    return Source(0, "other", shape, Uniform(1.0)), np.ones(shape)


AT = "encoder.layer.1.attention.heads.1"
LINEAR = "encoder.layer.0.intermediate.dense"
WRONG = {
    "missing head": ({"entries": {f"{AT}.query": None}}, f"masks.{AT}.query: is missing"),
    "missing linear": ({"entries": {f"{LINEAR}.first": None}}, f"masks.{LINEAR}.first: is missing"),
    "foreign": ({"entries": {"pooler.dense.first": masked(3, 3)}}, "masks.pooler.dense.first: is no parameter"),
    "foreign head": (
        {"entries": {f"{AT[:-1]}2.key": masked(3, D)}},
        f"masks.{AT[:-1]}2.key: is no parameter of the architecture 'model'",
    ),
    "hidden units": ({"entries": {f"{AT}.output": masked(D, 7)}}, f"masks.{AT}.output: of shape"),
    "key size": ({"entries": {f"{AT}.key": masked(61, D + 1)}}, f"masks.{AT}.key: must have {D} columns"),
    "no bias row": ({"entries": {f"{AT}.query": masked(D, 61)}}, f"masks.{AT}.query: must have {D + 1} rows"),
    "linear size": (
        {"entries": {f"{LINEAR}.first": masked(72, D)}},
        f"masks.{LINEAR}.first: must have {D + 1} columns",
    ),
    "not a matrix": ({"entries": {f"{LINEAR}.first": masked(72)}}, f"masks.{LINEAR}.first: must be a matrix"),
    "replaced": (
        {"kept": {f"{LINEAR}.weight": np.zeros((24, 16), np.float32)}},
        f"kept.{LINEAR}.weight: is replaced",
    ),
    "target": ({"kept": {"target/nothing": np.zeros((2, 2))}}, "kept.target/nothing: is no parameter"),
    "target shape": ({"kept": {f"target/{LINEAR}": np.zeros((2, 2))}}, f"kept.target/{LINEAR}: must have the shape"),
    "layers": ({"architecture": {"layers": "some"}}, "architecture.layers: must be one of attention, all"),
    "class": ({"architecture": {"class": "T5Model"}}, "architecture.class: must be one of"),
    "tied to a mask": (
        {"architecture": {"tied": {"x": f"{AT}.key"}}},
        "architecture.tied: x must stand for a parameter",
    ),
    "key": ({"architecture": {"other": 1}}, "architecture.'other': is not a key"),
}


@pytest.mark.parametrize("case", WRONG)
def test_masks_that_do_not_fit_are_refused(case):
    changes, message = WRONG[case]
    with pytest.raises(TicketError) as caught:
        Ticket(*changed(**changes))
    assert str(caught.value).startswith(message), str(caught.value)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("BertModel", "is_decoder", True),
        ("BertModel", "is_decoder", 1),
        ("BertForMaskedLM", "add_cross_attention", True),
        ("GPT2Model", "add_cross_attention", True),
        ("BertModel", "num_attention_heads", 3),
        ("BertModel", "num_attention_heads", 10**9),
        ("BertModel", "num_hidden_layers", 0),
        ("BertModel", "num_hidden_layers", 3),
        ("GPT2Model", "n_head", "2"),
    ],
)
def test_settings_are_refused(name, key, value):
    entries, kept, architecture = parts(name)
    architecture["config"][key] = value
    with pytest.raises(TicketError) as caught:
        Ticket(entries, kept, architecture)
    wanted = f"architecture.config.{key}: " if value != 3 else "masks."
    assert str(caught.value).startswith(wanted), str(caught.value)


def test_describing_a_model_refuses_what_pairs_cannot_express():
    model = original("BertModel")
    model.config.is_decoder = True
    with pytest.raises(TicketError, match=r"^architecture\.config\.is_decoder: must be false"):
        describe_constructed(model, "attention")
    with pytest.raises(TicketError, match=r"^architecture\.layers: "):
        describe_constructed(original("BertModel"), "heads")
    with pytest.raises(TicketError, match=r"model\.float\(\)"):
        describe_constructed(original("BertModel").half(), "all")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kept": {"pooler.dense.bias": None}}, "architecture.config: needs the parameter pooler.dense.bias"),
        ({"kept": {"other.weight": np.zeros(3)}}, "architecture.config: has no parameter other.weight"),
        ({"kept": {"pooler.dense.bias": np.zeros(3)}}, "architecture.config: needs pooler.dense.bias as"),
    ],
)
def test_kept_parameters_are_compared_with_the_class(changes, message):
    for mode in ("pruned", "merged"):
        with pytest.raises(TicketError) as caught:
            Ticket(*changed(**changes)).module(mode)
        assert str(caught.value).startswith(message)


def test_pairs_of_other_sizes_than_the_model_are_refused():
    entries, kept, architecture = parts("BertModel")
    architecture["config"]["intermediate_size"] = 25
    with pytest.raises(TicketError, match=r"^masks\.encoder\.layer\.0\.intermediate\.dense\.first: .*shape \(25, 16\)"):
        Ticket(entries, kept, architecture).module()


def test_a_pair_with_two_dense_sides_is_refused():
    entries, kept, architecture = parts("BertModel")
    for part in ("value", "output"):
        source, _ = entries[f"{AT}.{part}"]
        entries[f"{AT}.{part}"] = source, np.ones(source.shape)
    ticket = Ticket(entries, kept, architecture)
    for mode in ("pruned", "merged"):
        with pytest.raises(TicketError, match=rf"the pair {AT}\.vo must keep at most one weight per hidden unit"):
            ticket.module(mode)


def test_parts_are_refused():
    entries, kept, architecture = parts("BertModel")
    source, mask = entries.pop(f"{AT}.value")
    entries["piece"] = Entry.of(source, mask, Part(f"{AT}.value", 0, 0))
    with pytest.raises(TicketError, match=r"^masks\.piece\.part: "):
        Ticket(entries, kept, architecture)


def test_max_bytes(tmp_path):
    ticket = made("GPT2LMHeadModel")
    ticket.save_pretrained(tmp_path)
    kept = sum(array.nbytes for array in ticket.kept.values())
    loading = kept + sum(entry.bits.nbytes for entry in ticket.entries.values())
    with pytest.raises(TicketError, match=f"takes {loading} bytes in memory, more than max_bytes={loading - 1}"):
        Ticket.from_pretrained(tmp_path, max_bytes=loading - 1)
    dense = kept + 4 * sum(entry.source.size for entry in ticket.entries.values())
    loaded = Ticket.from_pretrained(tmp_path, max_bytes=loading)
    assert loading < dense
    with pytest.raises(TicketError, match=f"^masks: .*max_bytes={loading}"):
        loaded.module()
    shapes = [[loaded.entries[name].source.shape for name in (place.first, place.second)] for place in ticket.pairs]
    merged = kept + sum(4 * first[1] * second[0] for first, second in shapes)
    pruned = kept + sum(find_units(place, loaded.entries).nbytes for place in ticket.pairs)
    message = f"pruned model takes {pruned} bytes, more than max_bytes={pruned - 1}; mode='merged' takes {merged}"
    with pytest.raises(TicketError, match=message):
        loaded.module(max_bytes=pruned - 1)
    loaded.module(max_bytes=pruned)
    with pytest.raises(TicketError, match=f"the merged model takes {merged} bytes, more than max_bytes={merged - 1}"):
        loaded.module("merged", max_bytes=merged - 1)
    for mode, size in (("pruned", pruned), ("merged", merged)):
        state = loaded.module(mode, max_bytes=1 << 30).state_dict()
        assert size == sum(value.nbytes for key, value in state.items() if key not in ticket.architecture["tied"])
    with pytest.raises(TicketError, match="sorting the hidden units takes"):
        loaded.module("merged", max_bytes=merged)
