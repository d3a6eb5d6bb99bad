"""A None that the program reads is the question: the report opens with it. Programs that are well are left alone."""

import re
import warnings
from contextlib import redirect_stdout, suppress
from io import StringIO

import pytest

import backprobe as bp
from commands import invoked
from passes.forms import run, with_block
from passes.none_reads import READS, WELL

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
each_read = pytest.mark.parametrize("read", READS, ids=str)


def opening(report):
    """The heading of the report and its first finding, with what hangs beneath that, if it says what to type."""
    lines = report.splitlines()
    until = next((at for at, line in enumerate(lines) if line.startswith(("  2. ", "  note:"))), len(lines))
    return "\n".join(lines[:until]) * any(line.lstrip().startswith("next:") for line in lines[:until])


def opens_with(read, report, lines):
    """It says what was read, why, and what to type, with the lines, and the number that was asked for."""
    number = [rf"(?<![\w.:]){re.escape(read.gradient)}0*(\.0*)?(?!\w|\.\d)"] * bool(read.gradient)
    patterns = [*read.says, *number, *(rf":{line}\b" for line in lines)]
    assert [pattern for pattern in patterns if not re.search(pattern, opening(report))] == [], report


def printing(text, folder):
    """What a program prints by itself, which may end with an error."""
    with redirect_stdout(StringIO()) as out, suppress(TypeError):
        run(text, folder / "bare.py")
    return out.getvalue()


@each_read
def test_explain_opens_with_it(read, tmp_path):
    (tmp_path / "program.py").write_text(read.text)
    code, out, err = invoked("explain", str(tmp_path / "program.py"))
    assert code == read.code
    opens_with(read, out.removeprefix(printing(read.text, tmp_path)), read.lines)


@pytest.mark.parametrize("read", [read for read in READS if read.code == 1], ids=str)
def test_the_report_of_a_block_opens_with_it(read, tmp_path):
    with redirect_stdout(StringIO()):
        rec = run(with_block(read.text), tmp_path / "program.py")["rec"]
    report = bp.explain(rec)
    assert report.ok is False
    opens_with(read, str(report), [line + 2 for line in read.lines])


@pytest.mark.parametrize("read", WELL, ids=str)
def test_a_program_that_is_well_is_left_alone(read, tmp_path):
    (tmp_path / "program.py").write_text(read.text)
    code, out, err = invoked("explain", str(tmp_path / "program.py"))
    assert (code, err) == (0, "")
    assert not re.search(r"is None|\.grad\b(?! *=)|next:", out.removeprefix(printing(read.text, tmp_path)))


def warned(text, path):
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(StringIO()), suppress(TypeError):
        warnings.simplefilter("always")
        run(text, path)
    return [str(warning.message) for warning in caught]


@each_read
def test_the_warnings_are_those_of_the_program(read, tmp_path):
    assert warned(with_block(read.text), tmp_path / "block.py") == warned(read.text, tmp_path / "bare.py")
