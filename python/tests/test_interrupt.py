"""Calls that somebody ends: Ctrl-C, another thread."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlxtend.frequent_patterns import apriori
from pandas.testing import assert_frame_equal

import oboro
from conftest import Encrypt, Serving, random_frame
from oboro.errors import Interrupted

# Seconds; a test that takes as long has failed.
LONGER_THAN_A_TEST = 600
# Says where it is, a word a line, and goes on when it is sent a line.
PROGRAM = """
import contextlib, sys
import oboro

url, key, bundle, work = sys.argv[1:]
keys = oboro.Keys.load(key)
encrypted = oboro.Encrypted.open(bundle, keys)
server = oboro.connect(url)

def call():
    if work == "upload":
        return server.upload(encrypted).name
    return len(oboro.Dataset(server, "frame", encrypted).apriori(keys, 0.2))

def say(word):
    print(word, flush=True)
    sys.stdin.readline()

@contextlib.contextmanager
def bar(description, unit, wanted):
    told = iter(["waiting"])
    yield lambda done, total: [print(word, flush=True) for word in told]

oboro._server.bar = bar
say("connected")
try:
    call()
except KeyboardInterrupt:
    say("interrupted")
print(call(), flush=True)
"""


@pytest.mark.parametrize("work", ["upload", "mine"])
def test_ctrl_c_ends_a_call_and_the_next_succeeds(
    encrypt: Encrypt, serving: Serving, tmp_path: Path, work: str
) -> None:
    keys = oboro.Keys.generate()
    keys.save(tmp_path / "key")
    frame = random_frame(100, 6)
    encrypted = encrypt(frame, keys)
    assert encrypted.path is not None
    if work == "mine":
        oboro.connect(serving.url).upload(encrypted)
    arguments = [serving.url, str(tmp_path / "key"), str(encrypted.path), work]
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as owner,
        contextlib.ExitStack() as after,
    ):
        # A test that fails does not wait for it.
        after.callback(owner.kill)
        assert owner.stdin is not None and owner.stdout is not None

        def hear(word: str) -> None:
            assert owner.stdout is not None
            said = owner.stdout.readline().split()
            while said == ["waiting"] != [word]:
                said = owner.stdout.readline().split()
            assert said == [word]

        hear("connected")
        serving.freeze()
        owner.stdin.write("\n")
        hear("waiting")
        owner.send_signal(signal.SIGINT)
        hear("interrupted")
        serving.thaw()
        owner.stdin.write("\n")
        hear("frame" if work == "upload" else str(len(apriori(frame, 0.2))))
        assert owner.wait() == 0


def test_other_threads_run_meanwhile_and_may_end_a_call(
    encrypt: Encrypt, serving: Serving, under_way: threading.Event
) -> None:
    keys = oboro.Keys.generate()
    frame = random_frame(100, 6)
    server = oboro.connect(serving.url)
    dataset = server.upload(encrypt(frame, keys))
    interrupt = oboro.Interrupt()
    serving.freeze()
    under_way.clear()

    def interrupt_in_the_middle() -> None:
        under_way.wait()
        interrupt.set()

    threading.Thread(target=interrupt_in_the_middle, daemon=True).start()
    with pytest.raises(Interrupted, match="call again"):
        dataset.apriori(keys, 0.2, interrupt=interrupt)
    serving.thaw()
    # It ends what comes after, too; calls without it go on.
    with pytest.raises(Interrupted):
        server.datasets(interrupt=interrupt)
    found = dataset.apriori(keys, 0.2)
    assert_frame_equal(found, apriori(frame, min_support=0.2))


def interrupt_this_process() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_what_nothing_has_to_be_asked_for_is_interrupted_too(
    under_way: threading.Event,
) -> None:
    keys = oboro.Keys.generate()
    frame = pd.DataFrame(np.ones((10, 40), dtype=bool))
    with oboro.local() as server:
        dataset = server.upload(oboro.encrypt(frame, keys))
        under_way.clear()

        def interrupt_in_the_middle() -> None:
            under_way.wait()
            interrupt_this_process()

        threading.Thread(target=interrupt_in_the_middle, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            dataset.apriori(keys, 0.5, stop_above=0)


def test_an_encryption_is_complete_or_leaves_nothing(tmp_path: Path) -> None:
    keys = oboro.Keys.generate()
    frame = random_frame(20_000, 8)
    for attempt in range(12):
        path = tmp_path / str(attempt)
        timer = threading.Timer(0.002 * attempt, interrupt_this_process)
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            oboro.encrypt(frame, keys, path=path)
            # It was sooner than the interrupt.
            time.sleep(LONGER_THAN_A_TEST)
        timer.join()
        if path.exists():
            assert oboro.Encrypted.open(path, keys).transactions == len(frame)
        assert [it.name for it in tmp_path.iterdir() if it.name.startswith(".")] == []
