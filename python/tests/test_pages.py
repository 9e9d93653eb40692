"""What pages say is so: the commands of README and the tutorials are run and print what is shown,
messages are those of the code, and the version is one."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

import oboro
from conftest import oboro_command

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PORT = "7171"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A server in the background is waited for before the next line.
SERVER = re.compile(r"^(oboro serve (?:.*\\\n)*.*&)$", re.MULTILINE)
LISTENING = f"until (: <>/dev/tcp/127.0.0.1/{PORT}) 2>refused; do kill -0 $!; sleep 0.05; done"


class Step(NamedTuple):
    """Commands, and lines of what they print, in which … is any text."""

    commands: str
    shown: list[str]

    @property
    def is_refused(self) -> bool:
        return any(line.startswith("error: ") for line in self.shown)


def steps(page: str) -> list[Step]:
    found: list[Step] = []
    for kind, text in BLOCK.findall(page):
        if kind == "sh":
            found.append(Step(text, []))
        else:
            found[-1].shown.extend(text.splitlines())
    return found


def script(found: list[Step]) -> str:
    """Ends at the first step that fails, unless it is shown to be refused."""
    parts = ["set -e; trap 'kill $(jobs -p) 2>jobs' EXIT"]
    for step in found:
        commands = SERVER.sub(rf"\1\n{LISTENING}", step.commands)
        parts.append("echo '--- step'")
        parts.append(f"! (\n{commands})" if step.is_refused else commands)
        # A command after `!` fails without ending the script.
        parts += ["[ $? -eq 0 ]"] if step.is_refused else []
    return "\n".join(parts)


def free_port() -> str:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return str(bound.getsockname()[1])


# How long it took, at the end of a line.
TIME = re.compile(r"in [\d.]+ m?s$")


def first_result() -> str:
    """The section of README."""
    return (
        (ROOT / "README.md").read_text().partition("\n## First result\n")[2].partition("\n## ")[0]
    )


@pytest.mark.parametrize("name", ["README.md", "tutorial-tls.md", "tutorial-owners.md"])
def test_a_tutorial_does_what_it_says(name: str, tmp_path: Path) -> None:
    if name != "README.md" and shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "oboro").symlink_to(Path(oboro_command()).resolve())
    found = steps(first_result() if name == "README.md" else (DOCS / name).read_text())
    (tmp_path / "work").mkdir()
    port = free_port()
    # README has the port that is the default.
    ports = {
        "OBORO_SERVE_LISTEN": f"127.0.0.1:{port}",
        "OBORO_SERVER": f"http://127.0.0.1:{port}",
    }
    environment = {name: value for name, value in os.environ.items() if "OBORO" not in name}
    ran = subprocess.run(
        ["bash", "-c", script(found).replace(PORT, port)],
        cwd=tmp_path / "work",
        env=environment | ports | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    printed = ran.stdout.replace(port, PORT).split("--- step\n")[1:]
    for step, output in zip(found, printed, strict=True):
        for line in step.shown:
            parts = TIME.sub("in …", line).split("…")
            pattern = ".*".join(re.escape(part) for part in parts)
            assert re.search(f"^{pattern}$", output, re.MULTILINE), f"{line}\nis not in\n{output}"


def test_tutorials_have_commands_and_show_what_they_print() -> None:
    for name in ("tutorial-tls.md", "tutorial-owners.md"):
        found = steps((DOCS / name).read_text())
        assert len(found) > 10
        assert sum(bool(step.shown) for step in found) > 5


# Lines that a string goes on over, in Rust and in Python.
GOES_ON = re.compile(r'\\\n\s*|"\n\s*f?"')


def test_messages_of_troubleshooting_are_those_of_the_code() -> None:
    files = [*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("python/oboro/**/*.py")]
    code = "\n".join(GOES_ON.sub("", file.read_text()) for file in files)
    page = (DOCS / "troubleshooting.md").read_text()
    messages = re.findall(r"^\| `(.*?)` \|", page, re.MULTILINE)
    assert len(messages) > 30
    for message in messages:
        parts = [re.escape(part) for part in message.strip("… ").split("…")]
        # What stands for names and numbers, in braces or joined.
        pattern = r"[^\n]{1,99}?".join(parts)
        assert re.search(pattern, code), message


def test_the_citation_is_of_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    given = dict(line.split(": ", 1) for line in lines if ": " in line and line[0] not in " -")
    assert given["cff-version"] == "1.2.0"
    assert {"message", "title"} <= given.keys() and "authors:" in lines
    released = f"## {given['version']}, {given['date-released']}"
    assert released in (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert given["version"] == oboro.__version__
