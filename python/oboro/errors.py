"""The exceptions of Oboro. Messages name the cause and the remedy."""

from __future__ import annotations

from oboro._oboro import escaped


class OboroError(Exception):
    """The base class of all exceptions of Oboro."""

    def __str__(self) -> str:
        # Names from data and a server's messages cannot contain terminal escapes.
        return escaped(super().__str__())


class InputError(OboroError, ValueError):
    """Unusable data or arguments."""


class KeysError(OboroError):
    """A key file that cannot be read or written, or the wrong key."""


class ConnectionFailed(OboroError, ConnectionError):
    """A server that cannot be reached, or a connection that broke. Nothing is lost; call again."""


class VersionError(OboroError):
    """Client and server have different protocol versions, or data have another version."""


class ServerError(OboroError):
    """A server that refused, failed, or could not start."""


class DamagedError(OboroError):
    """Damaged files."""


class FalseAnswerError(OboroError):
    """A server that gave a false answer. None of its answers were used."""


class RevealsMoreWarning(UserWarning):
    """A minimum support below those of earlier calls reveals more columns to the server."""


class StorageError(OboroError, OSError):
    """A disk that is full or failing, or a file in use."""


class Interrupted(OboroError):
    """A call that was cancelled by its :class:`oboro.Interrupt`. Nothing is lost; call again."""


class MissingExtraError(OboroError, ImportError):
    """A part of Oboro that needs packages which are not installed."""


class MissingArgumentError(InputError, TypeError):
    """An argument required by another one."""


class NotGivenError(InputError, KeyError):
    """An itemset or item that is required but was not given."""

    def __str__(self) -> str:
        # KeyError quotes its message, as if it were a key.
        return escaped(Exception.__str__(self))
