"""The printed table: in a pipe, in a terminal, in a notebook, through rich."""

import html
import io
import math
import os
import pty
import re
import runpy
import subprocess
import sys
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import rich
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import backprobe as bp
from asked import Parts
from backprobe.backends.discover import load_arrays
from backprobe.record.brief import SMALL
from backprobe.record.held import Lost
from backprobe.record.reasons import Note, Reason
from backprobe.show.text import describe

ESCAPE = "\x1b"


def toy(x, w, b):
    u = x * w
    v = u + b
    return torch.relu(v)


def holding(value):
    def f(x, make):
        v = make()
        return x * 2.0

    return bp.probe(f)(1.0, lambda: value)


def cell(value, to=None, folder=None):
    """What the table's column ``value`` shows."""
    recording = holding(value)
    if to is not None:
        recording.save(folder / "rec")
        recording = bp.load(folder / "rec", to=to)
    head, *lines = str(recording).splitlines()
    start, end = head.index("value"), head.index("gradient")
    (line,) = [line for line in lines if line.startswith("v ")]
    return line[start:end].rstrip()


NAN, INF = float("nan"), float("inf")
C64 = torch.complex64

FLOAT4 = [torch.float4_e2m1fn_x2] if hasattr(torch, "float4_e2m1fn_x2") else []
"""The dtype, where PyTorch has it."""
SMALL_VALUES = [
    (torch.tensor(6.0), "6"),
    (torch.tensor([[1.0, -2.5], [3e-9, 1e30]]), "[[1, -2.5], [3e-09, 1e+30]]"),
    (torch.arange(8.0), "[0, 1, 2, 3, 4, 5, 6, 7]"),
    (torch.tensor([NAN, INF, -INF]), "[nan, inf, -inf]"),
    (torch.tensor([True, False]), "[True, False]"),
    (torch.tensor([-(2**63), 2**63 - 1]), "[-9223372036854775808, 9223372036854775807]"),
    (torch.tensor([1 + 2j, complex(0, -0.5)]), "[1+2j, 0-0.5j]"),
    (torch.tensor([1 + 2j]).conj(), "[1-2j]"),
    (torch.tensor([1 + 2j]).conj().imag, "[-2]"),
    (torch.tensor([1.0, 3.14], dtype=torch.bfloat16), "[1, 3.14062]"),
    (torch.tensor([0.1], dtype=torch.float16), "[0.0999756]"),
    (torch.tensor([448.0]).to(torch.float8_e4m3fn), "[448]"),
    (torch.tensor(1 / 3, dtype=torch.float64), "0.333333"),
    (torch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,), check_invariants=True), "[0, 5, 0]"),
    (torch.empty(0), "0 float32 (empty)"),
    (torch.empty(1000, 0, 3, dtype=torch.int64), "1000×0×3 int64 (empty)"),
    (torch.empty(2, device="meta"), "(meta: no values)"),
    *((torch.zeros(2, dtype=torch.uint8).view(dtype), "(float4_e2m1fn_x2: not shown)") for dtype in FLOAT4),
]


@pytest.mark.parametrize(("value", "shown"), SMALL_VALUES, ids=[shown for _, shown in SMALL_VALUES])
def test_small_values_are_shown_in_full(value, shown):
    assert cell(value) == shown


def spaced(*numbers, dtype=None):
    """Ten numbers: these, and ones."""
    return torch.tensor([*numbers] + [1.0] * (10 - len(numbers)), dtype=dtype)


BIG_VALUES = [
    (torch.ones(3, 4), "3×4 float32 rms 1 max 1"),
    (torch.arange(9.0), "9 float32 rms 4.76 max 8"),
    (-torch.arange(9.0), "9 float32 rms 4.76 max 8"),
    (torch.zeros(100), "100 float32 rms 0 max 0"),
    (torch.tensor(2.0).expand(100, 100), "100×100 float32 rms 2 max 2"),
    (spaced(NAN), "10 float32 rms 1 max 1 (1 of 10 not finite)"),
    (spaced(NAN, INF, -INF), "10 float32 rms 1 max 1 (3 of 10 not finite)"),
    (torch.full((10,), NAN), "10 float32 rms nan max nan (10 of 10 not finite)"),
    (torch.full((10,), -INF), "10 float32 rms nan max nan (10 of 10 not finite)"),
    (torch.full((10,), 1e300, dtype=torch.float64), "10 float64 rms 1e+300 max 1e+300"),
    (torch.full((10,), -1e-320, dtype=torch.float64), "10 float64 rms 1e-320 max 1e-320"),
    (torch.full((10,), 3e38), "10 float32 rms 3e+38 max 3e+38"),
    (torch.full((10,), 65504.0, dtype=torch.float16), "10 float16 rms 6.55e+04 max 6.55e+04"),
    (torch.full((10,), 3e38, dtype=torch.bfloat16), "10 bfloat16 rms 3e+38 max 3e+38"),
    (torch.full((10,), 448.0).to(torch.float8_e4m3fn), "10 float8_e4m3fn rms 448 max 448"),
    (torch.tensor([2] * 9, dtype=torch.int8), "9 int8 rms 2 max 2"),
    (torch.tensor([-(2**63)] * 9), "9 int64 rms 9.22e+18 max 9.22e+18"),
    (torch.tensor([2**63 - 1] * 9, dtype=torch.uint64), "9 uint64 rms 9.22e+18 max 9.22e+18"),
    (torch.ones(16, dtype=torch.bool), "16 bool rms 1 max 1"),
    (torch.full((10,), 3 + 4j), "10 complex64 rms 5 max 5"),
    (torch.full((10,), 3 + 4j).conj(), "10 complex64 rms 5 max 5"),
    (torch.full((10,), 3 + 4j).conj().imag, "10 float32 rms 4 max 4"),
    (torch.full((10,), 3e38 + 3e38j, dtype=C64), "10 complex64 rms 4.24e+38 max 4.24e+38"),
    (torch.full((10,), 1e300j, dtype=torch.complex128), "10 complex128 rms 1e+300 max 1e+300"),
    (spaced(complex(NAN, 1), complex(0, INF), dtype=C64), "10 complex64 rms 1 max 1 (2 of 10 not finite)"),
    (torch.eye(4).to_sparse(), "4×4 float32 rms 0.5 max 1"),
    (torch.zeros(4, 4).to_sparse(), "4×4 float32 rms 0 max 0"),
    (torch.sparse_coo_tensor([[1, 1]], [2.0, 2.0], (16,), check_invariants=True), "16 float32 rms 1 max 4"),
    (
        torch.sparse_coo_tensor([[1], [1]], [[3.0]], (2**30, 2**30, 1), check_invariants=True),
        "1073741824×1073741824×1 float32 rms 2.79e-09 max 3",
    ),
    (spaced(NAN, 0.0, INF).to_sparse(), "10 float32 rms 0.935 max 1 (2 of 10 not finite)"),
    (torch.empty(20, device="meta"), "20 float32"),
    *((torch.zeros(20, dtype=torch.uint8).view(dtype), "20 float4_e2m1fn_x2") for dtype in FLOAT4),
]


@pytest.mark.parametrize(("value", "shown"), BIG_VALUES, ids=[shown for _, shown in BIG_VALUES])
def test_big_tensors_are_shown_by_shape_dtype_rms_and_largest_magnitude(value, shown):
    assert cell(value) == shown


def test_a_compressed_sparse_tensor():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        value = torch.eye(4).to_sparse_csr()
    assert cell(value) == "4×4 float32 rms 0.5 max 1"


SAVED = [
    (value, shown)
    for value, shown in SMALL_VALUES + BIG_VALUES
    if value.device.type == "cpu"
    and value.numel() < 2**40
    and not str(value.dtype).startswith("torch.float8")
    and value.dtype not in (torch.bfloat16, *FLOAT4)
]


@pytest.mark.parametrize(("value", "shown"), SAVED, ids=[shown for _, shown in SAVED])
def test_numpy_arrays_are_shown_as_the_tensors_were(value, shown, tmp_path):
    assert cell(value, to="numpy", folder=tmp_path) == shown


def test_small_means_eight_elements():
    assert SMALL == 8
    assert cell(torch.ones(8)) == "[1, 1, 1, 1, 1, 1, 1, 1]"
    assert cell(torch.ones(9)) == "9 float32 rms 1 max 1"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(), min_size=9, max_size=20))
def test_statistics_are_of_the_finite_values(numbers):
    finite = [number for number in numbers if math.isfinite(number)]
    bad = len(numbers) - len(finite)
    tensor = torch.tensor(numbers, dtype=torch.float64)
    for backend, value in ((load_arrays("torch"), tensor), (load_arrays("numpy"), tensor.numpy())):
        summary = backend.summarize(value)
        assert (summary.size, summary.nonfinite) == (len(numbers), bad)
        if finite:
            scale = max(map(abs, finite)) or 1.0
            rms = scale * math.sqrt(math.fsum((number / scale) ** 2 for number in finite) / len(finite))
            assert summary.largest == max(map(abs, finite))
            assert summary.rms == pytest.approx(rms, rel=1e-9, abs=5e-324)
        else:
            assert math.isnan(summary.largest)
            assert math.isnan(summary.rms)
        assert ("not finite" in describe(value, backend)) == (bad > 0)


# the rows


def lines_of(recording):
    """The lines of the table by their first word."""
    return {line.split()[0]: line for line in str(recording).splitlines()[1:] if line.split()}


def test_the_gradient_of_a_big_tensor_is_shown_like_it():
    def f(x):
        u = x * 3
        return u.sum()

    lines = lines_of(bp.probe(f)(torch.ones(4, 5)))
    assert "4×5 float32 rms 3 max 3  4×5 float32 rms 1 max 1  test_table.py:" in lines["u"]
    assert "4×5 float32 rms 1 max 1  4×5 float32 rms 3 max 3  test_table.py:" in lines["x"]


def test_a_missing_gradient_says_why():
    def f(x):
        u = x * 2
        d = u.detach()
        with torch.no_grad():
            q = u + 1
        i = u > 0
        idle = x + 1
        return u

    lines = lines_of(bp.probe(f)(1.0))
    recording = bp.probe(f)(1.0)
    for name, status in (("d", "detached"), ("q", "no_grad"), ("i", "not_float"), ("idle", "not_connected")):
        assert f"  {status}: {recording[name].reason}  " in lines[name], name
        assert recording[name].reason
    assert lines["i"].split()[1:5] == ["True", "not_float:", "its", "dtype"]


def test_a_module_that_did_not_run_and_a_value_that_is_lost():
    class Model(Parts):
        def forward(self, x):
            return self.used(x).sum()

    model = Model(used=torch.nn.Linear(1, 1), idle=torch.nn.Linear(1, 1))
    assert re.search(r"^idle +not_executed: no call of it was seen$", str(bp.probe(model)(torch.ones(1))), re.M)
    record = bp.probe(toy)(3.0, 2.0, 1.0).record
    lost = replace(record.entries[3], held_value=Lost(Reason("overwritten_unseen")))
    shown = lines_of(bp.Recording(replace(record, entries=(*record.entries[:3], lost, *record.entries[4:]))))
    assert shown["u"].split()[:3] == ["u", "overwritten", "1"]


def test_what_is_no_tensor_is_in_one_line_below():
    def f(x, n, label):
        half = n / 2
        none = None
        z = 1j
        flag = n > 1
        return x * half

    table = str(bp.probe(f)(torch.tensor(2.0), 3, None)).splitlines()
    assert [line.split()[0] for line in table[1:-2]] == ["x", "return"]
    assert table[-2:] == [
        "not tensors: n = 3, label = None, half = 1.5, none = None, z = 1j, flag = True",
        "gradients are of return",
    ]


def test_many_plain_values_are_counted():
    def f(x, numbers):
        for n in numbers:
            k = n
        return x * 2.0

    below = str(bp.probe(f)(1.0, list(range(20)))).splitlines()[-2]
    first = ", ".join(f"n#{at} = {at}, k#{at} = {at}" for at in range(6))
    assert below == f"not tensors: {first} and 28 more"


def test_aliases_are_below_the_name():
    def f(x):
        u = x * 2
        v = u
        w = v
        return w

    table = str(bp.probe(f)(1.0)).splitlines()
    at = next(i for i, line in enumerate(table) if line.startswith("u "))
    assert table[at + 1 : at + 4] == ["= v", "= w", "= return"]
    assert table[-1] == "gradients are of u"


def test_many_aliases_are_counted():
    def f(x):
        a = x * 2
        b = a
        c = a
        d = a
        e = a
        return e

    table = str(bp.probe(f)(1.0)).splitlines()
    at = next(i for i, line in enumerate(table) if line.startswith("a "))
    assert table[at + 1 : at + 5] == ["= b", "= c", "= d", "= and 2 more names"]


def test_notes_are_shown():
    record = replace(bp.probe(toy)(3.0, 2.0, 1.0).record, notes=("h was not followed: no source", "two\nlines"))
    assert str(bp.Recording(record)).splitlines()[-2:] == ["note: h was not followed: no source", "note: two\\nlines"]


def with_text(text):
    """A recording with this source text on its entry u."""
    record = bp.probe(toy)(3.0, 2.0, 1.0).record
    source = replace(record.entries[3].source, text=text)
    entries = (*record.entries[:3], replace(record.entries[3], source=source), *record.entries[4:])
    return bp.Recording(replace(record, entries=entries))


def test_characters_that_would_break_the_table_are_written_out():
    shown = str(with_text("u = '\x1b[31m\t\r' +\n    x"))
    assert ESCAPE not in shown
    assert "\t" not in shown
    assert "\r" not in shown
    assert shown.count("\n") == str(bp.probe(toy)(3.0, 2.0, 1.0)).count("\n")
    assert lines_of(with_text("u = '\x1b[31m\t\r' +\n    x"))["u"].endswith("u = '\\x1b[31m\\t\\r' +     x")


def test_a_line_break_in_a_key_does_not_break_the_table():
    def f(x):
        return {"a\nb": x * 2}

    assert str(bp.probe(f)(1.0)).splitlines()[2].startswith("return.a\\nb  2 ")


def test_columns_line_up_for_every_row():
    head, *lines = str(bp.probe(toy)(123456.0, 2e-9, 1.0)).splitlines()
    for column in ("value", "gradient", "source"):
        start = head.index(column)
        for line in lines[:-1]:
            assert line[start - 1] == " "
            assert line[start] != " "


# where it is printed


LONG = "a_name_that_is_rather_long_but_not_longer_than_a_line"
PROGRAM = f"""
import torch
import backprobe as bp
def f(x):
    {LONG} = x * 2
    v = {LONG}.detach()
    return {LONG}.sum()
rec = bp.probe(f)(torch.ones(30, 40))
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The command that prints a recording; it is loaded without PyTorch, which takes long to import."""
    folder = tmp_path_factory.mktemp("printed")
    (folder / "program.py").write_text(PROGRAM)
    runpy.run_path(str(folder / "program.py"))["rec"].save(folder / "rec")

    def command(printing="print"):
        text = f"import rich, backprobe as bp; {printing}(bp.load({str(folder / 'rec')!r}, to='numpy'))"
        return [sys.executable, "-W", "error", "-c", text]

    return command


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return kept | {"TERM": "xterm-256color"} | more


def test_a_pipe_gets_plain_text_that_is_not_folded(printed):
    for env in (environment(COLUMNS="40"), environment(FORCE_COLOR="1")):
        ran = subprocess.run(printed(), capture_output=True, text=True, timeout=600, env=env)
        assert ran.stderr == ""
        assert ESCAPE not in ran.stdout
        lines = ran.stdout.splitlines()
        assert [line.split()[0] for line in lines[:-1]] == ["name", "x", LONG, "v", "return"]
        assert lines[2].endswith(f"program.py:5  {LONG} = x * 2")
        assert max(map(len, lines)) > 120


def in_a_terminal(command, width):
    """What a command writes to a terminal of this width."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=subprocess.PIPE, env=environment(COLUMNS=str(width))
    )
    os.close(follower)
    pieces = []
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(leader)
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=600) == 0
    return b"".join(pieces).decode().replace("\r\n", "\n")


ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("printing", ["print", "rich.print"])
@pytest.mark.parametrize("width", [200, 100])
def test_a_terminal_gets_colour_within_its_width(printing, width, printed):
    shown = in_a_terminal(printed(printing), width)
    assert f"{ESCAPE}[36m" in shown, "names in cyan"
    assert f"{ESCAPE}[33m" in shown, "a missing gradient in yellow"
    plain = ANSI.sub("", shown)
    assert ESCAPE not in plain
    assert max(map(len, plain.splitlines())) <= width
    assert LONG in plain, "a name is never folded"
    value, missing = ("30×40 float32 rms", "detached: it was") if width == 200 else ("30×40 rms", "detached")
    for words in ("name", "gradient", value, missing, "gradients are of return"):
        assert words in plain


def test_colour_is_put_on_even_where_the_value_looks_like_markup():
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    console.print(with_text("u = x['bold'] [red]"))
    assert "u = x['bold'] [red]" in ANSI.sub("", console.file.getvalue())


def test_rich_prints_the_same_rows(capsys):
    recording = bp.probe(toy)(3.0, 2.0, 1.0)
    console = Console(file=io.StringIO(), width=200)
    console.print(recording)
    printed = [line.split() for line in console.file.getvalue().splitlines()]
    assert printed == [line.split() for line in str(recording).splitlines()]
    rich.print(recording)
    assert "gradients are of return" in capsys.readouterr().out


def test_a_program_without_a_console_gets_text(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    shown = str(bp.probe(toy)(3.0, 2.0, 1.0))
    monkeypatch.undo()
    assert shown.startswith("name ")


# notebooks


class Cells(HTMLParser):
    """The texts of the cells of a table, and every tag."""

    def __init__(self):
        super().__init__()
        self.cells, self.tags, self.open, self.below = [], [], False, []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
            self.open = True
        elif tag == "br" and self.open:
            self.cells[-1] += "\n"

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.open = False

    def handle_data(self, data):
        if self.open:
            self.cells[-1] += data
        elif self.tags[-1] != "style":
            self.below.append(data)


def parsed(recording):
    parser = Cells()
    parser.feed(recording._repr_html_())
    return parser


def test_a_notebook_gets_the_same_cells():
    recording = bp.probe(toy)(3.0, 2.0, 1.0)
    found = parsed(recording)
    rows = [found.cells[at : at + 4] for at in range(0, len(found.cells), 4)]
    line = toy.__code__.co_firstlineno
    assert rows[0] == ["name", "value", "gradient", "source"]
    assert rows[4] == ["u", "6", "1", f"test_table.py:{line + 1}  u = x * w"]
    assert len(rows) == 7
    assert found.below == ["gradients are of return"]


def test_in_a_notebook_the_place_of_a_line_is_never_broken_or_out_of_view():
    """The style keeps it in one piece, while statements and numbers wrap to the width of the page."""
    shown = bp.probe(toy)(3.0, 2.0, 1.0)._repr_html_()
    line = toy.__code__.co_firstlineno + 1
    assert f'<div class="line"><span class="place">test_table.py:{line}</span>  u = x * w</div>' in shown
    rules = dict(re.findall(r"^(\.backprobe table .*?) \{(.*)\}", shown, re.M))
    assert "white-space: nowrap" in rules[".backprobe table .place"]
    assert "white-space: pre-wrap" in rules[".backprobe table .line"]
    assert "white-space: pre-wrap" in rules[".backprobe table th, .backprobe table td"]


def test_a_column_of_source_has_a_title_where_an_entry_has_a_line():
    model = torch.nn.Linear(2, 1)
    with bp.probe(model, "*") as rec:
        torch.nn.Sequential(model)(torch.ones(2)).sum().backward()
    assert [entry for entry in rec.values() if entry.source is not None] == []
    assert str(rec).splitlines()[0].split() == ["name", "value", "gradient"]
    assert "source" not in parsed(rec).cells
    assert str(bp.probe(toy)(3.0, 2.0, 1.0)).splitlines()[0].split() == ["name", "value", "gradient", "source"]


def test_in_a_notebook_the_numbers_of_a_tensor_do_not_take_the_width_of_the_page():
    """Of small tensors; large ones are shape and statistics."""
    recording = bp.probe(lambda x: (x * torch.pi).sum())(torch.linspace(0.12345678, 9, 8))
    cells = parsed(recording).cells
    at = cells.index("x")
    assert max(map(len, cells[at + 1 : at + 3])) <= 40
    assert cells[at + 1].startswith("[0.123457, ")
    assert cells[at + 1].endswith(", …]")
    assert "0.123457" in str(recording)
    assert "…" not in str(recording)
    reason = bp.probe(lambda x, w: (x * w.detach()).sum())(torch.ones(8), torch.ones(8))
    assert any(cell.startswith("not_connected: ") for cell in parsed(reason).cells)


def test_html_escapes_names_and_source_texts():
    def f(x, table):
        g = lambda z: z * 2  # noqa: E731
        table["<script>alert(1)</script>"] = g(x)
        s = x * len("<b>&amp;")
        return table["<script>alert(1)</script>"] & 1 if x > 9 else g(s)

    recording = bp.probe(f)(torch.tensor(2.0), {})
    shown = recording._repr_html_()
    assert "<lambda>" not in shown
    assert "<script>" not in shown
    found = parsed(recording)
    assert set(found.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "code", "br", "div", "span", "style"}
    text = "\n".join(found.cells)
    assert "/<lambda>" in text
    assert "<script>alert(1)</script>" in text
    assert '"<b>&amp;"' in text
    assert html.escape("<lambda>") in shown


def test_html_escapes_notes_plain_values_reasons_and_aliases():
    evil = "<img src=x onerror=alert(1)>&\"'"
    record = bp.probe(toy)(3.0, 2.0, 1.0).record
    entry = replace(
        record.entries[3],
        name=evil,
        aliases=(evil + "2",),
        status=bp.GradStatus.OPAQUE,
        why=Reason("not_tensor", {"kind": evil}),
    )
    plain = replace(record.entries[0], status=bp.GradStatus.NOT_TENSOR, held_value=evil)
    entries = (plain, *record.entries[1:3], entry, *record.entries[4:])
    found = parsed(bp.Recording(replace(record, entries=entries, notes=(Note("already_probed", {"name": evil}),))))
    assert "img" not in found.tags
    assert f"{evil}\n= {evil}2" in found.cells
    assert f"opaque: it is {evil}" in found.cells
    assert found.below == [
        f"not tensors: x = {evil!r}",
        "gradients are of return",
        f"note: {evil} was not followed: it is already being probed",
    ]


def test_repr_is_one_line():
    recording = bp.probe(toy)(3.0, 2.0, 1.0)
    assert repr(recording) == "<backprobe.Recording of return: 6 entries, 0 without gradient>"
