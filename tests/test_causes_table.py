"""The table of causes: what counts as worse than before, and that it can be read again."""

from causes.rows import Row, of_findings
from causes.table import HEAD, stored, worse

ROW = Row("models", "torch", "block", "Named", "1 of 1", "0", "detach", "1 of 1", "yes", "yes")


def test_a_table_is_read_as_it_was_printed():
    text = "\n".join(["# A table", HEAD, "| " + " | ".join(ROW) + " |", "", "- models: 1 row"])
    assert stored(text) == [ROW]


def test_what_is_worse_is_said():
    assert worse(ROW, ROW) == ""
    assert worse(ROW, None) == "no longer asked"
    assert worse(ROW, ROW._replace(line="0 of 1", others="1")) == "line, others"
    assert worse(ROW, ROW._replace(kinds="same_numbers", remedy="2 of 2", line="1 of 1")) == ""
    assert worse(ROW, ROW._replace(remedy="1 of 2", cures="", right="no")) == "remedy, cures, right"
    assert worse(ROW._replace(line="0 of 1", cures="", right="no"), ROW) == ""


def test_a_row_counts_marked_lines_and_others():
    def finding(line, kind, remedy=""):
        return {"kind": kind, "remedy": remedy, "source": {"file": "a/train.py", "line": line, "text": ""}}

    found = [finding(3, "detach", "leave it out"), finding(7, "unused"), finding(9, "propagated")]
    row = of_findings(("g", "torch", "script", "train"), found, [3, 4], "train.py", right=False)
    assert row[4:] == ("1 of 2", "1", "detach, unused", "1 of 2", "", "no")
