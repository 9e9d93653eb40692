"""Runs a command under the filter of system calls of a unit of systemd, without systemd.

Usage: filtered.py UNIT COMMAND..., or filtered.py UNIT alone to say whether this can be done here:
it ends with 77 where a program or library is missing.
systemd-analyze says which calls a set has, and libseccomp, which systemd uses as well, has the
kernel refuse all others.
"""

import ctypes
import ctypes.util
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

ALLOW = 0x7FFF0000
EPERM = 0x00050001
EQUAL = 4


class Comparison(ctypes.Structure):
    """A condition on an argument of a call."""

    _fields_ = [
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("mask", ctypes.c_uint64),
    ]


def calls(name: str) -> set[str]:
    """The calls of a set, or the one of this name."""
    if not name.startswith("@"):
        return {name}
    listed = subprocess.run(
        ["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True
    )
    lines = (line.strip() for line in listed.stdout.splitlines()[1:])
    names = [line for line in lines if line and not line.startswith("#")]
    return {call for name in names for call in calls(name)}


def settings(unit: str, name: str) -> list[str]:
    """The values of a setting, in order."""
    lines = unit.splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]


def allowed(unit: str) -> set[str]:
    """The calls that a unit may make, and those without which nothing starts."""
    result = calls("@default")
    for value in settings(unit, "SystemCallFilter"):
        named = {call for name in value.lstrip("~").split() for call in calls(name)}
        result = result - named if value.startswith("~") else result | named
    return result


def restrict(unit: str) -> None:
    """Has the kernel refuse all other calls of this process from now on."""
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_void_p,
    ]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    context = library.seccomp_init(EPERM)

    def allow(call: str, *conditions: Comparison) -> None:
        number = library.seccomp_syscall_resolve_name(call.encode())
        # Those of other processors have none here.
        if number >= 0:
            array = (Comparison * len(conditions))(*conditions)
            assert library.seccomp_rule_add_array(context, ALLOW, number, len(array), array) == 0

    for call in allowed(unit) - {"socket"}:
        allow(call)
    for families in settings(unit, "RestrictAddressFamilies"):
        for family in families.split():
            allow("socket", Comparison(0, EQUAL, getattr(socket, family), 0))
    assert library.seccomp_load(context) == 0, os.strerror(ctypes.get_errno())


if __name__ == "__main__":
    if not (shutil.which("systemd-analyze") and ctypes.util.find_library("seccomp")):
        sys.exit(77)
    restrict(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if sys.argv[2:]:
        os.execvp(sys.argv[2], sys.argv[2:])
