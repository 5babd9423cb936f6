"""Saving is atomic; the hooks of huggingface_hub work; loading a folder does not touch the network."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import huggingface_hub
import numpy as np
import pytest

from strongticket import Source, Uniform
from strongticket.ticket import Ticket, TicketError


def ticket(seed: int, size: int = 400) -> Ticket:
    sources = Source(seed, "a", (size, 300), Uniform(1.0)), Source(seed, "b", (300, size), Uniform(1.0))
    rng = np.random.default_rng(seed)
    masks = [rng.random(source.shape) < 0.5 for source in sources]
    entries = dict(zip(("first", "second"), zip(sources, masks, strict=True), strict=True))
    return Ticket(entries, architecture={"kind": "linear", "scale": 1.0}, finder={"name": "test", "seed": seed})


WRITER = """
import os, sys
sys.path.insert(0, sys.argv[2])
from test_ticket_save import ticket
tickets = [ticket(0), ticket(1)]
for t in tickets:
    t.source_digests()
tickets[0].save_pretrained(sys.argv[1])
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        place = 0
        while True:
            place = 1 - place
            tickets[place].save_pretrained(sys.argv[1])
    print(child, flush=True)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


def test_a_killed_writer_leaves_the_old_ticket_or_the_new_one(tmp_path):
    wanted = {ticket(seed).digest: seed for seed in (0, 1)}
    seen, without_config = [], 0
    rng = random.Random(0)
    command = [sys.executable, "-c", WRITER, str(tmp_path), os.path.dirname(__file__)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        for _ in range(60):
            process.stdin.write("write\n")
            child = int(process.stdout.readline())
            time.sleep(rng.uniform(0.0, 0.1))
            os.kill(child, signal.SIGKILL)
            assert process.stdout.readline() == "dead\n"
            loaded = Ticket.from_pretrained(tmp_path, verify=False)
            seen.append(wanted[loaded.digest])
            assert loaded.finder["seed"] == seen[-1]
            assert len(list(tmp_path.iterdir())) <= 4
            without_config += not (tmp_path / "config.json").exists()
        process.stdin.close()
    assert process.returncode == 0
    assert set(seen) == {0, 1}
    assert without_config < 60


@pytest.mark.parametrize("step", ["save_file", "unlink", "replace", "write_text"])
def test_a_save_that_fails_leaves_a_whole_ticket(step, tmp_path, monkeypatch):
    ticket(0, 8).save_pretrained(tmp_path)

    def fail(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    target = {
        "save_file": "safetensors.numpy.save_file",
        "unlink": "pathlib.Path.unlink",
        "replace": "os.replace",
        "write_text": "pathlib.Path.write_text",
    }[step]
    with monkeypatch.context() as patch:
        patch.setattr(target, fail)
        with pytest.raises(OSError, match="No space left"):
            ticket(1, 8).save_pretrained(tmp_path)
    seed = 1 if step == "write_text" else 0
    assert Ticket.from_pretrained(tmp_path).digest == ticket(seed, 8).digest
    ticket(1, 8).save_pretrained(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "ticket.safetensors"]
    assert Ticket.from_pretrained(tmp_path).digest == ticket(1, 8).digest


def test_readers_and_writers_at_the_same_time(tmp_path):
    tickets = [ticket(seed, 8) for seed in (0, 1, 2)]
    digests = {t.digest for t in tickets}
    tickets[0].save_pretrained(tmp_path)
    stop = threading.Event()

    def write(t: Ticket) -> None:
        while not stop.is_set():
            t.save_pretrained(tmp_path)

    writers = [threading.Thread(target=write, args=(t,)) for t in tickets[1:]]
    for writer in writers:
        writer.start()
    loaded = 0
    try:
        for _ in range(100):
            try:
                assert Ticket.from_pretrained(tmp_path, verify=False).digest in digests
                loaded += 1
            except TicketError as error:
                assert "written again and again" in str(error)  # noqa: PT017
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert loaded > 0
    assert Ticket.from_pretrained(tmp_path).digest in digests


def test_saving_keeps_other_files_and_makes_folders(tmp_path):
    folder = tmp_path / "deep" / "down"
    ticket(0, 8).save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    ticket(1, 8).save_pretrained(str(folder))
    assert sorted(os.listdir(folder)) == ["config.json", "ticket.safetensors", "tokenizer.json"]


def test_config_json_may_be_missing_but_must_not_disagree(tmp_path):
    ticket(0, 8).save_pretrained(tmp_path / "a")
    ticket(1, 8).save_pretrained(tmp_path / "b")
    text = (tmp_path / "a" / "config.json").read_text()
    (tmp_path / "b" / "config.json").write_text(text)
    with pytest.raises(TicketError, match=r"^config\.json: says something else"):
        Ticket.from_pretrained(tmp_path / "b")
    (tmp_path / "b" / "config.json").unlink()
    assert Ticket.from_pretrained(tmp_path / "b").digest == ticket(1, 8).digest


def test_loading_a_folder_does_not_touch_the_network(tmp_path, monkeypatch):
    import socket

    ticket(0, 8).save_pretrained(tmp_path)

    def refuse(*arguments, **keywords):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    Ticket.from_pretrained(tmp_path)
    for place in ("./nowhere", "a/b/c", str(tmp_path / "nothing"), "~/x", tmp_path / "config.json"):
        with pytest.raises(TicketError, match="is no folder"):
            Ticket.from_pretrained(place)
    with pytest.raises(TicketError, match=r"ticket\.safetensors: is missing"):
        Ticket.from_pretrained(os.path.dirname(__file__))


def test_from_the_hub(tmp_path, monkeypatch):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    ticket(0, 8).save_pretrained(blobs)
    snapshot.mkdir()
    asked = []

    def download(repo_id, filename, **options):
        asked.append((repo_id, filename, options["revision"]))
        (snapshot / filename).symlink_to(blobs / filename)
        return str(snapshot / filename)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    loaded = Ticket.from_pretrained("someone/a-ticket", revision="v1")
    assert loaded.digest == ticket(0, 8).digest
    assert asked == [("someone/a-ticket", name, "v1") for name in ("config.json", "ticket.safetensors")]


def test_push_to_hub(tmp_path, monkeypatch):
    uploaded = {}

    class Repo:
        repo_id = "someone/a-ticket"

    def upload(self, *, folder_path, repo_id, **options):
        uploaded[repo_id] = Ticket.from_pretrained(folder_path).digest
        return "https://hub/commit"

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", lambda self, **options: Repo)
    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", upload)
    assert ticket(0, 8).push_to_hub("someone/a-ticket") == "https://hub/commit"
    assert uploaded == {"someone/a-ticket": ticket(0, 8).digest}
    uploaded.clear()
    ticket(1, 8).save_pretrained(tmp_path / "x", push_to_hub=True, repo_id="someone/a-ticket")
    assert uploaded == {"someone/a-ticket": ticket(1, 8).digest}
