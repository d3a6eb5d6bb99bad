"""A run as an Arrow table, and as a Parquet file."""

import numpy
import pyarrow.parquet

import backprobe as bp
from backprobe.record.statistics import STATISTICS
from written_runs import fill, rms, rows, step, writer


def test_a_run_as_an_arrow_table_and_in_parquet(tmp_path):
    one = writer(tmp_path / "run")
    one.add_rows(rows(["h.0", "h.1"]))
    one.append(step(0, 4, missing=[1]))
    fill(one, range(1, 5), 4)
    one.close()
    with bp.open_run(tmp_path / "run") as run:
        table = run.to_arrow()
    assert table.column_names == ["step", "name", "kind", *STATISTICS, "logged"]
    assert table.num_rows == 5 * 4 - 1
    assert [str(table.schema.field(name).type) for name in ("step", "name", "kind", "rms")] == [
        "int64",
        "string",
        "string",
        "double",
    ]
    found = {(row["step"], row["name"], row["kind"]): row for row in table.to_pylist()}
    assert found[3, "h.1", "value"]["rms"] == rms(step(3, 4), 2)
    assert (0, "h.0", "grad") not in found
    assert all(numpy.isnan(row["logged"]) for row in found.values())
    pyarrow.parquet.write_table(table, tmp_path / "run.parquet")
    again = pyarrow.parquet.read_table(tmp_path / "run.parquet")
    for name in ("step", "rms", "min"):
        assert numpy.array_equal(again[name], table[name], equal_nan=True)
