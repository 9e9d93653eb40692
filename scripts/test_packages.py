"""What scripts/packages.py says of packages, on small ones made up here."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

import images
import packages
from packages import Processor

ROOT = Path(__file__).resolve().parents[1]


def folder(path: Path, **files: bytes) -> Path:
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


def test_what_is_not_the_same_twice_is_named(tmp_path: Path) -> None:
    first = folder(tmp_path / "first", same=b"1", other=b"1", missing=b"")
    second = folder(tmp_path / "second", same=b"1", other=b"2", more=b"")
    assert packages.differences(first, second) == ["missing", "more", "other"]
    assert packages.differences(first, first) == []


def test_sums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", wheel=b"1", sdist=b"2")
    check = ["sha256sum", "--check", "--strict", packages.SUMS]
    for _ in range(2):  # Its own sum is never in it.
        packages.write_sums(out)
        assert subprocess.run(check, cwd=out, check=False).returncode == 0
    (out / "wheel").write_bytes(b"3")
    assert subprocess.run(check, cwd=out, check=False).returncode == 1


def test_packages_are_looked_into(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.writestr("oboro/x.py", "1")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("oboro/y.rs")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"2"))
    assert list(packages.contents(tmp_path / "a.whl")) == [("oboro/x.py", b"1")]
    assert list(packages.contents(tmp_path / "a.tar.gz")) == [("oboro/y.rs", b"2")]


def test_what_is_built_depends_on_the_commit_and_not_on_the_folder() -> None:
    settings = packages.environment(ROOT, ROOT / "tools")
    flags = settings["CARGO_ENCODED_RUSTFLAGS"].split("\x1f")
    # Those of .cargo/config.toml, which the variable overrides.
    assert flags[:2] == ["--cfg", "chacha20_avx512"]
    assert f"--remap-path-prefix={ROOT}=/oboro" in flags
    assert f"-ffile-prefix-map={ROOT}=/oboro" in settings["CFLAGS"]
    date = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True)
    assert settings["SOURCE_DATE_EPOCH"] == date.strip()


def test_a_cross_compiler_is_for_other_processors_only(monkeypatch: pytest.MonkeyPatch) -> None:
    arm64: Processor = packages.PROCESSORS["arm64"]
    machine = os.uname_result((*os.uname()[:4], "x86_64"))
    monkeypatch.setattr("os.uname", lambda: machine)
    assert packages.PROCESSORS["amd64"].environment() == {}
    assert arm64.environment() == {
        "CC_aarch64_unknown_linux_gnu": "aarch64-linux-gnu-gcc",
        "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": "aarch64-linux-gnu-gcc",
    }


def crate(name: str, source: str | None = "registry") -> dict[str, str | None]:
    return {"id": name, "source": source}


def needs(name: str, *others: tuple[str, str | None]) -> dict[str, object]:
    return {"id": name, "deps": [{"pkg": to, "dep_kinds": [{"kind": kind}]} for to, kind in others]}


def test_what_only_tests_and_builds_need_is_not_compiled_in() -> None:
    nodes = [
        needs("ours", ("lib", None), ("oracle", "dev"), ("generator", "build"), ("other", None)),
        needs("other", ("deep", None)),
        *(needs(name) for name in ("lib", "oracle", "generator", "deep")),
    ]
    names = ["lib", "oracle", "generator", "deep"]
    metadata = {
        "packages": [crate("ours", None), crate("other", None), *map(crate, names)],
        "resolve": {"root": "ours", "nodes": nodes},
    }
    assert packages.compiled_in(metadata).keys() == {"lib", "deep"}


def test_licences_are_found_wherever_a_crate_has_them(tmp_path: Path) -> None:
    folder(tmp_path / "src", **{"lib.rs": b"", "LICENSE-UNICODE": b" a text\n"})
    folder(tmp_path / "license", **{"other": b"no licence"})
    (tmp_path / "UNLICENSE").write_text("another")
    (tmp_path / "NOTICE.md").write_text("a notice")
    assert packages.licence_texts(tmp_path) == ["a notice", "another", "a text"]


def test_links_in_another_system_stay_there(tmp_path: Path) -> None:
    (tmp_path / "lib/real").mkdir(parents=True)
    (tmp_path / "lib/real/loader").write_text("its own")
    (tmp_path / "absolute").symlink_to("/lib/next")
    (tmp_path / "lib/next").symlink_to("real/loader")
    assert images.resolve_in(tmp_path, tmp_path / "absolute").read_text() == "its own"


def test_entries_of_a_layer_have_the_owner_and_mode_that_are_given(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "layer.tar", "w") as layer:
        images.add(layer, "data", 1_700_000_000, mode=0o700, user=images.USER)
        images.add(layer, "data/file", 1_700_000_000, data=b"1")
    with tarfile.open(tmp_path / "layer.tar") as layer:
        folder, file = layer.getmembers()
    assert (folder.isdir(), folder.mode, folder.uid) == (True, 0o700, images.USER)
    assert (file.isfile(), file.mode, file.uid, file.size) == (True, 0o644, 0, 1)


def test_files_in_layers_are_found(tmp_path: Path) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w:gz") as inside:
        images.add(inside, "usr/bin/oboro", 0, data=b"command")
    with tarfile.open(tmp_path / "a.oci.tar", "w") as archive:
        images.add(archive, "blobs/sha256/1", 0, data=layer.getvalue())
        images.add(archive, "index.json", 0, data=b"{}")
    assert list(packages.contents(tmp_path / "a.oci.tar")) == [("usr/bin/oboro", b"command")]
