"""Which pairs a model has, how many units each gets, and what is refused before any work."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from model_examples import (
    BLOCKS,
    BOTH,
    HEADS,
    D,
    example,
    inputs,
    made,
    own_matrices,
    products,
    small,
    states,
)

from strongticket import construct
from strongticket.construct.models import job as jobs
from strongticket.construct.models.job import Job
from strongticket.construct.models.plan import matrices, places
from strongticket.construct.models.sensitivity import measured_sensitivity, merged_model
from strongticket.construct.targets import read_model

transformers = pytest.importorskip("transformers")


pytestmark = pytest.mark.usefixtures("one_thread")


class TestPlan:
    @pytest.mark.parametrize("cls", BOTH)
    def test_places_are_the_pairs_of_the_ticket_in_order(self, cls):
        model, ticket = made(cls)
        found = list(places(read_model(model, "all")))
        heads_first = sorted(found, key=lambda place: place.kind in ("up", "down"))
        pairs = [(pair.name, pair.first, pair.second) for pair in ticket.pairs]
        assert [(place.name, *place.entries) for place in heads_first] == pairs
        assert list(ticket.entries) == [name for place in found for name in place.entries]
        assert [place.kind for place in found] == (["qk", "vo"] * HEADS + ["up", "down"]) * BLOCKS
        alone = list(places(read_model(model)))
        assert [place.name for place in alone] == [place.name for place in found if place.kind in ("qk", "vo")]

    @pytest.mark.parametrize("cls", BOTH)
    def test_matrices_are_those_of_the_parameters(self, cls):
        model = made(cls)[0]
        wanted = own_matrices(model)
        found = {place.name: matrix for place, matrix in matrices(read_model(model, "all"))}
        assert found.keys() == wanted.keys()
        for name, matrix in wanted.items():
            np.testing.assert_allclose(found[name], matrix, rtol=1e-12, atol=1e-14)

    def test_items_are_units_per_column(self):
        units = made("BertModel")[1].finder["units"]
        assert {name.rpartition(".")[2]: n for name, n in units.items() if ".heads." in name} == {
            "qk": 20 * D,
            "vo": 20 * D,
        }
        assert units["encoder.layer.1.intermediate.dense"] == 20 * (D + 1)
        assert units["encoder.layer.1.output.dense"] == 20 * D

    def test_widths_by_kind_and_by_name(self):
        one = "transformer.h.1.attn.heads.0.vo"
        widths = {"qk": 33, "vo": 40, "up": 45, "down": 50, one: 64}
        ticket = construct.model(small(), widths=widths, refine=0, layers="all")
        kinds = {"qk": "qk", "vo": "vo", "c_fc": "up", "c_proj": "down"}
        wanted = {pair.name: widths[kinds[pair.name.rpartition(".")[2]]] for pair in ticket.pairs} | {one: 64}
        assert ticket.finder["units"] == wanted
        assert {p.name: ticket.entries[p.first].source.shape[0] for p in ticket.pairs} == wanted

    def test_every_entry_is_within_tol(self):
        ticket = construct.model(small(), items=4, tol=0.02, refine=0, layers="all")
        wanted, found = own_matrices(small()), products(ticket)
        assert max(np.abs(wanted[name] - found[name]).max() for name in wanted) <= 0.02
        columns = {name: min(matrix.shape) for name, matrix in wanted.items()}
        more = [n - 4 * columns[name] for name, n in ticket.finder["units"].items()]
        assert min(more) >= 0
        assert max(more) > 0
        assert all(extra % (2 * columns[name]) == 0 for extra, name in zip(more, ticket.finder["units"], strict=True))
        assert ticket.verify().ok

    def test_an_unreachable_tol_names_the_worst_pair(self, monkeypatch):
        monkeypatch.setattr(jobs, "MOST_ITEMS", 7)
        with pytest.warns(UserWarning, match="12 of 12 pairs .* tol=1e-30, the worst") as caught:
            ticket = construct.model(small(), items=4, tol=1e-30, refine=0, layers="all")
        errors = ticket.finder["max_error"]
        worst = max(errors, key=errors.__getitem__)
        assert f"the worst, {worst}, by {errors[worst]:.3g} with {ticket.finder['units'][worst]} units" in str(
            caught[0].message
        )
        assert caught[0].filename == __file__
        assert set(ticket.finder["units"].values()) == {6 * 8, 6 * 9}

    @pytest.mark.parametrize("samples", [None, inputs("GPT2LMHeadModel")], ids=["without samples", "samples"])
    def test_a_budget_is_spent_and_not_exceeded(self, samples):
        budget = 1003
        ticket = construct.model(small(), budget=budget, samples=samples, refine=0, layers="all")
        units = ticket.finder["units"]
        assert budget - 9 < sum(units.values()) <= budget
        assert all(
            n % min(matrix.shape) == 0 for n, matrix in zip(units.values(), own_matrices(small()).values(), strict=True)
        )
        assert min(units.values()) >= 4 * 8

    def test_more_than_enough_budget_is_not_spent(self, monkeypatch):
        from strongticket.construct.models import plan

        monkeypatch.setattr(plan, "MOST_ITEMS", 6)
        units = construct.model(small(), budget=10**6, refine=0, layers="all").finder["units"]
        assert set(units.values()) == {6 * 8, 6 * 9}

    def test_a_budget_goes_where_it_matters(self):
        errors = []
        for seed in range(3):
            model = example("GPT2LMHeadModel", d=16, heads=2, inner=24, seed=seed)
            model.transformer.h[0].mlp.c_proj.weight.data *= 20
            given = {"input_ids": torch.arange(40).reshape(4, 10)}
            wanted = states(model, given)[-1]
            equal = construct.model(model, items=10, refine=0, layers="all", seed=seed)
            budget = sum(equal.finder["units"].values())
            spent = construct.model(model, budget=budget, samples=given, refine=0, layers="all", seed=seed)
            units = spent.finder["units"]
            assert units["transformer.h.0.mlp.c_proj"] > 1.2 * units["transformer.h.1.mlp.c_proj"]
            assert sum(units.values()) <= budget
            errors.append([float((states(t.module("merged"), given)[-1] - wanted).norm()) for t in (equal, spent)])
        assert np.mean(errors, axis=0)[1] < np.mean(errors, axis=0)[0]

    @pytest.mark.parametrize("cls", BOTH)
    def test_the_merged_model_is_the_model(self, cls):
        model, given = made(cls)[0], inputs(cls)
        merged, _ = merged_model(read_model(model, "all"))
        real = given["attention_mask"].bool()
        with torch.inference_mode():
            torch.testing.assert_close(merged(**given)[0][real], model(**given)[0][real], atol=1e-4, rtol=1e-4)

    def test_sensitivity_is_what_noise_on_the_parameters_shows(self):
        model, given = made("GPT2LMHeadModel")[0], inputs("GPT2LMHeadModel")
        before = {name: weight.clone() for name, weight in model.state_dict().items()}
        found = measured_sensitivity(read_model(model, "all"), given, seed=3)
        assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
        wanted, real = states(model, given)[-1], given["attention_mask"].bool()
        generator = torch.Generator().manual_seed(4)
        for name in ("transformer.h.0.mlp.c_fc", "transformer.h.1.mlp.c_proj"):
            changes = []
            for _ in range(10):
                noisy = copy.deepcopy(model)
                layer = noisy.get_submodule(name)
                size = 0.001 * float(torch.cat([layer.weight.flatten(), layer.bias]).detach().square().mean().sqrt())
                for weight in (layer.weight, layer.bias):
                    weight.data += size * torch.randn(weight.shape, generator=generator)
                change = (states(noisy, given)[-1] - wanted)[real]
                changes.append(float(change.square().sum(dim=-1).mean()) / 0.001**2)
            assert 0.4 < found[name] / np.mean(changes) < 2.5


WRONG = [
    ({"items": 4, "budget": 9}, "give one of items, widths and budget, got items and budget"),
    ({"items": 4, "widths": {}}, "got items and widths"),
    ({"items": 0}, "items must be between 1 and 40, got 0"),
    ({"items": 41}, "items must be between 1 and 40, got 41"),
    ({"tol": 0.0}, "tol must be a positive entry error, got 0.0"),
    ({"tol": -1.0}, "tol must be a positive entry error, got -1.0"),
    ({"tol": math.nan}, "tol must be a positive entry error, got nan"),
    ({"tol": 0.1, "budget": 10**4}, "give tol, .* or a budget, not both"),
    ({"budget": 391}, "budget must be at least 392 units, 4 for every column, got 391"),
    ({"workers": 0}, "workers must be at least 1, got 0"),
    ({"samples": {"input_ids": None}}, "samples tell a budget where to be spent"),
    ({"refine": -1}, "refine must be a number of rounds"),
    ({"layers": "heads"}, "layers must be one of 'attention', 'all', got 'heads'"),
    ({"widths": {"key": 64}}, "kinds qk, vo, up, down or for names of pairs, got 'key'"),
    (
        {"widths": {"qk": 64, "up": 64, "down": 64}},
        r"how many units transformer\.h\.0\.attn\.heads\.0\.vo gets; add 'vo'",
    ),
    ({"widths": {"qk": 64, "vo": 64, "up": 8, "down": 8}}, r"c_fc must be between 9 and 360, .* 9 columns, got 8"),
    ({"widths": {"qk": 321, "vo": 64, "up": 64, "down": 64}}, r"qk must be between 8 and 320, .* got 321"),
]


class TestRefused:
    @pytest.mark.parametrize(("settings", "message"), WRONG, ids=[str(settings) for settings, _ in WRONG])
    def test_wrong_settings_before_any_work(self, settings, message, monkeypatch, tmp_path):
        monkeypatch.setattr(Job, "run", lambda job: pytest.fail(f"{job.name} was made"))
        with pytest.raises(ValueError, match=message):
            construct.model(small(), **{"layers": "all", "folder": tmp_path / "parts"} | settings)
        assert not (tmp_path / "parts").exists()

    def test_other_classes(self):
        with pytest.raises(ValueError, match=r"classes BertModel, .*, got Linear"):
            construct.model(torch.nn.Linear(2, 2))
