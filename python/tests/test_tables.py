"""sort_table() beside Polars and DuckDB."""

import datetime
import decimal
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import vortex

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
pl = pytest.importorskip("polars", reason="polars is not installed")

LEAST = 32 << 20
WORDS = ["", "a", "a\0", "a\0b", "b", "ü", "common beginning of a long text " * 3]


def random_table(rng, rows):
    """Columns of all kinds that have an order, with nulls; `place` numbers the rows."""

    def some(values, kind):
        return pa.array(values, kind, mask=rng.random(rows) < 0.1)

    numbers = rng.normal(size=rows)
    numbers[rng.random(rows) < 0.2] = np.nan
    numbers[rng.random(rows) < 0.2] = -0.0
    numbers[rng.random(rows) < 0.2] = 0.0
    words = [WORDS[at] + str(more) * (more % 3) for at, more in rng.integers(0, [len(WORDS), 40], (rows, 2))]
    begin = datetime.datetime(2020, 1, 1)
    return pa.table({
        "i8": some(rng.integers(-5, 5, rows), pa.int8()),
        "u64": some(rng.integers(0, 1 << 64, rows, dtype=np.uint64), pa.uint64()),
        "f32": some(numbers.astype(np.float32), pa.float32()),
        "f64": some(numbers, pa.float64()),
        "bool": some(rng.random(rows) < 0.5, pa.bool_()),
        "text": some(words, pa.string()),
        "bytes": some([word.encode() for word in words], pa.large_binary()),
        "kind": some(words, pa.string()).dictionary_encode(),
        "price": some([decimal.Decimal(int(one)) / 100 for one in rng.integers(-9999, 9999, rows)], pa.decimal128(30, 2)),
        "date": some([(begin + datetime.timedelta(int(one))).date() for one in rng.integers(0, 99, rows)], pa.date32()),
        "time": some([begin + datetime.timedelta(0, int(one)) for one in rng.integers(0, 10**6, rows)], pa.timestamp("us")),
        "place": pa.array(range(rows)),
    })  # fmt: skip


KEYS = ["i8", "u64", "f32", "f64", "bool", "text", "bytes", "kind", "price", "date", "time"]


def frame_of(table):
    """A frame of Polars, which orders categories by their numbers unless they are strings."""
    return pl.from_arrow(table.set_column(table.schema.get_field_index("kind"), "kind", table["kind"].cast(pa.string())))


def check_against_polars(rng, table, folder, memory, trials, wanted_runs):
    pq.write_table(table, folder / "in.parquet", row_group_size=max(1, len(table) // 7))
    frame = frame_of(table)
    for _ in range(trials):
        names = list(rng.choice(KEYS, rng.integers(1, 4), replace=False))
        turned = [bool(one) for one in rng.random(len(names)) < 0.5]
        last = bool(rng.random() < 0.5)
        by = [(name, "descending" if one else "ascending") for name, one in zip(names, turned)]
        report = vortex.sort_table(folder / "in.parquet", folder / "out.parquet", by, nulls="last" if last else "first",
                                   memory=memory, threads=int(rng.integers(1, 3)))  # fmt: skip
        wanted = frame.sort(names, descending=turned, nulls_last=last, maintain_order=True)
        found = pq.read_table(folder / "out.parquet")
        assert found.schema.equals(table.schema)
        assert frame_of(found).equals(wanted), (by, last)
        assert (report.records_in, report.records_out) == (len(table), len(table))
        assert (report.runs > 1) == wanted_runs


def test_random_tables_in_memory(rng, tmp_path):
    for rows in (1, 2, 1000):
        check_against_polars(rng, random_table(rng, rows), tmp_path, 0, 15, False)


def test_random_tables_in_runs(rng, tmp_path):
    check_against_polars(rng, random_table(rng, 300_000), tmp_path, LEAST, 6, True)


def test_against_duckdb(rng, tmp_path):
    rows = random_table(rng, 5_000)  # noqa: F841
    write(rows, tmp_path / "in.parquet")
    for _ in range(8):
        # DuckDB counts NaN as the largest number, too, and keeps no order: the place is the last column.
        names = list(rng.choice(KEYS, rng.integers(1, 4), replace=False))
        turned = [bool(one) for one in rng.random(len(names)) < 0.5]
        nulls = str(rng.choice(["first", "last"]))
        vortex.sort_table(tmp_path / "in.parquet", tmp_path / "out.parquet", nulls=nulls,
                          by=[*((name, "descending" if one else "ascending") for name, one in zip(names, turned)),
                              "place"])  # fmt: skip
        order = ", ".join(f"{name} {'DESC' if one else 'ASC'} NULLS {nulls}" for name, one in zip(names, turned))
        places = duckdb.sql(f"SELECT place FROM rows ORDER BY {order}, place").fetchnumpy()["place"]
        assert np.array_equal(pq.read_table(tmp_path / "out.parquet")["place"].to_numpy(), places), order


def write(table, path):
    pq.write_table(table, path)
    return path


def test_equal_keys_keep_their_order_over_many_runs(rng, tmp_path):
    rows = 1_200_000
    table = pa.table({"key": rng.integers(0, 3, rows), "place": np.arange(rows), "more": rng.random(rows)})
    report = vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", "key", memory=LEAST)
    assert report.runs > 1
    found = pq.read_table(tmp_path / "out.parquet")
    assert np.array_equal(found["place"].to_numpy(), np.argsort(table["key"].to_numpy(), kind="stable"))


def test_words_of_a_dictionary_come_by_and_by(rng, tmp_path):
    rows = 1_800_000
    # So that each run has others.
    words = pa.array([f"word {at // 1000}" for at in range(rows)]).dictionary_encode()
    table = pa.table({"key": rng.integers(0, 1000, rows), "place": np.arange(rows), "word": words})
    report = vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.arrow", "key", memory=LEAST)
    assert report.runs > 1
    with pa.ipc.open_file(str(tmp_path / "out.arrow")) as file:
        found = file.read_all()
        # So that it can be sorted again in as much.
        assert max(file.get_batch(at).nbytes for at in range(file.num_record_batches)) < LEAST // 10
    wanted = table.take(np.argsort(table["key"].to_numpy(), kind="stable"))
    assert found["place"].equals(wanted["place"])
    assert found["word"].cast(pa.string()).equals(wanted["word"].cast(pa.string()))


@pytest.mark.parametrize("first", [100, 250_000, 10**6])
def test_the_first_rows(rng, tmp_path, first):
    rows = 400_000
    table = pa.table({"key": rng.integers(0, 9, rows), "place": np.arange(rows), "more": rng.random(rows)})
    seen = []
    report = vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", "key", memory=LEAST,
                               first=first, progress=lambda *call: seen.append(call))  # fmt: skip
    # Few are kept in memory.
    assert (report.runs > 0) == (first > 1000)
    wanted = np.argsort(table["key"].to_numpy(), kind="stable")[:first]
    assert np.array_equal(pq.read_table(tmp_path / "out.parquet")["place"].to_numpy(), wanted)
    assert (report.records_in, report.records_out) == (rows, len(wanted)) and seen[-1] == ("writing", *[len(wanted)] * 2)


def nested_table(rng, rows):
    """Columns that go along, of all layouts that Arrow has for them, with nulls inside, too."""

    def maybe(value):
        return None if rng.random() < 0.15 else value()

    def some(kind, value):
        return pa.array([maybe(value) for _ in range(rows)], kind)

    def number():
        return int(rng.integers(-9, 9))

    def word():
        return "x" * int(rng.integers(0, 40))

    def several(value):
        return [maybe(value) for _ in range(rng.integers(0, 4))]

    inner = pa.struct([("a", pa.int16()), ("b", pa.list_(pa.string())), ("c", pa.bool_())])
    return pa.table({
        "key": some(pa.int32(), number),
        "list": some(pa.list_(pa.int64()), lambda: several(number)),
        "large": some(pa.large_list(pa.large_string()), lambda: several(word)),
        "bits": some(pa.list_(pa.bool_()), lambda: several(lambda: bool(rng.random() < 0.5))),
        "three": some(pa.list_(pa.int8(), 3), lambda: [maybe(number) for _ in range(3)]),
        "pair": some(inner, lambda: {"a": maybe(number), "b": maybe(lambda: several(word)), "c": maybe(lambda: True)}),
        "map": some(pa.map_(pa.string(), pa.float32()), lambda: {f"{at}": maybe(lambda: 0.5) for at in range(number() % 3)}),
        "lists": some(pa.list_(pa.list_(pa.string())), lambda: several(lambda: several(word))),
        "none": pa.nulls(rows),
        "half": pa.array(rng.normal(size=rows).astype(np.float16)),
        "bytes": some(pa.binary(5), lambda: rng.bytes(5)),
        "wide": some(pa.decimal256(60, 3), lambda: decimal.Decimal(number()) / 8),
        "span": some(pa.month_day_nano_interval(), lambda: pa.scalar((1, number(), 3), pa.month_day_nano_interval())),
        "id": pa.ExtensionArray.from_storage(pa.uuid(), some(pa.binary(16), lambda: rng.bytes(16))),
        "place": pa.array(range(rows)),
    })  # fmt: skip


@pytest.mark.parametrize("by", [["key"], ["half", "bytes"], ["bytes", "none", "wide"], ["wide", "key"]])
def test_columns_that_go_along(rng, tmp_path, by):
    table = nested_table(rng, 700)
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as out:
        # Batches whose arrays begin in the middle of others.
        out.write_table(table, max_chunksize=90)
    vortex.sort_table(tmp_path / "in.arrow", tmp_path / "out.arrow", [*by, ("key", "descending")])
    with pa.ipc.open_file(str(tmp_path / "out.arrow")) as found:
        found = found.read_all()
    found.validate(full=True)

    def rank(row):
        values = [*((table[name][row].as_py(), 1) for name in by), (table["key"][row].as_py(), -1)]
        return [(value is None, 0 if value is None else value if turned > 0 else -value) for value, turned in values]

    order = sorted(range(len(table)), key=rank)
    assert found.schema.equals(table.schema)
    assert found.to_pylist() == table.take(order).to_pylist()


def test_columns_that_have_no_nulls(rng, tmp_path):
    rows = 2_000
    schema = pa.schema([pa.field("key", pa.uint64(), nullable=False), pa.field("text", pa.string(), nullable=False)])
    table = pa.table([rng.integers(0, 9, rows, np.uint64), [f"{one}" for one in rng.integers(0, 99, rows)]], schema=schema)
    for by in (["key"], ["text", "key"]):
        vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", by)
        wanted = pl.from_arrow(table).sort(by, maintain_order=True)
        found = pq.read_table(tmp_path / "out.parquet")
        assert found.schema.equals(schema) and pl.from_arrow(found).equals(wanted)
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), schema) as out:
        out.write_batch(pa.RecordBatch.from_arrays([pa.array([1, None], pa.uint64()), pa.array(["a", "b"])], schema=schema))
    with pytest.raises(ValueError, match="in.arrow: .*null"):
        vortex.sort_table(tmp_path / "in.arrow", tmp_path / "out.arrow", "text")
    assert not (tmp_path / "out.arrow").exists()


def test_dictionaries_of_many_values(rng, tmp_path):
    """Each row group has its own, and some of their values; in an Arrow file all batches have one."""
    rows = 60_000
    words = [f"word {at}" for at in rng.permutation(rows)]
    table = pa.table({"key": rng.integers(0, 99, rows), "word": pa.array(words).dictionary_encode(), "place": np.arange(rows)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=7_000)
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as out:
        out.write_table(table, max_chunksize=500)
    for source, by in (("in.parquet", ["key"]), ("in.arrow", ["key"]), ("in.arrow", ["word", "key"])):
        vortex.sort_table(tmp_path / source, tmp_path / "out.parquet", by, memory=LEAST)
        found = pq.read_table(tmp_path / "out.parquet")
        plain = pl.from_arrow(table.set_column(1, "word", table["word"].cast(pa.string())))
        assert found.schema.equals(table.schema)
        assert pl.from_arrow(found.set_column(1, "word", found["word"].cast(pa.string()))).equals(
            plain.sort(by, maintain_order=True))  # fmt: skip


def test_columns_that_have_one_name(tmp_path):
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("x", pa.dictionary(pa.int8(), pa.string())),
                        ("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])  # fmt: skip
    table = pa.table([[2, 1], [None, 5], pa.array(["v", None]).dictionary_encode().cast(schema.field(2).type), [None, 7],
                      [{"b": 1}, {"b": 2}]], schema=schema)  # fmt: skip
    vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", "k")
    found = pq.ParquetFile(tmp_path / "out.parquet").read()
    assert [column.to_pylist() for column in found.columns] == [[1, 2], [5, None], [None, "v"], [7, None], [{"b": 2}, {"b": 1}]]


def test_long_rows_of_one_length(rng, tmp_path):
    wide = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(5 * 200_000)), 200_000)
    table = pa.table({"key": [3, 1, 2, 5, 4], "wide": wide})
    report = vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", "key", memory=64 << 20)
    assert report.records_out == 5
    assert pq.read_table(tmp_path / "out.parquet").equals(table.take([1, 2, 0, 4, 3]))


def test_long_rows(rng, tmp_path):
    texts = ["x" * int(long) for long in rng.integers(0, 900_000, 60)]
    table = pa.table({"key": rng.random(60), "text": texts})
    vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", "key", memory=LEAST)
    assert pl.from_arrow(pq.read_table(tmp_path / "out.parquet")).equals(pl.from_arrow(table).sort("key"))


@pytest.mark.parametrize("first", [None, 150_000])
def test_few_rows_are_longer_than_the_others(rng, tmp_path, first):
    rows = 400_000
    long = rng.random(rows) < 0.003
    # A piece of the table where nobody looks beforehand.
    long[rows // 4 : rows // 4 + rows // 50] = True
    words = ["x" * int(many) + WORDS[at] * 9 if more else WORDS[at % 5] + "y" * (many % 7)
             for more, at, many in zip(long, rng.integers(0, 5, rows), rng.integers(0, 700, rows))]  # fmt: skip
    table = pa.table({"text": pa.array(words, mask=rng.random(rows) < 0.05), "key": rng.integers(0, 9, rows),
                      "bytes": pa.array([word[:40].encode() for word in words], pa.large_binary()),
                      "place": np.arange(rows)})  # fmt: skip
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=rows // 9)
    frame = pl.from_arrow(table)
    for names, turned in [(["key"], [False]), (["text", "key"], [True, False]), (["key", "bytes"], [False, True])]:
        by = [(name, "descending" if one else "ascending") for name, one in zip(names, turned)]
        report = vortex.sort_table(tmp_path / "in.parquet", tmp_path / "out.parquet", by, memory=LEAST, first=first)
        assert report.runs > 0
        wanted = frame.sort(names, descending=turned, nulls_last=True, maintain_order=True).head(first or rows)
        assert pl.from_arrow(pq.read_table(tmp_path / "out.parquet")).equals(wanted), by


def test_rows_too_long_for_the_memory(tmp_path):
    source = write(pa.table({"key": [2, 1], "text": ["x" * 30_000_000, "y"]}), tmp_path / "in.parquet")
    with pytest.raises(OSError, match="raise `memory`") as raised:
        vortex.sort_table(source, tmp_path / "out.parquet", "key", memory=LEAST)
    assert (raised.value.errno, raised.value.filename) == (errno.EMSGSIZE, str(source))
    assert not (tmp_path / "out.parquet").exists()


def test_dictionaries_of_parquet_where_values_come_again(rng, tmp_path):
    rows = 300_000
    few = pa.array(rng.integers(0, 1000, rows))
    table = pa.table({"key": pa.array(rng.random(rows)), "few": few, "word": few.cast(pa.string()).dictionary_encode(),
                      "when": pa.array(rng.permutation(rows), pa.timestamp("s")),
                      "price": pa.array(rng.permutation(rows)).cast(pa.decimal128(30, 2))})  # fmt: skip
    vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", "key")
    group = pq.read_metadata(tmp_path / "out.parquet").row_group(0)
    have = {group.column(at).path_in_schema for at in range(group.num_columns) if group.column(at).has_dictionary_page}
    assert have == {"few", "word"}
    # The names of columns inside of others are Parquet's.
    table = pa.table({"key": rng.random(10_000), "pair": [{"x": i % 10} for i in range(10_000)]})
    vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", "key")
    assert pq.read_metadata(tmp_path / "out.parquet").row_group(0).column(1).has_dictionary_page


def test_long_common_beginnings(rng, tmp_path):
    texts = ["x" * int(long) + "y" * int(more) for long, more in rng.integers(0, 200, (5000, 2))]
    table = pa.table({"text": texts, "place": np.arange(5000)})
    vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", "text", descending=True)
    wanted = pl.from_arrow(table).sort("text", descending=True, maintain_order=True)["place"]
    assert pl.from_arrow(pq.read_table(tmp_path / "out.parquet")["place"].combine_chunks()).equals(wanted)


def test_several_files_folders_and_arrow(rng, tmp_path):
    parts = [random_table(rng, 500) for _ in range(3)]
    (tmp_path / "in" / "more").mkdir(parents=True)
    for at, part in enumerate(parts[:2]):
        pq.write_table(part, tmp_path / "in" / f"{at}.parquet")
    with pa.ipc.new_file(str(tmp_path / "in" / "more" / "2.arrow"), parts[2].schema) as out:
        out.write_table(parts[2], max_chunksize=70)
    (tmp_path / "in" / "_SUCCESS").write_text("")
    vortex.sort_table(tmp_path / "in", tmp_path / "out.arrow", ["text", "place"])
    with pa.ipc.open_file(str(tmp_path / "out.arrow")) as found:
        frame = frame_of(found.read_all())
    wanted = frame_of(pa.concat_tables(parts)).sort(["text", "place"], nulls_last=True, maintain_order=True)
    assert frame.equals(wanted)


def test_datasets(rng, tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    parts = [pa.table({"key": rng.integers(0, 9, 500), "place": np.arange(500) + at * 500}) for at in range(3)]
    files = [write(part, tmp_path / f"{at}.parquet") for at, part in enumerate(parts)]
    whole = dataset.dataset([str(file) for file in files])
    vortex.sort_table(whole, tmp_path / "out.parquet", "key")
    wanted = pl.from_arrow(pa.concat_tables(parts)).sort("key", maintain_order=True)
    assert pl.from_arrow(pq.read_table(tmp_path / "out.parquet")).equals(wanted)
    (tmp_path / "hive" / "year=1").mkdir(parents=True)
    pq.write_table(parts[0], tmp_path / "hive" / "year=1" / "0.parquet", row_group_size=100)
    fragment = next(dataset.dataset(tmp_path / "hive", format="parquet").get_fragments())
    some = dataset.FileSystemDataset([fragment.subset(row_group_ids=[1, 3])], parts[0].schema, fragment.format)
    for data, words in [(whole.filter(dataset.field("key") > 3), "filter"),
                        (dataset.dataset(tmp_path / "hive", partitioning="hive"), "other columns"), (some, "whole files"),
                        (whole.replace_schema(pa.schema([("key", pa.int64())])), "another schema"),
                        (dataset.dataset(parts[0]), "whole files")]:  # fmt: skip
        with pytest.raises(ValueError, match=words):
            vortex.sort_table(data, tmp_path / "new.parquet", "key")
    assert not (tmp_path / "new.parquet").exists()


def test_empty_tables(tmp_path):
    table = random_table(np.random.default_rng(1), 10).slice(0, 0)
    report = vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", KEYS)
    assert report == (0, 0, 0, 0)
    assert pq.read_table(tmp_path / "out.parquet").schema.equals(table.schema)


def test_the_file_says_how_it_is_sorted(tmp_path):
    # Parquet numbers the columns inside of others, too.
    table = pa.table({"pair": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "a": [2, 1], "b": ["x", "y"]})
    vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", ["b", ("a", "descending")])
    columns = pq.read_metadata(tmp_path / "out.parquet").row_group(0).sorting_columns
    assert [(one.column_index, one.descending, one.nulls_first) for one in columns] == [(3, False, False), (2, True, False)]


def test_wrong_calls(tmp_path):
    table = pa.table({"a": [1, 2], "list": [[1], [2]]})
    source, target = write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet"
    (tmp_path / "text").write_text("no table")
    union, mixed = tmp_path / "union.arrow", pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    with pa.ipc.new_file(str(union), pa.schema([("a", pa.int64()), ("u", mixed.type)])) as out:
        out.write_batch(pa.RecordBatch.from_arrays([pa.array([1, 2]), mixed], names=["a", "u"]))
    (tmp_path / "hive" / "a=1").mkdir(parents=True)
    for call, error, words in [
        (dict(by="c"), ValueError, "no column 'c'"),
        (dict(by=[]), ValueError, "no column to sort by"),
        (dict(by="list"), TypeError, "has no order"),
        (dict(by="a", src=union), TypeError, "'u' of .*union.* cannot be sorted along"),
        (dict(by=[("a", "up")]), ValueError, "neither 'ascending' nor 'descending'"),
        (dict(by="a", nulls="middle"), ValueError, "neither 'first' nor 'last'"),
        (dict(by="a", first=0), ValueError, "first: 0 are none"),
        (dict(by="a", memory=1 << 20), ValueError, "the least"),
        (dict(by="a", src=tmp_path / "text"), ValueError, "neither a Parquet file nor an Arrow file"),
        (dict(by="a", src=tmp_path / "none"), FileNotFoundError, "none"),
        (dict(by="a", src=tmp_path / "hive"), ValueError, "COLUMN=VALUE"),
        (dict(by="a", src=[source, write(pa.table({"a": ["1"]}), tmp_path / "other.parquet")]), ValueError, "schema"),
        (dict(by="a", folders=tmp_path / "none"), FileNotFoundError, "none"),
    ]:
        with pytest.raises(error, match=words):
            vortex.sort_table(**{"src": source, "dst": target, **call})
        assert not target.exists()


@pytest.mark.parametrize("kind", [pa.int32(), pa.large_string(), pa.int64()])
def test_files_that_are_replaced_meanwhile(tmp_path, kind):
    names = [write(pa.table({"k": [3, 1, 2], "s": ["a", "b", "c"]}), tmp_path / f"{at}.parquet") for at in range(2)]
    other = {"k": pa.array([1, 2, 3], kind if pa.types.is_integer(kind) else pa.int64()),
             "s": pa.array(["x", "y", "z"], pa.string() if pa.types.is_integer(kind) else kind)}  # fmt: skip
    new = write(pa.table(other), tmp_path / "new")

    def replace(*_):
        if new.exists():
            os.replace(new, names[1])

    wanted = pytest.raises(OSError) if kind == pa.int64() else pytest.raises(ValueError, match="1.parquet has another schema")
    with wanted as caught:
        vortex.sort_table(names, tmp_path / "out.parquet", "k", progress=replace)
    if kind == pa.int64():
        assert (caught.value.errno, caught.value.filename) == (errno.EBUSY, str(names[1]))
    assert sorted(os.listdir(tmp_path)) == ["0.parquet", "1.parquet"]


def test_extensions_of_text_go_along(tmp_path):
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None, "[]"], pa.string()))
    table = pa.table({"key": [2, 3, 1], "json": texts})
    vortex.sort_table(write(table, tmp_path / "in.parquet"), tmp_path / "out.parquet", "key")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.equals(table.schema) and found["json"].to_pylist() == ["[]", "{}", None]


def test_what_is_replaced_passes_its_rights_on_and_links_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "out.parquet", tmp_path / "link.parquet"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    vortex.sort_table(write(pa.table({"k": [2, 1]}), tmp_path / "in.parquet"), link, "k")
    assert link.is_symlink() and pq.read_table(target)["k"].to_pylist() == [1, 2]
    assert target.stat().st_mode & 0o777 == 0o600 and os.listdir(tmp_path / "folder") == ["out.parquet"]


WITHOUT_NAMELESS_FILES = """
import ctypes, errno, os, platform, struct, sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq, vortex
number = {"x86_64": 257, "aarch64": 56}[platform.machine()]
# Of openat(2): O_TMPFILE, and only that, is EOPNOTSUPP.
rules = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 32), (0x45, 0, 1, 0x400000), (0x06, 0, 0, 0x5005F),
         (0x06, 0, 0, 0x7FFF0000)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
prctl = ctypes.CDLL(None, use_errno=True).prctl
program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(filters))
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, program):
    sys.exit("not here")
os.chdir(sys.argv[1])
try:
    os.open(".", os.O_TMPFILE | os.O_RDWR)
except OSError as error:
    assert error.errno == errno.EOPNOTSUPP
pq.write_table(pa.table({"k": [3, 1, 2]}), "in.parquet")
for _ in range(2):
    vortex.sort_table("in.parquet", "out.parquet", "k")
    with vortex.create("made", np.int8, 10) as made:
        made[:] = 3
    vortex.partition("made", ["low", "high"], [3], dtype="i1")
print(pq.read_table("out.parquet")["k"].to_pylist(), sorted(os.listdir(".")))
"""


def test_where_all_files_have_names(tmp_path):
    done = subprocess.run([sys.executable, "-c", WITHOUT_NAMELESS_FILES, tmp_path], capture_output=True, text=True, check=False)
    if done.stderr.strip() == "not here":
        pytest.skip("seccomp(2) is refused")
    assert done.stdout.strip() == "[1, 2, 3] ['high', 'in.parquet', 'low', 'made', 'out.parquet']", done.stderr


def stop_now():
    raise KeyboardInterrupt


@pytest.mark.parametrize("stop", [stop_now, lambda: signal.raise_signal(signal.SIGINT)], ids=["progress", "signal"])
@pytest.mark.parametrize("phase", ["reading", "writing"])
def test_what_fails_leaves_the_earlier_file_and_nothing_else(rng, tmp_path, phase, stop):
    source = write(random_table(rng, 100_000), tmp_path / "in.parquet")
    (tmp_path / "out.parquet").write_text("earlier")

    def report(now, done, total):
        if now == phase and done > 50_000:
            stop()

    with pytest.raises(KeyboardInterrupt):
        vortex.sort_table(source, tmp_path / "out.parquet", "text", memory=LEAST, progress=report)
    check_only_the_earlier_file_is_there(tmp_path)


def check_only_the_earlier_file_is_there(folder):
    assert (folder / "out.parquet").read_text() == "earlier"
    assert sorted(os.listdir(folder)) == ["in.parquet", "out.parquet"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("vortex-table")]


def test_threads_that_fail_leave_nothing_either(rng, tmp_path):
    source = write(random_table(rng, 100_000), tmp_path / "in.parquet")
    (tmp_path / "out.parquet").write_text("earlier")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:  # what is sorted in memory, and encoded by a thread
        with pytest.raises(OSError, match="out.parquet") as raised:
            vortex.sort_table(source, tmp_path / "out.parquet", "text")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.errno == errno.EFBIG
    check_only_the_earlier_file_is_there(tmp_path)
    with open(source, "r+b") as file:  # what is decoded by a thread, where nobody has looked beforehand
        file.seek(os.path.getsize(source) // 3)
        file.write(b"\0" * (os.path.getsize(source) // 9))
    with pytest.raises((OSError, ValueError)):
        vortex.sort_table(source, tmp_path / "out.parquet", "text")
    check_only_the_earlier_file_is_there(tmp_path)


def test_it_has_reached_the_disk(tmp_path):
    """The file before it gets its name, and the name before the call returns."""
    pq.write_table(pa.table({"a": [2, 1]}), tmp_path / "in.parquet")
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not there")
    code = "import sys, vortex; vortex.sort_table(sys.argv[1] + '/in.parquet', sys.argv[1] + '/out.parquet', 'a')"
    options = ["-f", "-y", "-e", "trace=fsync,fdatasync,linkat,renameat,renameat2,rename", "-o", tmp_path / "calls"]
    done = subprocess.run([strace, *options, sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr.lower():
        pytest.skip("this container does not let strace in")
    assert done.returncode == 0, done.stderr
    calls = [line for line in (tmp_path / "calls").read_text().splitlines() if str(tmp_path) in line]
    kinds = ["name" if "sync(" not in line else "folder" if f"<{tmp_path}>" in line else "file" for line in calls]
    assert "name" in kinds and kinds[0] == "file" and kinds[-1] == "folder", calls


def test_mode_of_the_file(tmp_path):
    source = write(pa.table({"a": [2, 1]}), tmp_path / "in.parquet")
    before = os.umask(0o027)
    try:
        vortex.sort_table(source, tmp_path / "new.parquet", "a")
        os.chmod(source, 0o604)
        vortex.sort_table(source, source, "a")
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "new.parquet").st_mode & 0o777 == 0o640
    assert os.stat(source).st_mode & 0o777 == 0o604
    assert pq.read_table(source)["a"].to_pylist() == [1, 2]


@pytest.mark.parametrize("by", ["number", "text", "narrow", "long", "some long"])
def test_memory(rng, tmp_path, peak_of, by):
    rows, columns = {"narrow": (1_000_000, ["narrow"]), "long": (4_000, ["long"]),
                     "some long": (100_000, ["some long"])}.get(by, (200_000, ["number", "text"]))  # fmt: skip
    kinds = {"number": pa.int64(), "narrow": pa.int8()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    with pq.ParquetWriter(tmp_path / "in.parquet", schema) as out:
        for _ in range(20):
            number = rng.integers(0, 1 << 62, rows)
            values = {"number": number, "text": number.astype("U20"), "narrow": (number & 127).astype(np.int8)}
            if by == "long":
                values["long"] = [f"{one:040d}" * 60 for one in number]
            if by == "some long":
                values["some long"] = [f"{one:040d}" * (60 if one % 128 == 1 else 1) for one in number]
            out.write_table(pa.table({name: values[name] for name in columns}))
    program = """
import pyarrow.parquet
vortex.sort_table(sys.argv[1], sys.argv[2], sys.argv[3])  # PyArrow's own memory, once
before, code_before = status("VmHWM"), status("RssFile")
vortex.sort_table(sys.argv[4], sys.argv[2], sys.argv[3], memory=100 << 20)
"""
    small = {"number": [1], "text": ["a"], "narrow": pa.array([1], pa.int8()), "long": ["a"], "some long": ["a"]}
    write(pa.table({name: small[name] for name in columns}), tmp_path / "small.parquet")
    kib, _ = peak_of(program, *(str(tmp_path / name) for name in ("small.parquet", "out.parquet")), by,
                     str(tmp_path / "in.parquet"))  # fmt: skip
    assert kib < 104 << 10
    metadata = pq.read_metadata(tmp_path / "out.parquet")
    groups = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
    assert len(groups) > 1 and max(groups) < 16 << 20
    found = pq.read_table(tmp_path / "out.parquet")[by].combine_chunks()
    assert len(found) == 20 * rows
    assert pa.compute.all(pa.compute.less_equal(found.slice(0, len(found) - 1), found.slice(1))).as_py()
