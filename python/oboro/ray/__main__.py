"""`python -m oboro.ray`: what `oboro serve --ray` runs."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys

from oboro import Interrupt
from oboro.errors import OboroError
from oboro.ray import serve

LIMITS = [
    "message_bytes",
    "dataset_bytes",
    "itemsets",
    "queries",
    "queries_per_client",
    "query_seconds",
    "search_bytes",
]


def arguments() -> argparse.Namespace:
    """Those of the command line; sizes are in bytes."""
    parser = argparse.ArgumentParser(prog="python -m oboro.ray", description=serve.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("address", help="the Ray cluster: ADDRESS:PORT, auto or local")
    parser.add_argument("--data", required=True, metavar="DIR|URL")
    parser.add_argument("--cache", metavar="DIR")
    parser.add_argument("--listen", default="127.0.0.1:7171", metavar="ADDRESS:PORT")
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"))
    parser.add_argument("--token-file", metavar="FILE")
    parser.add_argument("--threads", type=int, metavar="N")
    parser.add_argument("--memory", type=int, metavar="BYTES")
    parser.add_argument("--moment-cache", type=int, default=256 << 20, metavar="BYTES")
    for limit in LIMITS:
        parser.add_argument(f"--{limit.replace('_', '-')}", type=int, metavar="N")
    parser.add_argument("--json", action="store_true", help="print results as JSON")
    return parser.parse_args()


def main() -> int:
    """Serves until a signal; the exit status."""
    given = vars(arguments())
    as_json = given.pop("json")
    limits = {name: given.pop(name) for name in LIMITS}
    tls = given.pop("tls")
    interrupt = Interrupt()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupt.set())
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO
    )

    def listening(url: str) -> None:
        print(json.dumps({"listening": url}) if as_json else f"listening on {url}", flush=True)

    try:
        serve(
            **given,
            tls=tls and tuple(tls),
            limits={name: value for name, value in limits.items() if value is not None},
            listening=listening,
            interrupt=interrupt,
        )
    except OboroError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
