"""What scripts/setup says and installs, on machines that lack something."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PINNED = re.findall(r'channel = "(.*)"', (ROOT / "rust-toolchain.toml").read_text())[0]
TOOLS = {
    "rustc": f'[ "$1" = --print ] && echo "$HOME/sysroot" || echo "rustc {PINNED} (abc)"',
    "cargo": "exit 0",
    "cc": "exit 0",
    "c++": "exit 0",
    "cmake": 'echo "cmake version 3.31.0"',
    "python3": "echo 3.12.1 venv",
}
# Installs whichever package it is told of, and writes down how it was called.
APT_GET = 'echo "apt-get $*" >>"$HOME/log"; [ "$1" = update ] || cp "$HOME"/packages/* "$HOME/bin"'
RUSTUP = 'echo "rustup $*" >>"$HOME/log"; cp "$HOME"/packages/* "$HOME/.cargo/bin"'


@dataclass
class Machine:
    """A machine with these programs, the few that any system has, and nothing else."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in ("bin", "packages", ".cargo/bin", "sysroot/bin"):
            (self.home / folder).mkdir(parents=True)
        for program in ("bash", "sh", "cat", "chmod", "cp", "dirname", "sed"):
            (self.home / "bin" / program).symlink_to(shutil.which(program) or program)
        for component in ("cargo-fmt", "cargo-clippy"):
            self.program(f"sysroot/bin/{component}", "exit 0")
        for program, body in TOOLS.items():
            self.program(f"bin/{program}", body)
        self.program("bin/apt-get", APT_GET)
        self.program("bin/id", "echo 0")

    def program(self, path: str, body: str) -> None:
        """Makes a program of the machine."""
        (self.home / path).write_text(f"#!/bin/sh\n{body}\n")
        (self.home / path).chmod(0o755)

    def lacks(self, *programs: str) -> Machine:
        """Leaves these programs to be installed."""
        for program in programs:
            (self.home / "bin" / program).rename(self.home / "packages" / program)
        return self

    def setup(self, *tools: str, stdin: int = subprocess.DEVNULL, **variables: str) -> str:
        """The status of scripts/setup with these tools, and what it says."""
        done = subprocess.run(
            [ROOT / "scripts" / "setup", *tools],
            env={"HOME": str(self.home), "PATH": str(self.home / "bin"), **variables},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if stdin == subprocess.DEVNULL else stdin,
            text=True,
            check=False,
        )
        return f"{done.returncode}: {done.stdout}"

    def log(self) -> str:
        """What was installed."""
        log = self.home / "log"
        return log.read_text() if log.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine that lacks nothing."""
    return Machine(tmp_path)


INSTALLS_CC = "apt-get update\napt-get install -y --no-install-recommends build-essential\n"


def test_nothing_is_said_where_nothing_is_missing(machine: Machine) -> None:
    assert machine.setup() == "0: "
    assert machine.setup("rust", "clippy", CI="true") == "0: "


def test_one_command_is_named_where_nobody_can_be_asked(machine: Machine) -> None:
    said = machine.lacks("cc", "c++", "cmake").setup()
    assert said.startswith("1: ")
    assert "  - a C compiler (cc)" in said
    assert "  - a C++ compiler (c++)" in said
    assert "found none" in said
    assert (
        "  apt-get update && apt-get install -y --no-install-recommends build-essential cmake\n"
        in said
    )
    assert machine.log() == ""


def test_ci_installs_at_once(machine: Machine) -> None:
    assert machine.lacks("cc").setup("rust", "cc", CI="true").startswith("0: ")
    assert machine.log() == INSTALLS_CC


@pytest.mark.parametrize(
    ("answer", "installed"), [("\n", INSTALLS_CC), ("y\n", INSTALLS_CC), ("n\n", ""), ("\x04", "")]
)
def test_a_person_is_asked(machine: Machine, answer: str, installed: str) -> None:
    person, terminal = pty.openpty()
    os.write(person, answer.encode())
    said = machine.lacks("cc").setup("cc", stdin=terminal)
    assert said.startswith("0" if installed else "1")
    assert machine.log() == installed


@pytest.mark.parametrize("allowed", [True, False])
def test_without_root_sudo_must_need_no_password(machine: Machine, allowed: bool) -> None:
    machine.program("bin/id", "echo 1000")
    machine.program("bin/sudo", '[ "$1" = -n ] || exec "$@"' if allowed else "exit 1")
    said = machine.lacks("cc").setup(CI="true")
    assert "sudo apt-get update && sudo apt-get install" in said
    assert machine.log() == (INSTALLS_CC if allowed else "")
    assert said.startswith("0" if allowed else "1")


def test_a_system_without_apt_is_told_the_packages(machine: Machine) -> None:
    (machine.home / "bin" / "apt-get").unlink()
    said = machine.lacks("cmake").setup(CI="true")
    assert said.startswith("1: ")
    assert "(what this system calls) cmake\n" in said


def test_rustup_is_fetched_and_installs_the_pinned_toolchain(machine: Machine) -> None:
    machine.program("rustup", RUSTUP)
    fetched = 'echo \'cp "$HOME/rustup" "$HOME/.cargo/bin"\''
    machine.program("bin/curl", f'echo "curl $*" >>"$HOME/log"; {fetched}')
    said = machine.lacks("rustc", "cargo", "curl").setup(CI="true")
    assert said.startswith("0: "), said
    apt, install, curl, rustup = machine.log().splitlines()
    assert (apt, install.split()[-2:]) == ("apt-get update", ["ca-certificates", "curl"])
    assert curl.endswith("/rustup-init.sh")
    assert rustup.startswith(f"rustup toolchain install {PINNED} ")
    assert rustup.endswith(" --component clippy --component rustfmt")


def test_components_are_added(machine: Machine) -> None:
    machine.program("bin/rustup", f'{RUSTUP}; cp "$HOME/clippy" "$HOME/sysroot/bin/cargo-clippy"')
    (machine.home / "sysroot/bin/cargo-clippy").rename(machine.home / "clippy")
    machine.program("packages/any", "exit 0")
    assert machine.setup("rust", CI="true") == "0: "
    said = machine.setup("rust", "clippy", CI="true")
    assert "  - the Rust component clippy\n" in said
    assert said.startswith("0: ")
    assert "--component clippy" in machine.log()


@pytest.mark.parametrize(
    ("tool", "program", "version", "lacking"),
    [
        ("rust", "rustc", "rustc 1.88.0 (abc)", "Rust 1.89 or newer: found 1.88.0"),
        ("cmake", "cmake", "cmake version 3.2.1", "or newer: found 3.2.1"),
        ("python", "python3", "3.10.18 venv", "Python 3.11 or newer: found 3.10.18"),
        ("venv", "python3", "3.12.1", "the venv module of Python"),
    ],
)
def test_versions_are_checked(
    machine: Machine, tool: str, program: str, version: str, lacking: str
) -> None:
    machine.program(f"bin/{program}", f"echo '{version}'")
    said = machine.setup(tool)
    assert said.startswith("1: ")
    assert lacking in said


def test_what_stays_too_old_is_told(machine: Machine) -> None:
    machine.program("bin/cmake", "echo cmake version 3.2.1")
    machine.program("packages/any", "exit 0")
    said = machine.setup("cmake", CI="true")
    assert said.startswith("1: ")
    assert "this is missing even so:\n  - CMake" in said


def test_tools_that_it_does_not_know_are_refused(machine: Machine) -> None:
    assert machine.setup("fortran").startswith("2: error: scripts/setup knows no tool fortran")


def test_what_compiles_for_arm64_is_named(machine: Machine) -> None:
    machine.program("bin/aarch64-linux-gnu-gcc", "exit 0")
    said = machine.setup("rust", "rust-arm64", "cc-arm64", "c++-arm64", "qemu-arm64")
    assert " --no-install-recommends g++-aarch64-linux-gnu qemu-user-static" in said
    assert f"rustup toolchain install {PINNED} --profile minimal" in said
    assert " --target aarch64-unknown-linux-gnu\n" in said
    (machine.home / "sysroot/lib/rustlib/aarch64-unknown-linux-gnu").mkdir(parents=True)
    assert machine.setup("rust-arm64", "cc-arm64") == "0: "
    said = machine.setup("rust-arm64", "rust-macos", "rust-windows")
    assert " --target aarch64-apple-darwin --target x86_64-pc-windows-gnu\n" in said


def test_what_the_benches_measure_is_named_and_installed(machine: Machine) -> None:
    library = "/usr/lib/libjemalloc.so.2"
    machine.program("bin/ldconfig", f'echo "	libjemalloc.so.2 (libc6,x86-64) => {library}"')
    tests = 'case "$2" in *test_dict*) exit 1 ;; esac'
    machine.program("bin/python3", f"{tests}; {TOOLS['python3']}")
    machine.program("bin/redis-server", "exit 0")
    machine.program("bin/strace", "exit 0")
    assert machine.setup("jemalloc", "strace") == "0: "
    said = machine.setup("jemalloc", "mimalloc", "redis", "wrk", "strace", "python-tests")
    packages = "libmimalloc2.0 redis-server redis-tools wrk libpython3.12-testsuite"
    assert f"apt-get install -y --no-install-recommends {packages}\n" in said
    machine.program("packages/wrk", "exit 0")
    assert machine.setup("wrk", CI="true").startswith("0: ")
    assert machine.log().endswith("--no-install-recommends wrk\n")
