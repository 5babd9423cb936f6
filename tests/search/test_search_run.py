"""Whole runs: from settings to a ticket, killed and resumed, on two processes, and from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from strongticket.search import SearchSettings, run_search
from strongticket.search.generation import generate
from strongticket.search.run import random_model
from strongticket.search.training import last_checkpoint
from strongticket.ticket import Ticket

for package in ("transformers", "tokenizers", "accelerate"):
    pytest.importorskip(package)

pytestmark = pytest.mark.filterwarnings("default")

TINY = {
    "model": "gpt2-tiny",
    "width": 32,
    "layers": 2,
    "heads": 2,
    "length": 32,
    "batch": 4,
    "steps": 30,
    "every": 10,
    "tokenizer": "bpe:300",
    "seed": 1,
}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A short corpus with something to learn."""
    rng = np.random.default_rng(0)
    nouns, verbs = ["ticket", "weight", "mask", "seed"], ["keeps", "finds", "draws"]
    lines = [f"the {rng.choice(nouns)} {rng.choice(verbs)} the {rng.choice(nouns)}.\n" for _ in range(700)]
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("".join(lines))
    return f"file:{path}"


@pytest.fixture(scope="module")
def finished(text, tmp_path_factory):
    """An uninterrupted run with dense training beside it."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    numbers = run_search(SearchSettings(**TINY, corpus=text, with_dense=True), out)
    torch.set_num_threads(before)
    return out, numbers


def arguments(text, out, **changes):
    options = {**TINY, "corpus": text, "threads": 1, **changes}
    flags = [str(part) for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    return ["search", *flags, "--out", str(out)]


def command(*words):
    main = (
        "from strongticket.cli import app, generate, search\n"
        "from strongticket.cli.output import report_errors\n"
        "known = {c.name for c in app.registered_commands}\n"
        "for module in (search, generate):\n"
        "    name = module.__name__.rpartition('.')[2]\n"
        "    name in known or app.command(name)(module.command)\n"
        "with report_errors(): app()"
    )
    return [sys.executable, "-c", main, *map(str, words)]


def test_a_run_ends_in_a_ticket_that_is_the_model(finished, text):
    out, numbers = finished
    assert numbers["loss"] < numbers["loss_unpruned"] - 0.5
    assert numbers["loss_dense"] < numbers["loss_unpruned"]
    assert set(numbers) >= {"loss", "loss_unpruned", "loss_dense", "density", "ticket", "bytes", "roles"}
    assert json.loads((out / "result.json").read_text()) == numbers
    ticket = Ticket.from_pretrained(numbers["ticket"])
    assert ticket.verify().ok
    assert ticket.density()["all"] == pytest.approx(numbers["density"])
    weights = sum(entry.source.size for entry in ticket.entries.values())
    assert abs(numbers["density"] * weights - 0.3 * weights) <= 1
    assert numbers["roles"]["masked"]["weights"] == weights
    from transformers import GPT2LMHeadModel

    trained = GPT2LMHeadModel.from_pretrained(last_checkpoint(out)).state_dict()
    for name, value in ticket.module().state_dict().items():
        assert torch.equal(value, trained[name]), name
    assert (out / "tensorboard").is_dir()


def test_query_and_key_are_scaled_in_the_ticket(finished):
    ticket = Ticket.from_pretrained(finished[0] / "ticket")
    law = {name.rpartition("/")[2]: entry.source.law.s for name, entry in ticket.entries.items() if ".0.attn" in name}
    assert law["query"] == law["key"] == pytest.approx(law["value"] * 16**0.25)


def test_frozen_and_random_weights_come_from_the_seed(finished, text):
    settings = SearchSettings(**TINY, corpus=text).resolved()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(finished[0] / "ticket" / "tokenizer"))
    model, _ = random_model(settings, tokenizer)
    found = Ticket.from_pretrained(finished[0] / "ticket").module()
    for (name, weight), (_, kept) in zip(model.named_parameters(), found.named_parameters(), strict=True):
        assert torch.equal(kept, torch.where(kept != 0, weight, 0.0)), name


def kill_after(text, out, checkpoint, delay):
    """Start a run and kill it some time after a checkpoint; whether it was still running then."""
    process = subprocess.Popen(command(*arguments(text, out)), env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    wanted = out / "checkpoints" / f"checkpoint-{checkpoint}"
    while not wanted.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(delay)
    running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return running


def check_resumed(finished, text, out):
    again = subprocess.run(
        [*command(*arguments(text, out)), "--resume", "--json"], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert again.returncode == 0, again.stderr
    numbers = json.loads(again.stdout)
    assert numbers["loss"] == finished[1]["loss"]
    expected, found = (Ticket.from_pretrained(folder / "ticket") for folder in (finished[0], out))
    assert found.digest == expected.digest


def test_killed_and_resumed_gives_the_same_masks(finished, text, tmp_path):
    out = tmp_path / "killed"
    assert kill_after(text, out, 20, 0.0)
    assert last_checkpoint(out) is not None
    assert not (out / "result.json").exists()
    (out / "checkpoints" / "checkpoint-9999").mkdir()  # what a kill in the middle of saving leaves
    check_resumed(finished, text, out)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.1, 0.2])
@pytest.mark.parametrize("checkpoint", [10, 20])
def test_killed_at_other_moments(finished, text, tmp_path, checkpoint, delay):
    kill_after(text, tmp_path / "killed", checkpoint, delay)
    check_resumed(finished, text, tmp_path / "killed")


def test_two_processes_agree_with_one(finished, text, tmp_path):
    script = tmp_path / "both.py"
    script.write_text(
        "import sys, torch, numpy as np\n"
        "torch.set_num_threads(1)\n"
        "from strongticket.search import EdgePopup, SearchSettings, run_search\n"
        "import strongticket.search.run as run, os, json\n"
        "made = []\n"
        "class Kept(EdgePopup):\n"
        "    def __init__(self, *a, **k):\n"
        "        super().__init__(*a, **k); made.append(self)\n"
        "run.FINDERS['edge-popup'] = Kept\n"
        "settings = SearchSettings.from_dict(json.loads(sys.argv[1]))\n"
        "numbers = run_search(settings, sys.argv[2])\n"
        "rank = os.environ['RANK']\n"
        "np.savez(f'{sys.argv[2]}/rank{rank}.npz', **{n: m.numpy() for n, m in made[0].masks().items()})\n"
        "json.dump(numbers['loss'], open(f'{sys.argv[2]}/loss{rank}.json', 'w'))\n"
    )
    out = tmp_path / "both"
    settings = json.dumps(SearchSettings(**TINY, corpus=text).to_dict())
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0",
         "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(script), settings, str(out)],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    first, second = (np.load(out / f"rank{rank}.npz") for rank in (0, 1))
    assert len(first.files) == 10
    assert all(np.array_equal(first[name], second[name]) for name in first.files)
    losses = [json.loads((out / f"loss{rank}.json").read_text()) for rank in (0, 1)]
    assert losses[0] == losses[1]
    assert losses[0] == pytest.approx(finished[1]["loss"], rel=2e-3)


def test_the_same_folder_is_not_used_twice(finished, text, tmp_path):
    out = finished[0]
    settings = SearchSettings(**TINY, corpus=text, with_dense=True)
    with pytest.raises(ValueError, match="this run already; add --resume"):
        run_search(settings, out)
    with pytest.raises(ValueError, match="holds another run"):
        run_search(SearchSettings(**(TINY | {"seed": 2}), corpus=text, with_dense=True), out, resume=True)
    assert run_search(settings, out, resume=True) == finished[1]
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="not an empty folder"):
        run_search(settings, tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"density": 0.0}, "density"),
        ({"density": 1.01}, "density"),
        ({"model": "gpt3"}, "known: gpt2-tiny, gpt2-mini, gpt2-small, gpt2-medium"),
        ({"corpus": "shakespeare"}, "known: embedded"),
        ({"corpus": "file:nowhere"}, "no such file"),
        ({"length": 4096}, "longer than the model's 1024 positions"),
        ({"heads": 5}, "multiple of the number of heads"),
        ({"heads": 0}, "heads"),
        ({"recipe": "worst"}, "known: paper, best, sigmoid"),
        ({"preset": "phone"}, "known: paper, laptop"),
        ({"finder": "magic"}, "known: edge-popup, sigmoid"),
        ({"tokenizer": "words"}, "unknown tokenizer"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"batch": 7, "micro_batch": 2}, "cannot be split evenly"),
        ({"qk_scale": -1.0}, "qk_scale"),
        ({"init": "zeros"}, "unknown init"),
    ],
)
def test_mistakes_are_found_before_any_work(changes, words, text, tmp_path):
    with pytest.raises((ValueError, OSError), match=words):
        run_search(SearchSettings(**({**TINY, "corpus": text} | changes)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_little_text(tmp_path):
    (tmp_path / "short.txt").write_text("one\ntwo\n")
    with pytest.raises(ValueError, match="more text"):
        run_search(SearchSettings(**TINY, corpus=f"file:{tmp_path}/short.txt"), tmp_path / "out")


def test_the_paper_preset_is_literal():
    settings = SearchSettings(preset="paper", recipe="paper").resolved()
    assert (settings.steps, settings.warmup, settings.length) == (50 * 227, 227, 1024)
    assert (settings.lr, settings.lr_end, settings.density) == (1e-4, 1e-5, 0.3)
    assert (settings.finder, settings.init, settings.selection, settings.score_init) == (
        "edge-popup",
        "gpt2",
        "layer",
        "kaiming",
    )
    assert SearchSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


def test_commands(finished, tmp_path):
    wrong = subprocess.run(
        command("search", "--density", "0", "--out", tmp_path / "x"), env=ENVIRONMENT, capture_output=True, text=True
    )
    assert wrong.returncode == 2
    assert wrong.stderr.count("\n") == 1
    assert "density" in wrong.stderr
    wrote = subprocess.run(
        command("generate", finished[0] / "ticket", "--prompt", "the ticket", "--tokens", "8", "--json"),
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert wrote.returncode == 0, wrote.stderr
    assert json.loads(wrote.stdout)["text"].startswith("the ticket")


def test_generation_is_repeatable_and_outlives_the_positions(finished):
    assert generate(finished[0], "the", seed=3) == generate(finished[0] / "ticket", "the", seed=3)
    assert generate(finished[0], "the", tokens=5, temperature=0.0).startswith("the")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        generate(Path("nowhere"), "the")


@pytest.mark.parametrize("recipe", ["paper", "sigmoid"])
def test_other_recipes_run(recipe, text, tmp_path):
    numbers = run_search(
        SearchSettings(**(TINY | {"steps": 6, "every": 6}), corpus=text, recipe=recipe), tmp_path / "x"
    )
    assert numbers["density"] == pytest.approx(0.3, abs=0.05)
    assert Ticket.from_pretrained(numbers["ticket"]).finder["name"] == (
        "sigmoid" if recipe == "sigmoid" else "edge-popup"
    )
