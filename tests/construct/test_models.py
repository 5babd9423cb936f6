"""Whole BERT and GPT-2 models found in random weights, saved, and read in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from model_examples import (
    BLOCKS,
    BOTH,
    HEADS,
    dense_model,
    example,
    inputs,
    made,
    own_matrices,
    products,
    states,
)

from strongticket import construct
from strongticket.ticket import Ticket

transformers = pytest.importorskip("transformers")


pytestmark = pytest.mark.usefixtures("one_thread")


class TestFound:
    @pytest.mark.parametrize("mode", ["pruned", "merged"])
    @pytest.mark.parametrize("cls", BOTH)
    def test_the_certificate_covers_the_errors_after_every_block(self, cls, mode):
        (model, ticket), given = made(cls), inputs(cls)
        certificate = construct.certify(model, ticket, given)
        after = [
            term.value for term in certificate.terms if term.what == "output error" and term.where.startswith("block")
        ]
        wanted, got = states(model, given), states(ticket.module(mode), given)
        assert certificate.useful
        assert certificate.bound < 10
        for a, b, bound in zip(wanted, got, [*after, certificate.bound], strict=True):
            assert 0 < float((a - b).norm(dim=-1).max()) <= bound

    @pytest.mark.parametrize("cls", BOTH)
    def test_the_outputs_are_close_to_the_model_s(self, cls):
        (model, ticket), given = made(cls), inputs(cls)
        real = given["attention_mask"].bool()
        with torch.inference_mode():
            wanted, got = model(**given)[0][real], ticket.module()(**given)[0][real]
        assert wanted.std() > 0.5
        torch.testing.assert_close(got, wanted, atol=5e-3, rtol=0)

    @pytest.mark.parametrize("cls", BOTH)
    def test_pruned_merged_and_dense_agree(self, cls):
        (model, ticket), given = made(cls), inputs(cls)
        pruned, merged = ticket.module("pruned"), ticket.module("merged")
        assert type(pruned) is type(merged) is type(model)
        with torch.inference_mode():
            torch.testing.assert_close(pruned(**given)[0], merged(**given)[0], atol=1e-4, rtol=1e-4)
        wanted = states(dense_model(model, products(ticket)), given)
        for found, tolerance in ((pruned, 1e-9), (merged, 1e-5)):
            for a, b in zip(states(found, given), wanted, strict=True):
                torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)

    @pytest.mark.parametrize("cls", BOTH)
    def test_the_recorded_errors_are_those_of_the_dense_matrices(self, cls):
        model, ticket = made(cls)
        wanted, found = own_matrices(model), products(ticket)
        assert wanted.keys() == found.keys() == ticket.finder["max_error"].keys()
        for name, target in wanted.items():
            error = target - found[name]
            assert ticket.finder["max_error"][name] == pytest.approx(np.abs(error).max(), abs=1e-13)
            relative = np.linalg.norm(error) / np.linalg.norm(target)
            assert ticket.finder["relative_error"][name] == pytest.approx(relative, rel=1e-6)
            assert relative < 1e-4

    @pytest.mark.parametrize("cls", BOTH)
    def test_it_verifies_and_its_source_digests_are_right(self, cls):
        ticket = made(cls)[1]
        assert ticket.verify().ok
        again = Ticket(ticket.entries, ticket.kept, ticket.architecture)
        assert again.source_digests() == ticket.source_digests()

    @pytest.mark.parametrize("cls", BOTH)
    def test_attention_alone_keeps_the_feed_forward_parameters(self, cls):
        model = example(cls)
        before = {name: weight.clone() for name, weight in model.state_dict().items()}
        ticket = construct.model(model, items=4, refine=0)
        feed = ["intermediate.dense", "output.dense"] if cls == "BertModel" else ["mlp.c_fc", "mlp.c_proj"]
        names = [name for name in before if any(f".{part}." in name for part in feed) and "attention" not in name]
        assert len(names) == 4 * BLOCKS
        assert all(np.array_equal(ticket.kept[name], before[name].numpy()) for name in names)
        assert len(ticket.pairs) == 2 * BLOCKS * HEADS
        assert not set(names) & set(made(cls)[1].kept)
        assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


READER = """
import sys, torch
from strongticket.ticket import Ticket
torch.set_num_threads(1)
folder = sys.argv[1]
given = torch.load(f"{folder}/inputs.pt", weights_only=True)
found = {}
with torch.inference_mode():
    for cls in given:
        ticket = Ticket.from_pretrained(f"{folder}/{cls}")
        for mode in ("pruned", "merged"):
            module = ticket.module(mode)
            out = module(**given[cls])
            found[cls, mode] = {"class": type(module).__name__, "out": out[0], "digest": ticket.digest}
            if cls == "BertModel":
                found[cls, mode]["pooled"] = out.pooler_output
            else:
                ids = given[cls]["input_ids"][:1, :4]
                found[cls, mode]["text"] = module.generate(ids, max_new_tokens=12, do_sample=False, use_cache=True)
torch.save(found, f"{folder}/found.pt")
"""


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for cls in BOTH:
        made(cls)[1].save_pretrained(folder / cls)
    torch.save({cls: inputs(cls) for cls in BOTH}, folder / "inputs.pt")
    command = [sys.executable, "-W", "error", "-c", READER, str(folder)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": "99"})
    return torch.load(folder / "found.pt", weights_only=True)


class TestSaved:
    @pytest.mark.parametrize("mode", ["pruned", "merged"])
    @pytest.mark.parametrize("cls", BOTH)
    def test_a_fresh_process_gives_the_same_outputs_bit_for_bit(self, read, cls, mode):
        found, ticket = read[cls, mode], made(cls)[1]
        with torch.inference_mode():
            out = ticket.module(mode)(**inputs(cls))
        assert (found["class"], found["digest"]) == (cls, ticket.digest)
        assert torch.equal(found["out"], out[0])
        if cls == "BertModel":
            assert torch.equal(found["pooled"], out.pooler_output)

    @pytest.mark.parametrize("mode", ["pruned", "merged"])
    def test_text_is_generated_as_without_a_cache_and_in_memory(self, read, mode):
        text = read["GPT2LMHeadModel", mode]["text"]
        model, ticket = made("GPT2LMHeadModel")
        module, start = ticket.module(mode), text[:, :4]
        settings = {"max_new_tokens": 12, "do_sample": False}
        assert torch.equal(module.generate(start, use_cache=True, **settings), text)
        assert torch.equal(module.generate(start, use_cache=False, **settings), text)
        assert torch.equal(model.generate(start, **settings), text)
        assert text.shape[1] > 4
