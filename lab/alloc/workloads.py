"""Real programs and their workloads: each run does the same work, and its result must not depend on
the allocator.

A workload is prepared once in its own folder and then run under every allocator. Any error of a
measured program, including a hang, is a `Failure`.
"""

import gzip
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

Environment = Mapping[str, str]

# Enough for a server to start, or to stop on request.
SERVER_SECONDS = 20


class Failure(Exception):
    """A measured program crashed, hung or printed something unexpected."""


@dataclass(frozen=True)
class Outcome:
    """The cost of one run, and its result: equal results have equal digests.

    CPU time, user and system, is that of the program alone: a server's, not its client's.
    The peak is the largest resident set of any single process, None where it is too small to be
    told from that of the program that started it.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int | None
    digest: str


@dataclass(frozen=True)
class Ended:
    """A program that ended with status 0."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int | None
    output: bytes


# Starts a program with settings in its environment, waits for it, and writes how it ended to a
# file descriptor: arguments are this, the number of settings, the settings, and the command. Linux
# counts the memory of whoever starts a program as the program's, so this one has little.
STARTER = """
import os, sys, time
told, settings = int(sys.argv[1]), int(sys.argv[2])
environment = {**os.environ, **dict(s.split("=", 1) for s in sys.argv[3 : 3 + settings])}
command = sys.argv[3 + settings :]
os.set_inheritable(told, False)
begun = time.perf_counter()
process = os.posix_spawnp(command[0], command, environment)
_, status, usage = os.wait4(process, 0)
seconds = time.perf_counter() - begun
cpu = usage.ru_utime + usage.ru_stime
floor = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
ended = (os.waitstatus_to_exitcode(status), seconds, cpu, usage.ru_maxrss, floor)
os.write(told, " ".join(map(str, ended)).encode())
"""


def run_to_end(
    command: list[str],
    environment: Environment,
    folder: Path,
    timeout: float,
    given: Path | None = None,
) -> Ended:
    """Runs `command` in a session of its own, with the file `given` as its input; its output is
    that on standard output."""
    output, errors = folder / "standard-output", folder / "standard-error"
    tells, told = os.pipe()
    settings = [f"{name}={value}" for name, value in environment.items()]
    starter = [sys.executable, "-I", "-S", "-c", STARTER, str(told), str(len(settings)), *settings]
    with (
        (given or Path(os.devnull)).open("rb") as reads,
        output.open("wb") as out,
        errors.open("wb") as err,
        os.fdopen(tells) as answer,
    ):
        process = subprocess.Popen(
            [*starter, *command],
            cwd=folder,
            stdin=reads,
            stdout=out,
            stderr=err,
            pass_fds=[told],
            start_new_session=True,
        )
        os.close(told)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired as hang:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            name = Path(command[0]).name
            raise Failure(f"{name} hangs: no end within {timeout:.0f} s") from hang
        ended = answer.read().split()
    if not ended:
        raise Failure(f"{command[0]} cannot be started")
    status, kilobytes, floor = int(ended[0]), int(ended[3]), int(ended[4])
    if status != 0:
        raise Failure(ending(command, status, errors.read_text(errors="replace")))
    peak = kilobytes << 10 if kilobytes > floor else None
    return Ended(float(ended[1]), float(ended[2]), peak, output.read_bytes())


def ending(command: list[str], status: int, errors: str) -> str:
    """How a program ended, with the last line of its output."""
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    said = errors.strip().splitlines()
    return f"{Path(command[0]).name} ends with {how}{': ' + said[-1] if said else ''}"


@contextmanager
def serving(
    command: list[str], environment: Environment, folder: Path, ready: Callable[[], bool]
) -> Iterator[int]:
    """Runs a server: yields its process id once it is ready, and stops it afterwards."""
    errors = folder / "server-error"
    with errors.open("wb") as said:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + SERVER_SECONDS
        while not ready():
            if process.poll() is not None:
                raise Failure(ending(command, process.returncode, errors.read_text()))
            if time.monotonic() > deadline:
                raise Failure(f"{Path(command[0]).name} does not answer")
            time.sleep(0.01)
        yield process.pid
        process.terminate()
        status = process.wait(SERVER_SECONDS)
        if status != 0:
            raise Failure(ending(command, status, errors.read_text()))
    except subprocess.TimeoutExpired as hang:
        raise Failure(f"{Path(command[0]).name} does not end when told") from hang
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def server_cpu_seconds(process: int) -> float:
    """The processor time of a running process."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def server_peak(process: int) -> int:
    """The peak resident set size of a running process."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    if not found:
        raise Failure("the server has ended before it was told to")
    return int(found[1]) << 10


def located(command: str) -> str | None:
    """Where a command lies, those for administrators too, which users lack in their PATH."""
    return shutil.which(command, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()[:16]


class Workload(ABC):
    """One program and its work. `quick` makes the work small."""

    name: ClassVar[str]
    # What it needs, with the Debian package of each.
    commands: ClassVar[dict[str, str]]
    # The program brings an allocator of its own, which even glibc's must be preloaded before.
    brings_allocator: ClassVar[bool] = False

    def __init__(self, folder: Path, quick: bool, timeout: float) -> None:
        self.folder = folder
        self.quick = quick
        self.timeout = timeout

    def missing(self) -> str | None:
        """What is missing, and how to install it."""
        absent = [name for name in self.commands if located(name) is None]
        packages = " ".join(sorted({self.commands[name] for name in absent}))
        return f"no {', '.join(absent)}: sudo apt-get install -y {packages}" if absent else None

    def prepare(self) -> None:  # noqa: B027
        """Creates the input in the folder."""

    @abstractmethod
    def idle(self) -> list[str]:
        """A command that starts the measured program, and does nothing with it."""

    @abstractmethod
    def run(self, environment: Environment) -> Outcome:
        """Does the work once."""

    def run_to_end(
        self, command: list[str], environment: Environment, given: Path | None = None
    ) -> Ended:
        return run_to_end(command, environment, self.folder, self.timeout, given)


class PythonTests(Workload):
    """Tests of Python's own standard library, with all its objects allocated by malloc."""

    name = "python3 test suite"
    commands: ClassVar[dict[str, str]] = {}
    modules: ClassVar[list[str]] = [
        *("dict", "list", "re", "json", "unicode"),
        *("collections", "itertools", "ast", "enum", "xml_etree"),
    ]

    def missing(self) -> str | None:
        if importlib.util.find_spec("test.test_dict") is not None:
            return None
        return "no tests of Python: sudo apt-get install -y libpython3.11-testsuite"

    def idle(self) -> list[str]:
        return [sys.executable, "-c", ""]

    def run(self, environment: Environment) -> Outcome:
        modules = self.modules[:3] if self.quick else self.modules
        settings = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1"}
        ended = self.run_to_end(
            [sys.executable, "-m", "unittest", "-v", *(f"test.test_{name}" for name in modules)],
            {**environment, **settings},
        )
        said = (self.folder / "standard-error").read_text(errors="replace")
        tests = re.findall(r"^(.*) \.\.\. (?:ok|skipped .*|expected failure)$", said, re.MULTILINE)
        return Outcome(
            ended.seconds, ended.cpu_seconds, ended.peak_bytes, digest("\n".join(tests).encode())
        )


class SqliteIndex(Workload):
    """Two indexes on a large table in memory, and sums over ranges of them."""

    name = "sqlite3 index"
    commands: ClassVar[dict[str, str]] = {"sqlite3": "sqlite3"}

    def prepare(self) -> None:
        rows = 50_000 if self.quick else 400_000
        (self.folder / "script.sql").write_text(
            f"""
            CREATE TABLE transactions (id INTEGER PRIMARY KEY, shop INTEGER, item TEXT);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
                INSERT INTO transactions
                SELECT i, i * 7919 % 10007,
                    printf('item %08x of the shop', i * 2654435761 % 4294967296)
                FROM n;
            CREATE INDEX by_item ON transactions (item);
            CREATE INDEX by_shop ON transactions (shop, item);
            SELECT count(*), sum(id) FROM transactions WHERE item BETWEEN 'item 4' AND 'item 9';
            SELECT shop, count(DISTINCT item) FROM transactions
                GROUP BY shop ORDER BY 2, 1 LIMIT 50;
            PRAGMA integrity_check;
            """
        )

    def idle(self) -> list[str]:
        return ["sqlite3", ":memory:", "SELECT 1;"]

    def run(self, environment: Environment) -> Outcome:
        command = ["sqlite3", "-batch", ":memory:"]
        ended = self.run_to_end(command, environment, self.folder / "script.sql")
        return Outcome(ended.seconds, ended.cpu_seconds, ended.peak_bytes, digest(ended.output))


class Redis(Workload):
    """Pipelined commands on a server with strings, hashes, lists and sorted sets.

    Debian's redis-server is linked to jemalloc as a shared library and calls malloc by its plain
    name, so that a preloaded allocator serves it. It still calls jemalloc's mallctl, for figures
    that it shows; MEMORY and INFO say nothing about the preloaded allocator.
    """

    name = "redis-server"
    commands: ClassVar[dict[str, str]] = {
        "redis-server": "redis-server",
        "redis-benchmark": "redis-tools",
    }
    brings_allocator = True

    @property
    def socket_path(self) -> Path:
        return self.folder / "redis.sock"

    def idle(self) -> list[str]:
        return ["redis-server", "--version"]

    def run(self, environment: Environment) -> Outcome:
        self.socket_path.unlink(missing_ok=True)
        settings = {
            **{"port": "0", "unixsocket": str(self.socket_path), "dir": str(self.folder)},
            **{"save": "", "appendonly": "no", "enable-debug-command": "yes"},
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        with serving(["redis-server", *options], environment, self.folder, self.answers) as server:
            self.load()
            found = self.ask("DEBUG DIGEST", "DBSIZE")
            commands = "set,get,incr,lpush,rpop,sadd,hset,zadd"
            count = "20000" if self.quick else "200000"
            shape = ["-n", count, "-r", "100000", "-d", "300", "-P", "16", "-c", "20"]
            benchmark = ["redis-benchmark", "-s", str(self.socket_path), "-q", "-t", commands]
            before = server_cpu_seconds(server)
            ended = self.run_to_end([*benchmark, *shape], {})
            cpu_seconds = server_cpu_seconds(server) - before
            if b"rror" in ended.output:
                raise Failure("redis-benchmark was answered with an error")
            again = self.ask("FLUSHALL", "DBSIZE")
            peak = server_peak(server)
        return Outcome(ended.seconds, cpu_seconds, peak, digest(found, again))

    def load(self) -> None:
        for begin in range(0, 2_000 if self.quick else 40_000, 1_000):
            numbers = range(begin, begin + 1_000)
            self.ask(
                *(f"SET key:{i} {'x' * (i * 37 % 700)}y" for i in numbers),
                *(f"HSET hash:{i % 500} field:{i} {i}" for i in numbers),
                *(f"RPUSH list:{i % 50} {i * i}" for i in numbers),
                *(f"DEL key:{i}" for i in numbers if i % 3 == 0),
            )

    def answers(self) -> bool:
        try:
            return self.ask("PING") == b"+PONG\r\n"
        except OSError:
            return False

    def ask(self, *commands: str) -> bytes:
        """The answers to commands of which each has one line for its answer."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(self.timeout)
            connection.connect(str(self.socket_path))
            sender = threading.Thread(
                target=connection.sendall, args=("".join(f"{c}\r\n" for c in commands).encode(),)
            )
            sender.start()
            with connection.makefile("rb") as answers:
                lines = [answers.readline() for _ in commands]
            sender.join()
        errors = [line for line in lines if line.startswith(b"-") or not line]
        if errors:
            raise Failure(f"redis-server answers {errors[0].decode()!r}")
        return b"".join(lines)


class Gcc(Workload):
    """One large generated file of C, compiled with optimisation."""

    name = "gcc"
    commands: ClassVar[dict[str, str]] = {"gcc": "gcc"}

    def prepare(self) -> None:
        functions = 100 if self.quick else 500
        lines = ["struct pair { long a, b; };"]
        for i in range(functions):
            cases = "".join(
                f"    case {k}: p.a += p.b * {k * i + 1}; p.b ^= p.a >> {k + 1}; break;\n"
                for k in range(16)
            )
            before = f"f{i - 1}(x, q)" if i % 4 else "x"
            lines.append(
                f"static long f{i}(long x, struct pair *q) {{\n"
                f"  struct pair p = {{x, {i}}};\n"
                f"  for (long j = 0; j < x % {i + 3}; j++)\n"
                f"    switch ((p.a + j) & 15) {{\n{cases}    }}\n"
                f"  q->a += p.a; q->b -= p.b;\n  return {before} + p.a * p.b;\n}}"
            )
        calls = " + ".join(f"f{i}(x, q)" for i in range(3, functions, 4))
        lines.append(f"long all(long x, struct pair *q) {{ return {calls}; }}\n")
        (self.folder / "large.c").write_text("\n".join(lines))

    def idle(self) -> list[str]:
        compiler = subprocess.run(
            ["gcc", "-print-prog-name=cc1"], stdout=subprocess.PIPE, text=True, check=True
        )
        return [compiler.stdout.strip(), "--version"]

    def run(self, environment: Environment) -> Outcome:
        ended = self.run_to_end(["gcc", "-O2", "-S", "-o", "large.s", "large.c"], environment)
        assembly = (self.folder / "large.s").read_bytes()
        return Outcome(ended.seconds, ended.cpu_seconds, ended.peak_bytes, digest(assembly))


class Git(Workload):
    """Packing, checking and reading the history of a synthetic repository."""

    name = "git"
    commands: ClassVar[dict[str, str]] = {"git": "git"}
    settings: ClassVar[dict[str, str]] = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_PAGER": "cat",
        "TZ": "UTC",
    }

    def prepare(self) -> None:
        commits, files = (20, 50) if self.quick else (400, 600)
        stream = self.folder / "history"
        with stream.open("w") as out:
            for commit in range(commits):
                out.write("commit refs/heads/main\n")
                out.write(
                    f"committer A U Thor <author@example.org> {1_500_000_000 + commit} +0000\n"
                )
                out.write(f"data <<END\nChange number {commit}\nEND\n")
                for file in range(files) if commit == 0 else range(commit % 7, files, 29):
                    words = (
                        f"line {line} of file {file}: {line * file * 2654435761 % 9973}"
                        f" {commit if (line + commit) % 41 == 0 else ''}\n"
                        for line in range(40 + file % 200)
                    )
                    out.write(f"M 100644 inline folder{file % 17}/file{file}.txt\n")
                    out.write(f"data <<END\n{''.join(words)}END\n")
        plain = {**self.settings}
        self.run_to_end(["git", "init", "--quiet", "--bare", "imported"], plain)
        importing = ["git", "-C", "imported", "fast-import", "--quiet", "--depth=0"]
        self.run_to_end(importing, plain, stream)

    def idle(self) -> list[str]:
        return ["git", "--version"]

    def run(self, environment: Environment) -> Outcome:
        shutil.rmtree(self.folder / "worked", ignore_errors=True)
        shutil.copytree(self.folder / "imported", self.folder / "worked")
        ended = [
            self.run_to_end(["git", "-C", "worked", *arguments], {**environment, **self.settings})
            for arguments in (
                ["repack", "-adfq", "--window=20"],
                ["fsck", "--full", "--strict", "--no-progress"],
                ["log", "--patch", "--stat", "--no-color", "main"],
                ["blame", "--line-porcelain", "main", "--", "folder0/file0.txt"],
                ["rev-list", "--objects", "--no-object-names", "main"],
            )
        ]
        peaks = [part.peak_bytes for part in ended if part.peak_bytes is not None]
        return Outcome(
            sum(part.seconds for part in ended),
            sum(part.cpu_seconds for part in ended),
            max(peaks, default=None),
            digest(*(part.output for part in ended)),
        )


class Nginx(Workload):
    """Assembled and compressed pages of several parts, requested over persistent connections.

    Times are those of 100,000 requests, from those that wrk counts in a fixed time.
    """

    name = "nginx"
    commands: ClassVar[dict[str, str]] = {"nginx": "nginx-light", "wrk": "wrk"}

    def prepare(self) -> None:
        www = self.folder / "www"
        www.mkdir()
        parts = [f"part {i}: " + " ".join(str(i * k % 101) for k in range(100)) for i in range(8)]
        for i, part in enumerate(parts):
            (www / f"{i}.html").write_text(part)
        (www / "page.html").write_text(
            "".join(f'<p><!--#include virtual="/{i}.html" --></p>' for i in range(8))
        )
        self.page = "".join(f"<p>{part}</p>" for part in parts).encode()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        temporary = "".join(
            f"{kind}_temp_path {self.folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (self.folder / "nginx.conf").write_text(
            f"""
            daemon off; master_process off; pid {self.folder}/nginx.pid;
            error_log stderr crit;
            events {{ worker_connections 256; }}
            http {{
                {temporary}
                access_log off; keepalive_requests 1000000;
                types {{ text/html html; }}
                server {{
                    listen 127.0.0.1:{self.port};
                    root {www}; ssi on; gzip on; gzip_comp_level 1;
                }}
            }}
            """
        )

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/page.html"

    def idle(self) -> list[str]:
        return [str(located("nginx")), "-v"]

    def run(self, environment: Environment) -> Outcome:
        command = [
            str(located("nginx")),
            "-p",
            str(self.folder),
            "-c",
            str(self.folder / "nginx.conf"),
        ]
        with serving([*command, "-e", "stderr"], environment, self.folder, self.answers) as server:
            seconds = 1 if self.quick else 3
            load = ["wrk", "-t", "1", "-c", "50", "-d", str(seconds), "-H", "Accept-Encoding: gzip"]
            before = server_cpu_seconds(server)
            said = self.run_to_end([*load, self.address], {}).output.decode()
            cpu_seconds = server_cpu_seconds(server) - before
            if "Socket errors" in said or "Non-2xx" in said:
                raise Failure("nginx answers wrk with errors")
            counted = re.search(r"(\d+) requests in ([\d.]+)s", said)
            if not counted or int(counted[1]) == 0:
                raise Failure("nginx answers none of wrk's requests")
            scale = 100_000 / int(counted[1])
            got = self.fetch()
            peak = server_peak(server)
        return Outcome(float(counted[2]) * scale, cpu_seconds * scale, peak, digest(got))

    def fetch(self) -> bytes:
        request = urllib.request.Request(self.address, headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request, timeout=SERVER_SECONDS) as answer:
            page = gzip.decompress(answer.read())
        if page != self.page:
            raise Failure("nginx answers with another page than the one that lies there")
        return page

    def answers(self) -> bool:
        try:
            return bool(self.fetch())
        except OSError:
            return False


WORKLOADS: tuple[type[Workload], ...] = (PythonTests, SqliteIndex, Redis, Gcc, Git, Nginx)
