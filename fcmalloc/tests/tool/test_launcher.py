"""What the launcher promises: the program runs with the library and options asked for, its exit
status is the program's, and whatever cannot work is refused with cause and remedy.

    FCMALLOC_LAUNCHER=build/fcmalloc python3 test_launcher.py

The launcher is tested with a library of its own, made here, that does nothing but say that it was
loaded, and then with the allocator that lies beside it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import ClassVar

LAUNCHER = Path(os.environ.get("FCMALLOC_LAUNCHER", "build/fcmalloc")).resolve()
LIMIT_SECONDS = 300

# Whoever runs this may ignore the signal by which a program of these tests ends.
signal.signal(signal.SIGTERM, signal.SIG_DFL)

LIBRARY = """
#include <unistd.h>
__attribute__((constructor)) static void say(void) { (void)!write(2, NAME, sizeof NAME - 1); }
"""

PROGRAM = "int main(void) { return 7; }"

PLAN = """fcmalloc-plan 1
# python3, 2 threads
heap 1 class 32 peak 10
heap 0 footprint 4194304
heap 0 large peak 2097152
heap 0 class 1024 peak 3
heap 0 class 32 peak 5
heap 1 footprint 1024
"""

SHOWN = """heap        class  peak blocks   peak bytes
0              32            5        160 B
0            1024            3      3.0 KiB
0           large                   2.0 MiB
0       footprint                   4.0 MiB
1              32           10        320 B
1       footprint                   1.0 KiB
all            32           15        480 B
all          1024            3      3.0 KiB
all         large                   2.0 MiB
all     footprint                   4.0 MiB
"""


# Forks a child that ends as programs do, starts two others, names these, and is gone.
FORKING = (
    sys.executable,
    "-c",
    """
import os, subprocess, sys
forked = os.fork()
if forked == 0:
    sys.exit()
os.waitpid(forked, 0)
for _ in range(2):
    started = subprocess.Popen(["sort", "/dev/null"])
    started.wait()
    print(started.pid)
sys.stdout.flush()
os._exit(0)
""",
)


def compile_c(source: str, output: Path, *options: str) -> None:
    """Compiles a program, or with -shared a library."""
    subprocess.run(
        [os.environ.get("CC", "cc"), *options, "-x", "c", "-", "-o", output],
        input=source,
        text=True,
        check=True,
        timeout=LIMIT_SECONDS,
    )


class LauncherTest(unittest.TestCase):
    """A folder with a launcher and two libraries that name themselves on standard error."""

    folder: ClassVar[Path]
    launcher: ClassVar[Path]
    program: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name).resolve()
        (cls.folder / "build").mkdir()
        cls.launcher = cls.folder / "build" / "fcmalloc"
        shutil.copy(LAUNCHER, cls.launcher)
        for name in ("libfcmalloc", "libfcmalloc-secure", "libother"):
            compile_c(
                LIBRARY,
                cls.folder / "build" / f"{name}.so",
                f'-DNAME="loaded {name}\\n"',
                "-shared",
                "-fPIC",
            )
        cls.program = cls.folder / "program"
        compile_c(PROGRAM, cls.program)

    def launch(
        self,
        *arguments: str | Path,
        environment: dict[str, str] | None = None,
        launcher: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name != "LD_PRELOAD" and not name.startswith("FCMALLOC_")
        }
        return subprocess.run(
            [launcher or self.launcher, *arguments],
            env=kept | (environment or {}),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )

    def refused(self, status: int, *arguments: str | Path) -> str:
        """The one line with which the launcher refuses, ending with `status`."""
        done = self.launch(*arguments)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Afcmalloc: [^\n]+\n\Z")
        return done.stderr

    def variables(self, *arguments: str | Path, **environment: str) -> dict[str, str]:
        """What the program finds in its environment."""
        done = self.launch(*arguments, "--", "env", environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    # The program.

    def test_the_program_has_the_library_and_its_own_exit_status(self) -> None:
        done = self.launch("run", "--", self.program)
        self.assertEqual((done.returncode, done.stderr), (7, "loaded libfcmalloc\n"))

    def test_the_double_dash_may_be_left_out_and_options_of_the_program_are_its_own(self) -> None:
        done = self.launch("run", "sh", "-c", 'echo "$0 $1"', "--limit", "--help")
        self.assertEqual((done.returncode, done.stdout), (0, "--limit --help\n"))

    def test_the_secure_build_is_preloaded_when_asked(self) -> None:
        done = self.launch("run", "--secure", self.program)
        self.assertEqual(done.stderr, "loaded libfcmalloc-secure\n")

    def test_a_signal_that_ends_the_program_ends_the_launcher(self) -> None:
        done = self.launch("run", "--", "sh", "-c", "kill -TERM $$")
        self.assertEqual(done.returncode, -signal.SIGTERM)

    def test_an_installed_launcher_finds_the_library_beside_its_folder(self) -> None:
        installed = self.folder / "prefix" / "bin"
        installed.mkdir(parents=True)
        (self.folder / "prefix" / "lib").mkdir()
        shutil.copy(LAUNCHER, installed)
        library = self.folder / "build" / "libfcmalloc.so"
        shutil.copy(library, self.folder / "prefix" / "lib")
        done = self.launch("run", self.program, launcher=installed / "fcmalloc")
        self.assertEqual((done.returncode, done.stderr), (7, "loaded libfcmalloc\n"))

    def test_another_preloaded_library_stays_behind_the_allocator(self) -> None:
        other = str(self.folder / "build" / "libother.so")
        found = self.variables("run", LD_PRELOAD=other)
        self.assertEqual(found["LD_PRELOAD"], f"{self.folder / 'build' / 'libfcmalloc.so'}:{other}")

    def test_scripts_are_started_by_their_interpreter(self) -> None:
        script = self.write("script", "#!/bin/sh\nexit 3\n")
        script.chmod(0o755)
        self.assertEqual(self.launch("run", script).returncode, 3)

    # The options.

    def test_options_become_variables_of_the_environment(self) -> None:
        plan = self.write("a.plan", PLAN)
        found = self.variables(
            *("run", "--reserve", "main=2G,core=512M", "--plan", "a.plan", "--limit=4GiB"),
            *("--huge", "explicit", "--decay", "250", "--stats=stats.json"),
        )
        ours = {name: value for name, value in found.items() if name.startswith("FCMALLOC_")}
        self.assertEqual(
            ours,
            {
                "FCMALLOC_RESERVE": "main=2G,core=512M",
                "FCMALLOC_PLAN": str(plan),
                "FCMALLOC_LIMIT": "4GiB",
                "FCMALLOC_HUGE": "explicit",
                "FCMALLOC_DECAY": "250",
                "FCMALLOC_STATS": f"json:{self.folder / 'stats.json'}",
            },
        )

    def test_no_option_leaves_the_environment_as_it_is(self) -> None:
        found = self.variables("run", FCMALLOC_LIMIT="1G")
        ours = {name: value for name, value in found.items() if name.startswith("FCMALLOC_")}
        self.assertEqual(ours, {"FCMALLOC_LIMIT": "1G"})

    def test_statistics_go_to_standard_error_unless_a_file_is_named(self) -> None:
        self.assertEqual(self.variables("run", "--stats")["FCMALLOC_STATS"], "json")

    def test_a_recorded_plan_is_named_after_the_program_or_as_asked(self) -> None:
        found = self.variables("record")
        self.assertEqual(found["FCMALLOC_RECORD"], str(self.folder / "env.plan"))
        found = self.variables("record", "--output", "/tmp/other.plan")
        self.assertEqual(found["FCMALLOC_RECORD"], "/tmp/other.plan")

    def test_bad_values_are_refused_before_anything_starts(self) -> None:
        for option, value in [
            ("--reserve", "lots"),
            ("--reserve", "main=2G,cores=1G"),
            ("--limit", "12Q"),
            ("--limit", "12 "),
            ("--limit", "0"),
            ("--limit", "-1"),
            ("--limit", "99999999999999999999"),
            ("--limit", "17179869184T"),
            ("--huge", "maybe"),
            ("--decay", "soon"),
        ]:
            with self.subTest(option=option, value=value):
                message = self.refused(125, "run", option, value, "--", self.program)
                self.assertIn(f"{option} {value}", message)

    def test_unknown_options_and_commands_point_to_the_help(self) -> None:
        for arguments in (["run", "--fast"], ["run", "--limit"], ["walk"], ["--fast"], []):
            with self.subTest(arguments=arguments):
                self.assertIn("fcmalloc --help", self.refused(125, *arguments))

    def test_a_program_must_be_named(self) -> None:
        self.assertIn("no program to start", self.refused(125, "run", "--limit", "1G", "--"))

    def test_help_and_version_go_to_standard_output(self) -> None:
        self.assertIn("fcmalloc record", self.launch("--help").stdout)
        self.assertRegex(self.launch("--version").stdout, r"\Afcmalloc \d+\.\d+\.\d+\n\Z")

    # What cannot be preloaded.

    def test_a_program_that_is_not_there_is_refused_as_not_found(self) -> None:
        self.assertIn("PATH", self.refused(127, "run", "no-such-program"))
        self.assertIn("No such file", self.refused(127, "run", "./no-such-program"))

    def test_a_file_that_may_not_be_executed_is_refused(self) -> None:
        self.write("data", "x")
        self.assertIn("chmod", self.refused(126, "run", "./data"))

    def test_a_static_program_is_refused(self) -> None:
        static = self.folder / "static"
        try:
            compile_c(PROGRAM, static, "-static")
        except subprocess.CalledProcessError:
            self.skipTest("the C library for static programs is not installed")
        self.assertIn("libfcmalloc.a", self.refused(126, "run", static))

    def test_a_program_that_gains_privileges_is_refused(self) -> None:
        privileged = self.folder / "privileged"
        shutil.copy(self.program, privileged)
        if os.getuid() == 0:
            os.chown(privileged, 65534, 65534)
        else:
            self.skipTest("only root can make a program of another user")
        privileged.chmod(0o4755)
        self.assertIn("setuid", self.refused(126, "run", privileged))

    def test_a_program_for_another_machine_is_refused(self) -> None:
        foreign = self.folder / "foreign"
        image = bytearray(self.program.read_bytes())
        image[18:20] = (0).to_bytes(2, sys.byteorder)
        foreign.write_bytes(image)
        foreign.chmod(0o755)
        self.assertIn("another machine", self.refused(126, "run", foreign))

    def test_a_script_that_names_no_interpreter_is_refused(self) -> None:
        script = self.write("nameless", "exit 3\n")
        script.chmod(0o755)
        self.assertIn("fcmalloc run -- sh", self.refused(126, "run", script))

    def test_a_missing_library_is_named_with_the_places_searched(self) -> None:
        lonely = self.folder / "lonely"
        lonely.mkdir()
        shutil.copy(LAUNCHER, lonely)
        done = self.launch("run", self.program, launcher=lonely / "fcmalloc")
        self.assertEqual(done.returncode, 125)
        self.assertRegex(done.stderr, rf"cannot find libfcmalloc\.so in {lonely} or ")

    def test_a_library_whose_path_the_linker_cannot_read_is_refused(self) -> None:
        spaced = self.folder / "two words"
        shutil.copytree(self.folder / "build", spaced)
        done = self.launch("run", self.program, launcher=spaced / "fcmalloc")
        self.assertEqual(done.returncode, 125)
        self.assertIn("space", done.stderr)

    # Plans.

    def test_a_plan_is_shown_by_heap_and_class_with_totals(self) -> None:
        done = self.launch("show", self.write("a.plan", PLAN))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, SHOWN, ""))

    def test_a_plan_that_cannot_be_read_is_refused(self) -> None:
        for name, text, said in [
            ("empty", "", "first line"),
            ("other", "hello\n", "first line"),
            ("newer", "fcmalloc-plan 2\n", "first line"),
            ("word", "fcmalloc-plan 1\nheap 0 class x peak 3\n", "line 2"),
            ("negative", "fcmalloc-plan 1\n#\nheap 0 large peak -3\n", "line 3"),
            ("absurd", f"fcmalloc-plan 1\nheap 0 class 4096 peak {1 << 63}\n", "line 2"),
            ("unknown", "fcmalloc-plan 1\nheap 0 middle peak 3\n", "line 2"),
            ("short", "fcmalloc-plan 1\nheap 0\n", "line 2"),
            ("long", "fcmalloc-plan 1\nheap 0 class 16 peak 3 more words\n", "line 2"),
            ("binary", "fcmalloc-plan 1\n\x01" + 300 * "a" + "\n", "line 2"),
        ]:
            with self.subTest(name=name):
                plan = self.write(f"{name}.plan", text)
                self.assertIn(said, self.refused(125, "show", plan))
                self.assertIn(said, self.refused(125, "run", "--plan", plan, self.program))
        self.assertIn("fcmalloc record", self.refused(125, "show", "absent.plan"))


class AllocatorTest(unittest.TestCase):
    """The launcher with the library that lies beside it."""

    def setUp(self) -> None:
        if not (LAUNCHER.parent / "libfcmalloc.so").exists():
            self.skipTest("libfcmalloc.so is not built")
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def launch(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            [LAUNCHER, *arguments], capture_output=True, text=True, timeout=LIMIT_SECONDS
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_statistics_show_that_the_allocator_served_the_program(self) -> None:
        statistics = self.folder / "statistics.json"
        self.launch("run", f"--stats={statistics}", "--", "sort", __file__)
        self.assertGreater(json.loads(statistics.read_text())["footprint_peak"], 0)

    def test_a_recorded_plan_is_shown_and_used_again(self) -> None:
        plan = self.folder / "sort.plan"
        self.launch("record", "--output", plan, "--", "sort", __file__)
        self.assertRegex(self.launch("show", plan), r"all +footprint")
        self.launch("run", "--plan", plan, "--", "sort", __file__)

    def test_started_processes_record_a_plan_each_and_forked_ones_none(self) -> None:
        output = self.launch("record", "--output", self.folder / "%p.plan", "--", *FORKING)
        recorded = {plan.stem for plan in self.folder.iterdir()}
        self.assertEqual(recorded, set(output.split()))
        for plan in self.folder.iterdir():
            self.launch("show", plan)


if __name__ == "__main__":
    unittest.main()
