"""`python -m oboro.ray`: `serve` as a command, whose options are the function's parameters."""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import re
import signal
import sys
import typing

from oboro import Interrupt, _oboro
from oboro.errors import OboroError
from oboro.ray import serve


def parser() -> argparse.ArgumentParser:
    """Build the command line from the parameters of `serve` whose types name their values."""
    summary, helps = documentation()
    parser = argparse.ArgumentParser(
        prog="python -m oboro.ray",
        description=summary,
        # Defaults are those of `serve`.
        argument_default=argparse.SUPPRESS,
    )
    parameters = inspect.signature(serve).parameters
    for name, hint in typing.get_type_hints(serve, include_extras=True).items():
        kind = annotated(hint)
        if kind is None:
            continue
        base, metavar = typing.get_args(kind)
        convert = _oboro.size if metavar == "SIZE" else int if base is int else str
        if name == "address":
            parser.add_argument(name, metavar=metavar, help=helps.get(name))
        else:
            parser.add_argument(
                f"--{name.replace('_', '-')}",
                type=convert,
                metavar=metavar,
                required=parameters[name].default is inspect.Parameter.empty,
                help=helps.get(name),
            )
    parser.add_argument("--json", action="store_true", help="Print results as JSON.")
    return parser


def annotated(hint: object) -> object:
    """Return the type in `hint` that names its values; `hint` may also allow `None`."""
    parts = [hint, *typing.get_args(hint)]
    return next((part for part in parts if typing.get_origin(part) is typing.Annotated), None)


def documentation() -> tuple[str, dict[str, str]]:
    """Return the summary of `serve`, and the description of each parameter, from its docstring."""
    text = inspect.getdoc(serve) or ""
    arguments = text.partition("\nArgs:\n")[2].partition("\n\n")[0]
    paragraphs = re.split(r"^ {4}(?=\w)", arguments, flags=re.MULTILINE)[1:]
    named = (paragraph.partition(": ") for paragraph in paragraphs)
    return text.partition("\n")[0], {name: " ".join(said.split()) for name, _, said in named}


def main() -> int:
    """Serve until a signal; return the exit status."""
    given = vars(parser().parse_args())
    as_json = given.pop("json", False)
    _oboro.speak_as_command()
    interrupt = Interrupt()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupt.set())
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO
    )

    def listening(url: str) -> None:
        print(json.dumps({"listening": url}) if as_json else f"listening on {url}", flush=True)

    try:
        serve(**given, listening=listening, interrupt=interrupt)
    except OboroError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
