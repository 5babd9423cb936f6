from __future__ import annotations

import time

import numpy as np
import pytest

from strongticket.search.corpora import Corpus, load_corpus
from strongticket.search.tokenizing import BlockDataset, blocks, load_tokenizer

pytest.importorskip("transformers")
pytest.importorskip("tokenizers")


def test_embedded_has_no_paragraph_in_both_splits():
    corpus = load_corpus("embedded")
    train, held_out = (set(text.split("\n\n")) - {""} for text in (corpus.train, corpus.held_out))
    assert not train & held_out
    assert 0.08 < len(corpus.held_out) / (len(corpus.train) + len(corpus.held_out)) < 0.15
    assert len(corpus.train) > 200_000
    assert corpus.digest() == load_corpus("embedded").digest()


def test_files_are_joined_and_their_end_is_held_out(tmp_path):
    lines = [f"line {number}\n" for number in range(100)]
    (tmp_path / "a.txt").write_text("".join(lines[:50]))
    (tmp_path / "b.txt").write_text("".join(lines[50:]))
    corpus = load_corpus(f"file:{tmp_path}/a.txt,{tmp_path}/b.txt")
    assert corpus.train + corpus.held_out == "".join(lines)
    assert corpus.held_out.startswith("line 9")
    both = load_corpus(f"file:{tmp_path}/a.txt", f"file:{tmp_path}/b.txt")
    assert (both.train, both.held_out) == ("".join(lines[:50]), "".join(lines[50:]))
    assert both.digest() != Corpus("other name", both.train + "x", both.held_out).digest()


@pytest.mark.parametrize(
    ("corpus", "held_out", "words"),
    [
        ("wikitext", None, "known: embedded, file:PATH"),
        ("file:nowhere.txt", None, "no such file: nowhere.txt"),
        ("embedded", "file:nowhere.txt", "no such file"),
        ("embedded", "wikitext-2", "must be file:PATH"),
    ],
)
def test_bad_corpora_are_refused(corpus, held_out, words):
    with pytest.raises((ValueError, OSError), match=words):
        load_corpus(corpus, held_out)


def test_the_same_file_cannot_be_held_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("text\n")
    with pytest.raises(ValueError, match="both to learn from and as held-out"):
        load_corpus(f"file:{path}", f"file:{path}")


def test_the_hub_out_of_reach_fails_fast(monkeypatch, tmp_path):
    hub, datasets = pytest.importorskip("huggingface_hub"), pytest.importorskip("datasets")

    def unreachable(*args, **kwargs):
        raise ConnectionError("no network")

    monkeypatch.setattr(hub.HfApi, "dataset_info", unreachable)
    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    start = time.perf_counter()
    with pytest.raises(ConnectionError, match="use --corpus embedded, or --corpus file:PATH"):
        load_corpus("wikitext-2")
    assert time.perf_counter() - start < 5
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr(hub.HfApi, "model_info", unreachable)
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", unreachable)
    with pytest.raises(ConnectionError, match="use --tokenizer bpe:50257"):
        load_tokenizer("gpt2", "")


def test_a_trained_tokenizer_is_lossless_and_its_blocks_do_not_overlap(tmp_path):
    text = "naïve — ☃\n" + load_corpus("embedded").held_out
    tokenizer = load_tokenizer("bpe:300", text)
    assert len(tokenizer) == 300
    rows = blocks(text, tokenizer, 16)
    decoded = tokenizer.decode(rows.reshape(-1).tolist())
    assert text.startswith(decoded)
    assert len(decoded) > len(text) - 16 * 20
    assert np.array_equal(blocks(text, load_tokenizer("bpe:300", text), 16), rows)
    tokenizer.save_pretrained(str(tmp_path))
    assert np.array_equal(blocks(text, load_tokenizer(str(tmp_path), ""), 16), rows)
    item = BlockDataset(rows)[2]
    assert np.array_equal(item["input_ids"], rows[2])


@pytest.mark.parametrize("name", ["bert", "bpe:", "bpe:12", "bpe:many"])
def test_bad_tokenizers_are_refused(name):
    with pytest.raises(ValueError, match=r"tokenizer|257"):
        load_tokenizer(name, "text")
