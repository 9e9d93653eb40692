"""What can go wrong, told in sentences that name the cause and the remedy."""

from __future__ import annotations

from oboro._oboro import escaped


class OboroError(Exception):
    """Any failure of Oboro; the other classes here are kinds of it."""

    def __str__(self) -> str:
        # Names from data and a server's words do not steer the terminal.
        return escaped(super().__str__())


class InputError(OboroError, ValueError):
    """Data or arguments that cannot be used."""


class KeysError(OboroError):
    """A key file that cannot be read or written, or the key of something else."""


class ConnectionFailed(OboroError, ConnectionError):
    """A server that cannot be reached, or a connection that broke. Nothing is lost; call again."""


class VersionError(OboroError):
    """Client and server do not speak the same protocol, or data are of another version."""


class ServerError(OboroError):
    """A server that refused, failed, or could not start."""


class DamagedError(OboroError):
    """Stored bytes that are not what was written."""


class FalseAnswerError(OboroError):
    """A server that answered what is not true. None of its answers were used."""


class RevealsMoreWarning(UserWarning):
    """A minimum support below those of earlier calls shows the server more frequent columns."""


class StorageError(OboroError, OSError):
    """A disk that is full or failing, or a file that something else uses."""


class Interrupted(OboroError):
    """A call that was ended by its :class:`oboro.Interrupt`. Nothing is lost; call again."""


class MissingExtraError(OboroError, ImportError):
    """A part of Oboro that needs packages which are not installed."""


class MissingArgumentError(InputError, TypeError):
    """An argument that another one needs."""


class NotGivenError(InputError, KeyError):
    """An itemset or item that others are about, and that is not among what was given."""

    def __str__(self) -> str:
        # KeyError quotes its message, as if it were a key.
        return escaped(Exception.__str__(self))
