"""`python -m oboro.ray` has the options of `oboro.ray.serve`, and its words stay in its process.
Nothing here needs Ray."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

import oboro
from conftest import Encrypt, oboro_command
from oboro import _oboro
from oboro.errors import InputError
from oboro.ray.__main__ import documentation, parser

# Options of `oboro serve` that a server on a cluster does not have: it leaves them to its workers,
# takes the default, or writes its log by Python's means.
OF_ONE_MACHINE = {
    "--audit-log",
    "--audit-log-keep",
    "--audit-log-size",
    "--cache-size",
    "--check-config",
    "--config",
    "--drain-delay",
    "--genome-budget",
    "--genome-cache",
    "--genome-counts",
    "--genome-reference-limit",
    "--handshake-timeout",
    "--idle-timeout",
    "--log-format",
    "--client-ca",
    "--keep-deleted",
    "--keep-uploads",
    "--max-calls-per-second",
    "--owner-bytes",
    "--owner-datasets",
    "--owner-uploads",
    "--max-connections",
    "--max-connections-per-address",
    "--monitor",
    "--monitor-namespaces",
    "--pin",
    "--queue-timeout",
}
USUAL: dict[str, int | None] = dict.fromkeys(
    [
        "max_message",
        "max_dataset",
        "max_itemsets",
        "max_queries",
        "max_queries_per_client",
        "query_timeout",
        "max_search",
    ]
)


def parsed(line: str) -> dict[str, object]:
    return vars(parser().parse_args(line.split()))


def serve_briefly(
    data: Path, listen: str = "127.0.0.1:0", limits: Mapping[str, int] | None = None
) -> None:
    """Starts a server, and ends it once it listens."""
    interrupt = oboro.Interrupt()
    _oboro.serve(
        str(data),
        lambda work: None,
        lambda url: interrupt.set(),
        listen=listen,
        limits={**USUAL, **(limits or {})},
        interrupt=interrupt,
    )


def test_only_what_is_given_is_passed_on() -> None:
    assert parsed("auto --data a") == {"address": "auto", "data": "a"}
    assert parsed(
        "10.0.0.1:6379 --data a --memory 2GiB --moment-cache 0 --max-queries 7 --tls-cert c --json"
    ) == {
        "address": "10.0.0.1:6379",
        "data": "a",
        "memory": 2 << 30,
        "moment_cache": 0,
        "max_queries": 7,
        "tls_cert": "c",
        "json": True,
    }


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("72MiB", 72 << 20), ("1.5 GB", 1_500_000_000), ("2G", 2e9)]
)
def test_sizes_are_written_as_for_the_command(text: str, size: int) -> None:
    assert _oboro.size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "2 apples"])
def test_what_is_no_size_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="is not a size; give bytes, or a size such as 2GiB"):
        _oboro.size(text)
    with pytest.raises(SystemExit):
        parser().parse_args(["auto", "--data", "a", f"--memory={text}"])
    assert "argument --memory: invalid size value" in capsys.readouterr().err


def test_every_option_has_help() -> None:
    summary, helps = documentation()
    assert summary.endswith(".")
    text = " ".join(parser().format_help().split())
    options = re.findall(r"--([a-z-]+)", parser().format_usage())
    assert len(options) > 10
    for option in {*options} - {"json"}:
        said = helps[option.replace("-", "_")]
        assert said[0].isupper() and said.endswith(".")
        assert said in text


def test_options_are_those_of_the_command() -> None:
    help = subprocess.run([oboro_command(), "serve", "--help"], capture_output=True, text=True)
    command = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", help.stdout, flags=re.MULTILINE))
    ours = set(re.findall(r"--[a-z-]+", parser().format_usage()))
    # Profiles are for owners; the option is there because all commands have it.
    profile = {"--profile"}
    assert command - OF_ONE_MACHINE - profile - {"--help", "--version"} == ours


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"max_queries": 0}, "max_queries cannot be 0; give a number from 1 to 4294967295"),
        ({"max_search": -1}, "max_search cannot be -1"),
        ({"max_message": 1 << 10}, "max_message cannot be 1024; give a number from 1048576 to"),
    ],
)
def test_impossible_limits_are_refused(
    limits: dict[str, int], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=problem):
        serve_briefly(tmp_path / "store", limits=limits)


def test_a_server_in_a_program_leaves_its_messages_in_python(
    tmp_path: Path, encrypt: Encrypt
) -> None:
    serve_briefly(tmp_path / "store")
    with pytest.raises(oboro.errors.ServerError, match="add tls_cert, tls_key and tokens"):
        serve_briefly(tmp_path / "store", listen="0.0.0.0:0")
    keys = oboro.Keys.generate()
    frame = pd.DataFrame({"a": [True, True], "b": [True, False], "c": [True, False]})
    with oboro.local() as server:
        dataset = server.upload(encrypt(frame, keys, max_len=2))
        with pytest.raises(InputError, match="give max_len=2, or mine with answers='cells'"):
            dataset.apriori(keys, 0.5, max_len=3, answers="moments")


def test_the_command_speaks_of_options(tmp_path: Path) -> None:
    program = (
        "import sys; from oboro import _oboro; _oboro.speak_as_command(); "
        f"_oboro.serve(sys.argv[1], print, print, listen='0.0.0.0:0', limits={USUAL!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "store")], capture_output=True, text=True
    )
    assert "add --tls-cert, --tls-key and --tokens" in done.stderr
