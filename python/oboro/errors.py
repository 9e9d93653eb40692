"""Exceptions of Oboro. Messages name the cause and the remedy."""

from __future__ import annotations

from oboro._oboro import escaped


class OboroError(Exception):
    """Base class of all exceptions of Oboro."""

    def __str__(self) -> str:
        # Names from data and a server's messages cannot contain terminal escapes.
        return escaped(super().__str__())


class InputError(OboroError, ValueError):
    """Unusable data or arguments."""


class KeysError(OboroError):
    """Unreadable or unwritable key file, or wrong key."""


class ConnectionFailed(OboroError, ConnectionError):
    """Unreachable server, or broken connection. Nothing is lost; call again."""


class VersionError(OboroError):
    """Mismatch of the protocol versions of client and server, or of the version of data."""


class ServerError(OboroError):
    """Refusal or failure of a server, or failure to start one."""


class DamagedError(OboroError):
    """Damaged files."""


class FalseAnswerError(OboroError):
    """False answer of a server. None of its answers were used."""


class RevealsMoreWarning(UserWarning):
    """Minimum support below those of earlier calls, which reveals more columns to the server."""


class StorageError(OboroError, OSError):
    """Full or failing disk, or file in use."""


class Interrupted(OboroError):
    """Cancellation of a call by its :class:`oboro.Interrupt`. Nothing is lost; call again."""


class MissingExtraError(OboroError, ImportError):
    """Missing package that a part of Oboro needs."""


class MissingArgumentError(InputError, TypeError):
    """Missing argument that another one requires."""


class NotGivenError(InputError, KeyError):
    """Missing itemset or item that is required."""

    def __str__(self) -> str:
        # KeyError quotes its message, as if it were a key.
        return escaped(Exception.__str__(self))
