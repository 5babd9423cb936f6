"""The command ``strongticket construct``, from a model's folder to a ticket and its numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from strongticket import construct
from strongticket.cli import main
from strongticket.construct.models import loading
from strongticket.construct.models.job import Job
from strongticket.ticket import Ticket

transformers = pytest.importorskip("transformers")

WORDS = ["[PAD]", "[UNK]", *["the", "a", "cat", "dog", "tree", "house", "sees", "likes", "old", "red"]]
TEXTS = ["the cat sees a dog", "a red house", "the old dog likes the red tree", "the cat likes the house"]
D, HEADS, INNER, BLOCKS = 8, 2, 12, 2
PAIRS = BLOCKS * (2 * HEADS + 2)
ENTRIES = BLOCKS * (2 * HEADS * D * (D + 1) + INNER * (D + 1) + D * (INNER + 1))
COLUMNS = BLOCKS * (2 * HEADS * D + D + 1 + D)
QUICK = ("--items", 6, "--refine", 2, "--layers", "all")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command as the shell does: its exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["strongticket", "construct", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        return end.value.code or 0, shown.out, shown.err

    return run


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder of a small BERT and its tokenizer."""
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("models") / "bert"
    sizes = {
        "max_position_embeddings": 64,
        "hidden_size": D,
        "num_hidden_layers": BLOCKS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
    }
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=len(WORDS), **sizes))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(folder)
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n\n".join(TEXTS) + "\n   \n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def digest(bert):
    """Of the masks that the command must find."""
    return construct.model(loading.load_model(str(bert)), items=6, refine=2, layers="all").digest


def test_numbers_of_a_ticket_and_its_comparison(run, bert, texts, digest, tmp_path):
    out = tmp_path / "out"
    code, shown, errors = run(bert, *QUICK, "--out", out, "--compare", texts, "--json")
    assert code == 0, errors
    numbers = json.loads(shown)
    assert {path.name for path in out.iterdir()} == {"config.json", "ticket.safetensors"}
    ticket = Ticket.from_pretrained(out)
    assert ticket.digest == digest
    assert {key: numbers[key] for key in ("ticket", "pairs", "entries", "units")} == {
        "ticket": str(out),
        "pairs": PAIRS,
        "entries": ENTRIES,
        "units": 6 * COLUMNS,
    }
    assert numbers["random_weights"] == sum(entry.source.size for entry in ticket.entries.values())
    assert numbers["entries_per_second"] == pytest.approx(ENTRIES / numbers["seconds"])
    assert numbers["max_error"] == max(ticket.finder["max_error"].values())
    assert numbers["bytes"] == sum(path.stat().st_size for path in out.iterdir())
    original = transformers.BertForMaskedLM.from_pretrained(bert).eval()
    assert numbers["bytes_of_model"] == 4 * sum(weight.numel() for weight in original.parameters())
    assert [layer["layer"] for layer in numbers["report"]["layers"]] == [
        f"bert.encoder.layer.{block}.{part}"
        for block in range(BLOCKS)
        for part in ("attention", "intermediate.dense", "output.dense")
    ]
    assert max(layer["max_error"] for layer in numbers["report"]["layers"]) == pytest.approx(numbers["max_error"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    real = inputs["attention_mask"].bool()
    with torch.inference_mode():
        wanted, got = (m.base_model(**inputs)[0][real] for m in (original, ticket.module("merged")))
    error = float((got - wanted).norm() / wanted.norm())
    assert numbers["report"]["output_error"] == pytest.approx(error, rel=1e-3)
    compared = construct.compare_models(original, ticket.module("merged"), tokenizer, TEXTS)
    assert numbers["comparison"] == pytest.approx(compared.to_dict())
    assert numbers["comparison"]["texts"] == len(TEXTS)


def test_tables_and_modes(run, bert, texts, tmp_path):
    code, shown, errors = run(bert, *QUICK, "--out", tmp_path / "out", "--compare", texts, "--mode", "pruned")
    assert code == 0, errors
    assert f"{PAIRS} pairs, {ENTRIES:,} entries in " in shown
    for words in (
        "Ticket against model",
        "bert.encoder.layer.1.output.dense",
        "Compared on 4 texts",
        "same largest output",
    ):
        assert words in shown


def test_without_texts_and_report_only_numbers_are_shown(run, bert, tmp_path):
    code, shown, errors = run(bert, "--items", 4, "--refine", 0, "--out", tmp_path / "out", "--no-report", "--json")
    assert code == 0, errors
    numbers = json.loads(shown)
    assert numbers["pairs"] == PAIRS
    assert not {"report", "comparison"} & set(numbers)


def test_attention_alone(run, bert, tmp_path):
    code, shown, errors = run(
        bert, "--items", 4, "--refine", 0, "--layers", "attention", "--out", tmp_path / "o", "--json"
    )
    assert code == 0, errors
    assert json.loads(shown)["pairs"] == 2 * BLOCKS * HEADS
    assert Ticket.from_pretrained(tmp_path / "o").architecture["layers"] == "attention"


@pytest.mark.parametrize("with_samples", [True, False], ids=["samples", "no samples"])
def test_a_budget_is_spent_where_the_samples_say(run, bert, texts, tmp_path, with_samples):
    samples = ("--samples", texts) if with_samples else ()
    code, shown, errors = run(bert, "--budget", 900, *samples, "--refine", 0, "--out", tmp_path / "o", "--json")
    assert code == 0, errors
    numbers = json.loads(shown)
    assert 900 - D - 1 < numbers["units"] <= 900
    inputs = transformers.AutoTokenizer.from_pretrained(bert)(TEXTS, padding=True, return_tensors="pt")
    model = loading.load_model(str(bert))
    same = construct.model(
        model, budget=900, samples=dict(inputs) if with_samples else None, refine=0, layers="all"
    ).finder["units"]
    assert Ticket.from_pretrained(tmp_path / "o").finder["units"] == same
    assert (numbers["report"]["output_error"] is not None) == with_samples


def test_texts_longer_than_the_model_can_take_are_cut(run, bert, tmp_path):
    long = tmp_path / "long.txt"
    long.write_text("\n".join(" ".join([text] * 30) for text in TEXTS))
    code, shown, errors = run(bert, *QUICK, "--out", tmp_path / "o", "--compare", long, "--json")
    assert code == 0, errors
    assert json.loads(shown)["comparison"]["texts"] == len(TEXTS)


def test_a_name_that_is_neither_a_folder_nor_on_the_hub_is_one_line(run, tmp_path, monkeypatch):
    def offline(place, **_):
        raise OSError(f"We couldn't connect to the hub for {place}.\nCheck your connection.")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", offline)
    code, shown, errors = run("models/bert", *QUICK, "--out", tmp_path / "o")
    assert (code, shown) == (2, "")
    assert errors.strip().count("\n") == 0
    assert "models/bert is no folder, and the hub gave no model of that name" in errors


def test_a_stopped_command_goes_on_and_removes_its_parts(run, bert, digest, tmp_path, monkeypatch):
    out, solve, made = tmp_path / "out", Job.run, []

    def stop(job):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(job.name)
        return solve(job)

    monkeypatch.setattr(Job, "run", stop)
    code, _, _ = run(bert, *QUICK, "--out", out, "--jobs", 1)
    assert code not in (0, 2)
    left = len(list((out / "parts").glob("*.npz")))
    assert left == 3
    again = []
    monkeypatch.setattr(Job, "run", lambda job: again.append(job.name) or solve(job))
    code, _, errors = run(bert, *QUICK, "--out", out)
    assert code == 0, errors
    assert len(again) == PAIRS - left
    assert not set(again) & set(made)
    assert not (out / "parts").exists()
    assert Ticket.from_pretrained(out).digest == digest


def test_tickets_are_never_overwritten_nor_models_loaded_for_it(run, bert, tmp_path, monkeypatch):
    (tmp_path / "ticket.safetensors").write_bytes(b"a ticket")
    monkeypatch.setattr(loading, "load_model", lambda place: pytest.fail(f"{place} was loaded"))
    code, shown, errors = run(bert, *QUICK, "--out", tmp_path)
    assert (code, shown) == (2, "")
    assert errors.startswith("error: ")
    assert "holds a ticket already" in errors
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"a ticket"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tol", 0], "tol must be a positive entry error, got 0.0"),
        (["--tol", 0.1, "--budget", 9999], "give tol, which widens pairs until every entry is within it, or a budget"),
        (["--items", 4, "--budget", 9999], "give one of items, widths and budget, got items and budget"),
        (["--items", 41], "items must be between 1 and 40, got 41"),
        (["--budget", 10], "budget must be at least"),
        (["--mode", "dense"], "mode must be merged or pruned, got 'dense'"),
        (["--cluster", "ray://x:1"], "a cluster is given as dask://HOST:PORT, got 'ray://x:1'"),
        (["--layers", "heads"], "layers must be one of 'attention', 'all', got 'heads'"),
        (["--jobs", 0], "workers must be at least 1, got 0"),
        (["--refine", -1], "refine must be a number of rounds"),
        (["--compare", "EMPTY"], "must hold texts, one per line, but is empty"),
        (["--samples", "EMPTY"], "must hold texts, one per line, but is empty"),
        (["--compare", "TWO"], "must hold at least 3 texts to compare, got 2"),
        (["--compare", "MISSING"], "No such file"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line_and_touch_no_file(run, bert, tmp_path, arguments, message):
    (tmp_path / "empty.txt").write_text("\n  \n")
    (tmp_path / "two.txt").write_text("one\ntwo\n")
    files = {name.upper(): tmp_path / f"{name}.txt" for name in ("empty", "missing", "two")}
    code, shown, errors = run(bert, "--out", tmp_path / "out", *(files.get(word, word) for word in arguments))
    assert (code, shown) == (2, "")
    assert errors.startswith("error: ")
    assert len(errors.splitlines()) == 1
    assert message in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "two.txt"]


class TestLoading:
    @pytest.mark.parametrize("place", ["./nowhere", "/nowhere/at/all", "~/nowhere"])
    def test_missing_folders_are_named(self, run, tmp_path, place):
        code, shown, errors = run(place, "--out", tmp_path / "out")
        assert (code, shown) == (2, "")
        assert errors.strip().startswith(f"error: {place} is no folder")
        assert len(errors.splitlines()) == 1
        assert not (tmp_path / "out").exists()

    def test_other_classes_are_refused_by_name(self, run, tmp_path):
        config = transformers.BertConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, vocab_size=9)
        transformers.BertForMultipleChoice(config).save_pretrained(tmp_path / "model")
        code, _, errors = run(tmp_path / "model", "--out", tmp_path / "out")
        assert code == 2
        assert "class BertForMultipleChoice; those that can be constructed are BertModel, BertForMask" in errors

    def test_the_class_of_the_configuration_in_float32(self, bert, tmp_path):
        model = loading.load_model(str(bert))
        assert type(model) is transformers.BertForMaskedLM
        assert not model.training
        model.half().save_pretrained(tmp_path)
        half = loading.load_model(str(tmp_path))
        assert {weight.dtype for weight in half.parameters()} == {torch.float32}
        weights = torch.nn.utils.parameters_to_vector(model.parameters())
        assert torch.equal(torch.nn.utils.parameters_to_vector(half.parameters()), weights.float())

    def test_home_folders(self, bert, monkeypatch):
        monkeypatch.setenv("HOME", str(Path(bert).parent))
        assert loading.load_model("~/bert").config.hidden_size == D
        assert loading.load_tokenizer("~/bert").pad_token == "[PAD]"


def test_help_shows_an_example_and_every_option(run):
    code, shown, _ = run("--help")
    assert code == 0
    assert "strongticket construct ./all-MiniLM-L6-v2 --items 12 --out tickets/minilm" in " ".join(shown.split())
    for option in ("--items", "--budget", "--tol", "--layers", "--samples", "--compare", "--cluster", "--json"):
        assert option in shown


def test_a_dask_cluster_finds_the_same_masks(run, bert, digest, tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs the extra strongticket[dask]")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        code, _, errors = run(bert, *QUICK, "--out", tmp_path / "out", "--no-report", "--cluster", address)
        (worker,) = cluster.workers.values()
        assert worker.state.executed_count >= PAIRS
    assert code == 0, errors
    assert Ticket.from_pretrained(tmp_path / "out").digest == digest
