"""Files as people have them are counted as pandas counts them, or refused with what settles it."""

from __future__ import annotations

import ast
import csv
import gzip
import io
import json
import os
import random
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import oboro
from conftest import oboro_command
from oboro import _frames, errors

Counts: TypeAlias = tuple[int, set[str], dict[frozenset[str], int]]

TABLES = 200
WITHOUT_A_FLAG = 120
NAMES = [
    "milk", "bread", "Käse", "café", "tea", "rice, brown", '6" pan', "I10", "E11.9", "0042",
    "salt", "egg", "Öl", "naïve", "tea; green", "whole milk", "MILK", "1.0", "x|y",
]  # fmt: skip
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}


@dataclass
class Table:
    """A file, what is true of it in arguments of `oboro.encrypt`, and what pandas makes of it."""

    layout: str
    content: bytes
    facts: dict[str, Any]

    def counts(self) -> Counts:
        """Transactions, items, and in how many transactions each item and each pair is."""
        facts = self.facts
        read: dict[str, Any] = {
            "sep": " " if facts["format"] == "fimi" else facts["sep"],
            "encoding": facts["encoding"].replace("utf-8", "utf-8-sig"),
            "header": 0 if facts["header"] else None,
            "dtype": str,
            "keep_default_na": facts.get("missing") != "item",
        }
        if facts.get("missing") == "item":
            read["na_values"] = [""]
        if facts["format"] in ("fimi", "csv-basket"):
            text = self.content.decode(read["encoding"])
            width = max(len(row) for row in csv.reader(io.StringIO(text), delimiter=read["sep"]))
            frame = pd.read_csv(io.BytesIO(self.content), names=list(range(width)), **read)
            if facts["header"] or facts.get("drop_columns"):
                frame = frame.drop(columns=[0] if facts.get("drop_columns") else [])
            cells = frame.melt(ignore_index=False)["value"].dropna()
            baskets = pd.crosstab(cells.index, cells).reindex(frame.index, fill_value=0) > 0
        else:
            frame = pd.read_csv(io.BytesIO(self.content), **read)
            if not facts["header"]:
                frame.columns = pd.Index([str(place + 1) for place in range(frame.shape[1])])
            if facts["format"] == "csv-long":
                ids = frame[facts["transaction_column"]].agg("/".join, axis=1)
                baskets = pd.crosstab(ids, frame[facts["item_column"]])
                baskets = baskets.reindex(ids.unique(), fill_value=0) > 0
            else:
                baskets = frame.drop(columns=facts.get("drop_columns", [])).map(is_set)
        names = [str(name) for name in baskets.columns]
        baskets.columns = pd.Index(names)
        counts = {frozenset([name]): int(baskets[name].sum()) for name in names}
        for pair in combinations(names, 2):
            counts[frozenset(pair)] = int(baskets[list(pair)].all(axis=1).sum())
        return len(baskets), set(names), {items: n for items, n in counts.items() if n}


def is_set(cell: object) -> bool:
    text = str(cell).lower().replace(",", ".")
    return text in ("true", "t", "yes", "y") or (text[:1].isdigit() and float(text) > 0)


class Maker:
    """Makes tables, in a random way that is the same in every run."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.names = self.random.sample(NAMES, self.random.randint(4, 9))
        self.sep = self.random.choice(list(SEPARATORS))
        self.rows = self.random.randint(12, 40)
        if self.random.random() < 0.8:
            # Other separators in names are as rare as in life.
            self.names = [name for name in self.names if not re.search(r"[;|]", name)]
        self.baskets = [
            {name for name in self.names if self.random.random() < 0.4} for _ in range(self.rows)
        ]
        self.baskets[0] = set(self.names[:3])

    def table(self, layout: str) -> Table:
        rows, facts = getattr(self, layout)()
        quoting = self.random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        end = self.random.choice(["\n", "\n", "\r\n"])
        text = io.StringIO()
        if layout == "fimi":
            text.write(end.join(" ".join(row) for row in rows) + end)
        else:
            options: Any = {"delimiter": self.sep, "quoting": quoting, "lineterminator": end}
            csv.writer(text, **options).writerows(rows)
        written = text.getvalue()
        encoding = self.random.choice(["utf-8"] * 5 + ["utf-8-sig", "latin-1"])
        if written.isascii() and encoding == "latin-1":
            encoding = "utf-8"
        facts = {
            "separator": SEPARATORS[self.sep],
            "sep": self.sep,
            "header": True,
            "encoding": encoding.removesuffix("-sig"),
            **facts,
        }
        content = written.encode(encoding)
        return Table(layout, content, facts)

    def order(self, basket: set[str]) -> list[str]:
        return self.random.sample(sorted(basket), len(basket))

    def one_hot(self, yes: str, no: str) -> list[list[str]]:
        rows = [[yes if name in basket else no for name in self.names] for basket in self.baskets]
        return [self.names, *rows]

    def before(self, rows: list[list[str]], name: str, values: list[str]) -> list[list[str]]:
        return [[first, *row] for first, row in zip([name, *values], rows, strict=True)]

    def baskets_of_names(self) -> Any:
        rows = [self.order(basket) for basket in self.baskets]
        rows = [row if row else [""] * self.random.randint(2, 3) for row in rows]
        return rows, {"format": "csv-basket", "header": False}

    def padded_baskets(self) -> Any:
        rows = [self.order(basket) for basket in self.baskets]
        width = max(map(len, rows))
        rows = [row + [""] * (width - len(row)) for row in rows]
        return rows, {"format": "csv-basket", "header": False}

    def baskets_under_a_header(self) -> Any:
        rows = [self.order(basket) or ["", ""] for basket in self.baskets]
        width = max(map(len, rows))
        name = self.random.choice(["Item {}", "product_{}", "{}"])
        return [[name.format(n) for n in range(1, width + 1)], *rows], {"format": "csv-basket"}

    def kaggle_wide(self) -> Any:
        width = max(map(len, self.baskets))
        header = ["Item(s)", *(f"Item {n}" for n in range(1, width + 1))]
        rows = [self.order(basket) for basket in self.baskets]
        rows = [[str(len(row)), *row, *[""] * (width - len(row))] for row in rows]
        return [header, *rows], {"format": "csv-basket", "drop_columns": ["Item(s)"]}

    def numbered_baskets(self) -> Any:
        rows = [[str(n), *self.order(basket)] for n, basket in enumerate(self.baskets, 1)]
        return rows, {"format": "csv-basket", "header": False, "drop_columns": ["1"]}

    def zeros_and_ones(self) -> Any:
        return self.one_hot("1", "0"), {"format": "csv-onehot"}

    def words(self) -> Any:
        kinds = [("True", "False"), ("yes", "no"), ("Y", "N"), ("t", "f"), ("TRUE", "FALSE")]
        return self.one_hot(*self.random.choice(kinds)), {"format": "csv-onehot"}

    def floats(self) -> Any:
        point = self.random.choice([".", ","])
        return self.one_hot(f"1{point}0", f"0{point}0"), {"format": "csv-onehot"}

    def one_hot_with_an_id(self) -> Any:
        name = self.random.choice(["patient_id", "id", "Unnamed: 0", "Customer ID", "stay"])
        values = [str(value) for value in self.random.sample(range(1000, 9999), self.rows)]
        header = "" if name == "Unnamed: 0" else name
        rows = self.before(self.one_hot("1", "0"), header, values)
        return rows, {"format": "csv-onehot", "drop_columns": [name]}

    def one_hot_with_blanks(self) -> Any:
        blank = self.random.choice(["", "NA", "NaN"])
        rows = self.one_hot("1", "0")
        for row in self.random.sample(rows[1:], 3):
            row[self.random.randrange(len(row))] = blank
        return rows, {"format": "csv-onehot", "missing": "absent"}

    def counts(self) -> Any:
        rows = [
            [str(self.random.randint(1, 4)) if name in basket else "0" for name in self.names]
            for basket in self.baskets
        ]
        rows = [self.names, ["4"] * len(self.names), *rows]
        if self.random.random() < 0.5:
            return rows, {"format": "csv-counts"}
        values = [f"p{n}" for n in range(len(rows) - 1)]
        rows = self.before(rows, "patient_id", values)
        return rows, {"format": "csv-counts", "drop_columns": ["patient_id"]}

    def long_rows(self, id_of: Callable[[int], str], *, together: bool = False) -> list[list[str]]:
        pairs = [[id_of(n), name] for n, b in enumerate(self.baskets) for name in self.order(b)]
        return pairs if together else self.random.sample(pairs, len(pairs))

    def long_form(self) -> Any:
        names = [("transaction", "item"), ("Invoice No", "Stock-Code"), ("tid", "product_name")]
        header = self.random.choice(names)
        rows = [list(header), *self.long_rows(lambda n: f"t{n}")]
        facts = {"transaction_column": [header[0]], "item_column": header[1]}
        return rows, {"format": "csv-long", **facts}

    def patients_and_codes(self) -> Any:
        rows = [["patient_id", "code"], *self.long_rows(lambda n: str(1000 + n), together=True)]
        facts = {"transaction_column": ["patient_id"], "item_column": "code"}
        return rows, {"format": "csv-long", **facts}

    def long_with_prices(self) -> Any:
        self.sep = ";"
        rows = [[*row, f"{self.random.randint(0, 20)},{n % 100:02}"]
                for n, row in enumerate(self.long_rows(lambda n: f"R{n:04}"))]  # fmt: skip
        facts = {"transaction_column": ["receipt"], "item_column": "item"}
        return [["receipt", "item", "price"], *rows], {"format": "csv-long", **facts}

    def mimic(self) -> Any:
        rows = [
            [str(10_000 + int(stay) // 2), stay, str(n % 9 + 1), code]
            for n, (stay, code) in enumerate(self.long_rows(lambda n: str(20_000 + n)))
        ]
        column = self.random.choice(["subject_id", "hadm_id"])
        facts = {"transaction_column": [column], "item_column": "icd_code"}
        header = ["subject_id", "hadm_id", "seq_num", "icd_code"]
        return [header, *rows], {"format": "csv-long", **facts}

    def kaggle_groceries(self) -> Any:
        rows = [
            [str(1000 + n % 7), f"{n % 28 + 1:02}-07-2015", item]
            for n, (_, item) in enumerate(self.long_rows(str))
        ]
        columns = self.random.choice([["Member_number"], ["Member_number", "Date"]])
        facts = {"transaction_column": columns, "item_column": "itemDescription"}
        return [["Member_number", "Date", "itemDescription"], *rows], {
            "format": "csv-long",
            **facts,
        }

    def long_without_a_header(self) -> Any:
        facts = {"header": False, "transaction_column": ["1"], "item_column": "2"}
        return self.long_rows(lambda n: f"t{n}"), {"format": "csv-long", **facts}

    def names_with_spaces(self) -> Any:
        rows, facts = self.long_form()
        name = self.names[0]
        rows += [[f"t{self.rows + n}", item] for n in range(3) for item in (name, f" {name}")]
        return rows, {**facts, "spaces": "keep"}

    def items_called_na(self) -> Any:
        rows, facts = self.long_form()
        rows += [[f"t{n}", self.random.choice(["NA", "None", "null"])] for n in range(3)]
        return rows, {**facts, "missing": self.random.choice(["absent", "item"])}

    def fimi(self) -> Any:
        numbers = {name: str(self.random.randint(0, 10**6)) for name in self.names}
        rows = [[numbers[name] for name in self.order(basket)] for basket in self.baskets if basket]
        return rows, {"format": "fimi", "header": False, "sep": " "}


PLAIN = [
    "baskets_of_names", "zeros_and_ones", "words", "floats", "long_form", "patients_and_codes",
    "long_with_prices", "fimi",
]  # fmt: skip
DOUBTFUL = [
    "padded_baskets", "baskets_under_a_header", "kaggle_wide", "numbered_baskets",
    "one_hot_with_an_id", "one_hot_with_blanks", "counts", "mimic", "kaggle_groceries",
    "long_without_a_header", "names_with_spaces", "items_called_na",
]  # fmt: skip


def tables() -> Iterator[Table]:
    for number in range(TABLES):
        layouts = DOUBTFUL if number % 4 == 2 else PLAIN
        yield Maker(number).table(layouts[number // 4 % len(layouts)])


@pytest.fixture(scope="module")
def keys() -> oboro.Keys:
    return oboro.Keys.generate()


@pytest.fixture(scope="module")
def server() -> Iterator[oboro.LocalServer]:
    with oboro.local() as server:
        yield server


def counted(encrypted: oboro.Encrypted, keys: oboro.Keys, server: oboro.Server) -> Counts:
    """The same of encrypted data: every item and every pair that is in a transaction."""
    transactions = encrypted.transactions
    dataset = server.upload(encrypted, "table", progress=False)
    found = dataset.apriori(keys, 1 / transactions, 2, use_colnames=True, progress=False)
    server.delete(dataset.name)
    counts = dict(zip(found["itemsets"], (found["support"] * transactions).round(), strict=True))
    return transactions, {str(name) for name in encrypted.columns}, counts


def in_words(arguments: str) -> dict[str, Any]:
    """Arguments in an error of the package."""
    call = ast.parse(f"f({arguments})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(it.arg): ast.literal_eval(it.value) for it in call.keywords}


def in_flags(flags: str) -> dict[str, Any]:
    """Options in an error of the command, as arguments of the package."""
    words = shlex.split(flags)
    given: dict[str, Any] = {}
    for flag, value in zip(words[::2], words[1::2], strict=True):
        name = flag.removeprefix("--").replace("-", "_")
        if name == "header":
            given[name] = value == "yes"
        elif name == "drop_columns":
            given[name] = next(csv.reader([value]))
        elif name == "transaction_column":
            given[name] = [*given.get(name, []), value]
        else:
            given[name] = value
    return given


def settled(
    table: Table, pattern: str, parse: Callable[[str], dict[str, Any]], read: Callable[..., Any]
) -> tuple[Any, dict[str, Any]]:
    """What reading gives, once what each refusal names has been given as far as it is true."""
    given: dict[str, Any] = {}
    for _ in range(5):
        try:
            return read(given), given
        except errors.InputError as refusal:
            offers = [parse(text) for text in re.findall(pattern, str(refusal))]
            true = [
                offer
                for offer in offers
                if all(table.facts.get(name) == value for name, value in offer.items())
                and offer.keys() - given.keys()
            ]
            assert true, f"{table.layout}: {refusal}\n{table.facts}\n{table.content[:300]!r}"
            given |= true[0]
    raise AssertionError(f"{table.layout} was refused again and again, at last with {given}")


def test_tables_are_counted_as_pandas_counts_them(
    tmp_path: Path, keys: oboro.Keys, server: oboro.LocalServer
) -> None:
    without = 0
    for table in tables():
        path = tmp_path / f"{table.layout}.csv"
        path.write_bytes(table.content)

        def read(given: dict[str, Any], path: Path = path) -> oboro.Encrypted:
            return oboro.encrypt(path, keys, max_len=2, progress=False, **given)

        encrypted, given = settled(table, r"`([a-z_]+=[^`]*)`", in_words, read)
        expected = table.counts()
        assert counted(encrypted, keys, server) == expected, (table.layout, given, table.facts)
        without += not given
        how = encrypted.read
        assert how is not None
        assert (how["format"], how["transactions"]) == (table.facts["format"], expected[0])
        assert how["items"] == len(expected[1])
        single = [expected[2].get(frozenset([name]), 0) for name in expected[1]]
        assert how["sparsest"]["transactions"] == min(single)
        assert how["densest"]["transactions"] == max(single)
    assert without >= WITHOUT_A_FLAG, without


def test_the_command_reads_them_so_too(
    tmp_path: Path, keys: oboro.Keys, server: oboro.LocalServer
) -> None:
    keys.save(tmp_path / "oboro.key")
    for number, table in enumerate(list(tables())[6::17]):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(table.content)

        def read(given: dict[str, Any], path: Path = path) -> dict[str, Any]:
            flags = []
            for name, value in given.items():
                values = value if name == "transaction_column" else [value]
                if name == "header":
                    values = ["yes" if value else "no"]
                elif name == "drop_columns":
                    values = [",".join(value)]
                flags += [word for it in values for word in (f"--{name.replace('_', '-')}", it)]
            command = [oboro_command(), "--json", "encrypt", str(path), "--max-len", "2", *flags]
            ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
            if ended.returncode:
                raise errors.InputError(json.loads(ended.stderr)["error"])
            said: dict[str, Any] = json.loads(ended.stdout)
            return said

        said, given = settled(table, r"`(--[^` ]+ [^`]*)`", in_flags, read)
        assert said["read"]["format"] == table.facts["format"], given
        assert said["expected_bytes"] == said["stored_bytes"]
        encrypted = oboro.Encrypted.open(tmp_path / said["directory"], keys)
        assert counted(encrypted, keys, server) == table.counts(), (table.layout, given)


def test_nothing_of_a_pipe_is_lost(tmp_path: Path, keys: oboro.Keys) -> None:
    encrypted = oboro.encrypt([["a", "b"], ["a"]], keys)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for lines in (3, 5000):
        before = encrypted.transactions
        feed = threading.Thread(target=pipe.write_text, args=("a,b\n" * lines,))
        feed.start()
        encrypted.append(pipe, format="csv-basket", header=False)
        feed.join()
        assert encrypted.transactions == before + lines


def test_a_dataset_is_appended_to_as_it_was_read(tmp_path: Path, keys: oboro.Keys) -> None:
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("patient_id;a;b\n1;1;0\n2;1;1\n3;0;1\n")
    with pytest.raises(errors.InputError, match=r"`drop_columns=\['patient_id'\]`"):
        oboro.encrypt(first, keys)
    encrypted = oboro.encrypt(first, keys, drop_columns="patient_id")
    assert encrypted.read is not None
    assert encrypted.read["columns_dropped"] == ["patient_id"]
    second.write_text("patient_id;b;a\n4;1;0\n")
    said = encrypted.append(second)
    assert said is not None
    assert (said["separator"], said["transactions"]) == (";", 1)
    assert (encrypted.transactions, encrypted.columns) == (4, ["a", "b"])
    second.write_text("patient_id;b;a\n")
    assert encrypted.append(second, format="csv-onehot", header=True) is None
    assert encrypted.transactions == 4
    second.write_text("a,b\na\n")
    with pytest.raises(errors.InputError, match=r"read as csv-onehot; .* give `format`"):
        encrypted.append(second)
    assert encrypted.append(second, format="csv-basket", header=False) is not None
    assert encrypted.append([["a"]]) is None
    assert encrypted.transactions == 7


def test_what_was_read_is_with_the_itemsets(
    tmp_path: Path, keys: oboro.Keys, server: oboro.LocalServer
) -> None:
    (tmp_path / "rows").write_bytes(gzip.compress(b"1 2\n2 3 4\n\n7 2\n"))
    encrypted = oboro.encrypt(tmp_path / "rows", keys, path=tmp_path / "rows.oboro")
    found = server.upload(encrypted).apriori(keys, 0.5)
    read = found.attrs["oboro"]["read"]
    assert (read["format"], read["compression"], read["empty_transactions"]) == ("fimi", "gzip", 1)
    assert read["densest"] == {"item": "2", "transactions": 3}
    assert oboro.Encrypted.open(tmp_path / "rows.oboro", keys).read == encrypted.read
    assert oboro.encrypt([["a", "b"]], keys).read is None


@pytest.mark.parametrize(
    ("data", "reading", "error", "sentence"),
    [
        ([["a"]], {"separator": ";"}, errors.InputError, "separator is about files and tables"),
        (Path("x"), {"sep": ";"}, TypeError, "'sep' is no argument"),
        (Path("x"), {"separator": "ab"}, errors.InputError, '"ab" is not a separator'),
        (Path("x"), {"format": "csv"}, errors.InputError, '"csv" is not a format; give auto'),
        (Path("x"), {"encoding": "cp1252"}, errors.InputError, "give utf-8 or latin-1"),
        (Path("x"), {"missing": "0"}, errors.InputError, "give absent or item"),
        (Path("x"), {"drop_columns": "c"}, errors.InputError, 'no columns are called "c"'),
    ],
)
def test_what_cannot_be_said_is_refused(
    tmp_path: Path,
    keys: oboro.Keys,
    data: Any,
    reading: Any,
    error: type[Exception],
    sentence: str,
) -> None:
    (tmp_path / "x").write_text("a,b\n1,0\n0,1\n")
    data = tmp_path / data if isinstance(data, Path) else data
    with pytest.raises(error, match=sentence):
        oboro.encrypt(data, keys, **reading)


# Data as people have them: a file, what the refusal of it names, the arguments that read it, its
# transactions and items.
LAYOUTS: dict[str, tuple[str, str | None, dict[str, Any], int, list[str]]] = {
    "MIMIC-IV": (
        "subject_id,hadm_id,seq_num,icd_code\n7,1,1,I10\n7,1,2,E11\n8,2,1,I10\n7,3,1,E11\n8,2,2,J45\n",
        "transaction_column=['hadm_id'], item_column='icd_code'",
        {"transaction_column": "hadm_id", "item_column": "icd_code"},
        3,
        ["E11", "I10", "J45"],
    ),
    "patients and codes": ("patient_id,code\n1,I10\n2,E11\n1,E11\n", None, {}, 2, ["E11", "I10"]),
    "Groceries": (
        "Member_number,Date,itemDescription\n1,21-07-2015,tea\n1,21-07-2015,milk\n"
        "2,19-09-2015,tea\n2,19-09-2015,salt\n1,05-01-2015,tea\n",
        "transaction_column=['Member_number', 'Date'], item_column='itemDescription'",
        {"transaction_column": ["Member_number", "Date"], "item_column": "itemDescription"},
        3,
        ["milk", "salt", "tea"],
    ),
    "Online Retail": (
        "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n"
        "536365,85123A,HEART HOLDER,6,12/1/2010 8:26,2.55,17850,United Kingdom\n"
        "536365,71053,LANTERN,6,12/1/2010 8:26,3.39,17850,United Kingdom\n"
        "536366,71053,LANTERN,6,12/1/2010 8:28,3.39,,United Kingdom\n",
        "transaction_column=['InvoiceNo'], item_column='StockCode'",
        {"transaction_column": "InvoiceNo", "item_column": "StockCode"},
        2,
        ["71053", "85123A"],
    ),
    "one-hot with an id": (
        "patient_id,flu,gout\n1,1,0\n2,1,1\n3,0,1\n",
        "drop_columns=['patient_id']",
        {"drop_columns": "patient_id"},
        3,
        ["flu", "gout"],
    ),
    "yes and no": ("Fever,Cough\nYes,No\nNo,Yes\n", None, {}, 2, ["Fever", "Cough"]),
    "semicolons": ("milk;tea\nsalt\nmilk;salt;tea\n", None, {}, 3, ["milk", "salt", "tea"]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_data_as_people_have_them_are_read_rightly_or_refused_with_the_remedy(
    layout: str, tmp_path: Path, keys: oboro.Keys
) -> None:
    text, remedy, reading, transactions, items = LAYOUTS[layout]
    (tmp_path / "file").write_text(text)
    forms: list[Any] = [tmp_path / "file"]
    if layout != "semicolons":
        # As a frame, and as what that is written to.
        forms.append(pd.read_csv(tmp_path / "file"))
        forms[1].to_parquet(tmp_path / "parquet")
        forms.append(tmp_path / "parquet")
    for data in forms:
        if remedy is not None and not isinstance(data, pd.DataFrame):
            with pytest.raises(errors.InputError, match=re.escape(remedy)):
                oboro.encrypt(data, keys, max_len=2)
        encrypted = oboro.encrypt(data, keys, max_len=2, **reading)
        assert (encrypted.transactions, sorted(map(str, encrypted.columns))) == (
            transactions,
            sorted(items),
        )
        assert encrypted.read is not None
        assert encrypted.read["transactions"] == transactions


def test_a_page_of_parquet_is_checked_against_its_checksum(
    tmp_path: Path, keys: oboro.Keys
) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"visit": [1, 1], "item": ["bread77", "butter77"]})
    path = tmp_path / "visits.parquet"
    frame.to_parquet(path, write_page_checksum=True, use_dictionary=False, compression=None)
    assert len(oboro.encrypt(path, keys).columns) == 2
    path.write_bytes(path.read_bytes().replace(b"bread77", b"dread77"))
    with pytest.raises(errors.InputError, match="cannot read"):
        oboro.encrypt(path, keys)


def test_a_file_of_polars_is_read(tmp_path: Path, keys: oboro.Keys) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "visits.arrow"
    polars.DataFrame({"visit": [1, 2, 2], "item": ["a", "a", "b"]}).write_ipc(path)
    assert sorted(oboro.encrypt(path, keys).columns) == ["a", "b"]


def test_standard_input_is_read() -> None:
    program = "import oboro; print(oboro.encrypt('-', oboro.Keys.generate(), max_len=2).columns)"
    text = "visit,code\n1,I10\n1,E11\n2,I10\n"
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True
    )
    assert done.stdout.strip() == "['E11', 'I10']", done.stderr


def test_codes_bring_their_chapters(tmp_path: Path, keys: oboro.Keys) -> None:
    (tmp_path / "codes.csv").write_text("I10,circulatory\nI20,circulatory\n")
    frame = pd.DataFrame({"patient_id": [1, 1, 2], "code": ["I10", "E11", "I20"]})
    encrypted = oboro.encrypt(frame, keys, max_len=2, taxonomy=tmp_path / "codes.csv")
    assert encrypted.columns == ["E11", "I10", "I20", "circulatory"]
    assert encrypted.read is not None
    assert encrypted.read["taxonomy_applied"]["items"] == 2
    # Another file of the dataset needs the same.
    how = encrypted.append(frame)
    assert how is not None
    assert how["taxonomy_applied"] == encrypted.read["taxonomy_applied"]
    (tmp_path / "codes.csv").write_text("I10,heart\n")
    with pytest.raises(errors.InputError, match="another taxonomy than the dataset's first file"):
        encrypted.append(frame)
    with pytest.raises(errors.InputError, match="taxonomy is about files and tables"):
        oboro.encrypt([["I10"]], keys, taxonomy=tmp_path / "codes.csv")


def test_baskets_and_frames_have_names_as_files_have_them() -> None:
    baskets = [["Ka\u0308se", "tea"], ["K\u00e4se"]]
    assert _frames.rows(baskets).names == ["K\u00e4se", "tea"]
    assert len(_frames.rows(baskets, reading={"unicode": "as-is"}).names) == 3
    frame = pd.DataFrame({"visit_id": [1, 1, 2], "code": ["tea", "Ka\u0308se", "K\u00e4se"]})
    assert sorted(_frames.rows(frame).names) == ["K\u00e4se", "tea"]
    # Labels of columns of 0 and 1 are names as they are.
    labels = pd.DataFrame([[1, 0]], columns=["Ka\u0308se", "?"])
    assert _frames.rows(labels).names == ["Ka\u0308se", "?"]
    for word in ("nan", "NaT", "<NA>", "?", "\\N", "#REF!", ""):
        with pytest.raises(errors.InputError, match=r"`missing='absent'` if no item is there"):
            _frames.rows([["milk", "tea"], ["milk", word]])
        absent = _frames.rows([["milk"], ["milk", word]], reading={"missing": "absent"})
        assert absent.names == ["milk"]
        kept = _frames.rows([["milk", word]], reading={"missing": "item"})
        assert kept.names == sorted(["milk", word])
        if word:
            for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
                with pytest.raises(errors.InputError, match=r"`missing='item'`"):
                    _frames.rows(with_code(table, word))
    for missing in (None, pd.NA, pd.NaT, float("nan")):
        codes = pd.DataFrame({"visit_id": [1, 1, 2], "code": ["tea", "milk", missing]})
        rows = _frames.rows(codes)
        assert (len(rows), rows.names) == (2, ["milk", "tea"])
    with pytest.raises(errors.InputError, match=r"U\+00AD, a soft hyphen"):
        _frames.rows([["mi\u00adlk"]])
    with pytest.raises(errors.InputError, match="missing is about files and tables"):
        _frames.rows(np.array([[1, 0]]), reading={"missing": "item"})


def with_code(table: Any, word: str) -> Any:
    """A table of visits with another code in its last row."""
    frame = pd.DataFrame({"visit_id": [1, 1, 2], "code": ["tea", "milk", word]})
    if isinstance(table, pl.DataFrame):
        return pl.from_pandas(frame)
    return pa.Table.from_pandas(frame) if isinstance(table, pa.Table) else frame


def test_what_is_no_data_is_left_out_of_files(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('visit,items\n1,"milk, tea"\n2,"tea"\nTotal,3\n')
    with pytest.raises(errors.InputError, match=r"`skip_last=1` to leave the last row out"):
        _frames.rows(path)
    with pytest.raises(errors.InputError, match=r"`item_separator='comma'` if such cells"):
        _frames.rows(path, reading={"skip_last": 1})
    rows = _frames.rows(path, reading={"skip_last": 1, "item_separator": "comma"})
    assert (rows.names, rows.supports()) == (["milk", "tea"], [1, 2])
    for wrong in (-1, True, "1", 1 << 32):
        with pytest.raises(errors.InputError, match="give a number of lines, or 0 for none"):
            _frames.rows(path, reading={"skip_last": wrong})  # type: ignore[arg-type]


def test_refusals_of_other_formats_name_what_reads_them(tmp_path: Path) -> None:
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"visit_id": 1, "code": "tea"}\n{"visit_id": 1, "code": "milk"}\n')
    with pytest.raises(errors.InputError, match=r"is JSON, .*pandas.read_json\(path\), with lines"):
        _frames.rows(lines)
    rows = _frames.rows(pd.read_json(lines, lines=True))
    assert (len(rows), rows.names) == (1, ["milk", "tea"])
