"""The commands ``strongticket ticket …``."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import safetensors.torch
import torch
from ticket_examples import CONSTRUCTED, MODELS, constructed, found, output

from strongticket.cli.output import report_errors
from strongticket.cli.ticket import app
from strongticket.ticket import Ticket


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments):
        with pytest.raises(SystemExit) as ended, report_errors():
            app([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return ended.value.code or 0, shown.out, shown.err

    return call


@pytest.fixture
def folder(tmp_path):
    constructed("relu")[1].save_pretrained(tmp_path / "relu")
    return tmp_path / "relu"


def test_show(run, folder):
    code, out, _ = run("show", folder)
    assert code == 0
    ticket = constructed("relu")[1]
    for words in ("relu", "construct", "first", "second", "rows", "uniform", "bit per weight", ticket.digest):
        assert words in out
    code, out, _ = run("show", folder, "--json")
    numbers = json.loads(out)
    assert numbers["digest"] == ticket.digest
    assert numbers["density"] == ticket.density()["all"]
    assert [mask["count"] for mask in numbers["masks"]] == [entry.count for entry in ticket.entries.values()]
    assert numbers["bytes"]["ticket"] == sum(file.stat().st_size for file in folder.iterdir())


def test_verify(run, folder):
    code, out, _ = run("verify", folder)
    assert code == 0
    assert "largest error of an entry" in out
    numbers = json.loads(run("verify", folder, "--json")[1])
    assert numbers["ok"]
    assert numbers["max_error"] == pytest.approx(constructed("relu")[0].max_error)


def test_verify_a_ticket_that_draws_other_weights(run, tmp_path):
    ticket = constructed("relu")[1]
    ticket = Ticket(ticket.entries, ticket.kept, ticket.architecture, ticket.finder)
    ticket._source_digests = dict.fromkeys(ticket.entries, "0" * 64)
    ticket.save_pretrained(tmp_path)
    code, _, err = run("verify", tmp_path)
    assert code == 2
    assert "does not verify: first, second" in err
    code, out, _ = run("verify", tmp_path, "--json")
    assert code == 2
    assert not json.loads(out)["ok"]


def test_diff(run, folder, tmp_path):
    ticket = constructed("relu")[1]
    mask = ticket.entries["second"].mask.copy()
    mask[0, :3] ^= True
    other = Ticket(
        {**ticket.entries, "second": (ticket.entries["second"].source, mask)},
        {"target/pair": np.zeros((4, 12))},
        ticket.architecture | {"nonnegative": True},
        {"name": "other"},
    )
    other.save_pretrained(tmp_path / "other")
    code, out, _ = run("diff", folder, folder)
    assert code == 0
    assert "the same model" in out
    code, out, _ = run("diff", folder, tmp_path / "other")
    assert code == 0
    for words in ("different models", "second", "3 of", "target/pair", "nonnegative", "max_error"):
        assert words in out
    numbers = json.loads(run("diff", folder, tmp_path / "other", "--json")[1])
    assert not numbers["same"]
    assert {mask["name"]: mask["differing"] for mask in numbers["masks"]} == {"first": 0, "second": 3}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", MODELS)
def test_export_loads_in_plain_transformers(run, name, tmp_path):
    model, ticket, x = found(name)
    ticket.save_pretrained(tmp_path / "ticket")
    code, out, _ = run("export", tmp_path / "ticket", "--to", tmp_path / "model")
    assert code == 0
    assert name in out
    if name != "BertForMaskedLM":
        import transformers

        transformers.utils.logging.disable_progress_bar()
        plain = getattr(transformers, name).from_pretrained(tmp_path / "model").eval()
        assert torch.equal(output(plain, x), output(model, x))
        return
    code = (
        "import sys, torch, transformers\n"
        "torch.set_num_threads(1)\n"
        "model, info = transformers.BertForMaskedLM.from_pretrained(sys.argv[1], output_loading_info=True)\n"
        "assert not any(info.values()), info\n"
        "assert 'strongticket' not in sys.modules\n"
        "x = torch.arange(10)[None] * 5\n"
        "with torch.inference_mode(): torch.save(model.eval()(x)[0], sys.argv[2])\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model"), str(tmp_path / "out.pt")], check=True, capture_output=True
    )
    assert torch.equal(torch.load(tmp_path / "out.pt", weights_only=True), output(model, x))


@pytest.mark.parametrize("kind", CONSTRUCTED)
def test_export_loads_in_plain_torch(run, kind, tmp_path):
    _, ticket, x = constructed(kind)
    ticket.save_pretrained(tmp_path / "ticket")
    assert run("export", tmp_path / "ticket", "--to", tmp_path / "model")[0] == 0
    state = safetensors.torch.load_file(tmp_path / "model" / "model.safetensors")
    wanted = ticket.module()
    fresh = ticket.module()
    for buffer in fresh.buffers():
        buffer.zero_()
    fresh.load_state_dict(state)
    assert torch.equal(output(fresh, x), output(wanted, x))
    assert json.loads((tmp_path / "model" / "config.json").read_text()) == ticket.architecture


def test_errors_are_one_line(run, folder, tmp_path):
    (folder / "config.json").write_text("{}")
    for arguments, message in (
        (("show", tmp_path / "nothing"), "is no folder"),
        (("verify", tmp_path), "ticket.safetensors: is missing"),
        (("show", folder), "config.json: says something else"),
        (("diff", folder, tmp_path), "config.json: says something else"),
    ):
        code, out, err = run(*arguments)
        assert code == 2
        assert out == ""
        assert message in err
        assert len(err.splitlines()) == 1


def test_export_does_not_overwrite(run, tmp_path):
    constructed("relu")[1].save_pretrained(tmp_path / "ticket")
    code, _, err = run("export", tmp_path / "ticket", "--to", tmp_path / "ticket")
    assert code == 2
    assert "not an empty folder" in err


def test_max_bytes(run, folder):
    code, _, err = run("show", folder, "--max-bytes", "100")
    assert code == 2
    assert "more than max_bytes=100" in err
