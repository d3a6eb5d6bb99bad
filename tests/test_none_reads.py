"""Gradients that the program reads and finds None: ``explain`` opens with them, in blocks and in scripts."""

import linecache
import re
import sys
import textwrap
import warnings
from contextlib import nullcontext

import pytest
import torch

import backprobe as bp
from asked import leaf
from commands import invoked
from goldens import golden
from none_read_programs import HEAD, PROGRAMS, SILENT, TOY

NOT_A_LEAF = "The .grad attribute of a Tensor that is not a leaf"
pytestmark = [pytest.mark.usefixtures("leaves_nothing"), pytest.mark.filterwarnings(f"ignore:{NOT_A_LEAF}")]


def programs(table):
    return pytest.mark.parametrize("name", table)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the text of a program as a module: its names."""
    monkeypatch.chdir(tmp_path)

    def run(text, **names):
        path = tmp_path / "program.py"
        path.write_text(text)
        linecache.checkcache(str(path))
        space = {"__name__": "program", **names}
        exec(compile(text, str(path), "exec"), space)
        return space

    return run


@pytest.fixture
def block(run):
    """The report on a program in a block."""

    def block(body):
        rec = run(HEAD + "with probe as rec:\n" + textwrap.indent(body, "    "), probe=bp.probe())["rec"]
        return bp.explain(rec)

    return block


@pytest.fixture
def script(tmp_path, monkeypatch):
    """What is said of a program as a script, and the status."""
    monkeypatch.chdir(tmp_path)

    def script(body):
        (tmp_path / "train.py").write_text(HEAD + body)
        code, out, err = invoked("explain", "train.py")
        assert err == ""
        return code, out

    return script


def said(report):
    return [str(finding) for finding in report.of_kind("none_read")]


def has(text, *parts):
    plain = " ".join(text.split())
    assert [part for part in parts if part not in plain] == [], text


# what is said


@programs(PROGRAMS)
def test_a_block_says_what_was_read_and_why_it_is_none(name, block, capsys):
    body, names = PROGRAMS[name]
    report = block(body)
    found = report.of_kind("none_read")
    assert report.findings[: len(names)] == tuple(found)
    assert tuple(finding.name for finding in found) == names
    assert not report.ok
    golden("explain", report)


@programs(PROGRAMS)
def test_a_script_says_so_and_fails(name, script):
    code, out = script(PROGRAMS[name][0])
    assert code == 1, out
    golden("explain", out[re.search("^the program read None: ", out, re.M).start() :])


@programs(SILENT)
def test_a_block_says_nothing_of_what_is_there_or_only_asked_for(name, block):
    assert said(block(SILENT[name])) == []


@programs(SILENT)
def test_a_script_says_nothing_of_it(name, script):
    assert "the program read None" not in script(SILENT[name])[1]


def test_the_finding_has_the_line_and_the_record_the_fact(run):
    rec = run(
        HEAD + "with probe as rec:\n" + textwrap.indent(TOY + "a.backward()\nprint(u.grad)\n", "    "), probe=bp.probe()
    )["rec"]
    (read,) = rec.record.none_reads
    assert (read.text, str(read.why), rec.record.entries[read.at].name) == ("u.grad", "computed", "u")
    assert read.source.text == "print(u.grad)"
    (finding,) = bp.explain(rec).findings
    assert (finding.source, finding.name) == (read.source, "u")
    golden("explain", bp.explain(rec))


def test_what_a_report_tells_to_write_gives_the_gradient(block, run, capsys):
    assert "u.retain_grad(); v.retain_grad()" in said(block(PROGRAMS["the cell that prints None for u and v"][0]))[0]
    body = (
        TOY
        + "u.retain_grad(); v.retain_grad()\na.backward()\nfor var in (x, w, b, u, v):\n    print(var.grad.item())\n"
    )
    capsys.readouterr()
    run(HEAD + body)
    assert capsys.readouterr().out.split() == ["2.0", "3.0", "1.0", "1.0", "1.0"]


def test_a_leaf_made_of_all_of_its_line_gets_its_gradient(block, run):
    remedy = block(PROGRAMS["a leaf that is computed with at once"][0]).findings[0].remedy
    line = remedy.partition("of all of it: ")[2]
    assert line == "x = (torch.rand(4) * 0.1).requires_grad_()"
    x = run(f"{HEAD}{line}\n(x**2).sum().backward()\n")["x"]
    assert torch.equal(x.grad, 2 * x.detach())


def test_a_recording_that_was_saved_says_the_same(run, tmp_path):
    body = textwrap.indent(PROGRAMS["cleared by zero_grad"][0], "    ")
    rec = run(f"{HEAD}with probe as rec:\n{body}", probe=bp.probe())["rec"]
    rec.save(tmp_path / "saved")
    loaded = bp.load(tmp_path / "saved", to="torch")
    assert loaded.record.none_reads == rec.record.none_reads
    assert str(bp.explain(loaded)) == str(bp.explain(rec))


def test_an_error_about_none_is_said_once(block):
    body = (
        TOY + "a.backward()\ngradient = u.grad\ntry:\n    gradient.norm()\nexcept AttributeError as error:\n    pass\n"
    )
    report = block(body)
    assert [finding.kind for finding in report.findings] in (["raised"], ["none_read"]), str(report)


def test_reads_of_a_library_are_not_the_programs():
    w, spare = leaf(1.0), leaf(2.0)
    optimizer = torch.optim.Adam([w, spare])
    with bp.probe() as rec:
        (w**2).sum().backward()
        torch.nn.utils.clip_grad_norm_([w, spare], 1.0)
        torch.nn.utils.clip_grad_value_([w, spare], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.nn.Linear(1, 1).zero_grad()
    assert rec.record.none_reads == ()


def test_a_loop_keeps_no_more_than_some_of_the_tensors_that_it_reads():
    x = leaf(1.0)
    with bp.probe(select="x") as rec:
        for _ in range(100):
            u = x * 2
            print(u.grad)
        u.sum().backward()
    assert len(rec.record.none_reads) == 64
    assert len(bp.explain(rec).of_kind("none_read")) == 1


def test_tensors_that_may_answer_for_themselves_are_left_alone():
    class Own(torch.Tensor):
        pass

    own = leaf(1.0, 2.0).as_subclass(Own)
    x = leaf(1.0)
    with bp.probe() as rec:
        print(own.grad)
        torch.func.grad(lambda value: (print(value.grad), (value**2).sum())[1])(x)
        (x**2).sum().backward()
    assert rec.record.none_reads == ()


def test_reading_while_the_block_is_open():
    x = leaf(1.0)
    with bp.probe() as rec:
        u = x * 2
        u.sum().backward()
        assert rec.record.none_reads == ()
        kept = [u.grad]
        assert len(rec.record.none_reads) == 1
    assert kept == [None]


# no observer effect


def observed(run, text, probe):
    """The warnings that a program gives, with their lines, and the bits of its numbers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        space = run(text, probe=probe)
    told = [(type(one.message), str(one.message), one.filename, one.lineno) for one in caught]
    numbers = {
        name: (value, value.grad if value.is_leaf else None)
        for name, value in space.items()
        if type(value) is torch.Tensor
    }
    return told, numbers


@programs([*PROGRAMS, *SILENT])
def test_a_program_warns_and_computes_as_without_a_probe(name, run):
    body = PROGRAMS[name][0] if name in PROGRAMS else SILENT[name]
    text = f"{HEAD}torch.manual_seed(0)\nwith probe as rec:\n{textwrap.indent(body, '    ')}"
    without, bare = observed(run, text, nullcontext())
    within, probed = observed(run, text, bp.probe())
    assert within == without
    assert bare.keys() == probed.keys()
    for key, (value, gradient) in bare.items():
        assert torch.equal(value, probed[key][0])
        assert (gradient is None) == (probed[key][1] is None)
        assert gradient is None or torch.equal(gradient, probed[key][1])


def test_a_warning_that_is_an_error_is_raised_at_the_programs_own_line():
    x = leaf(1.0)
    with warnings.catch_warnings(), bp.probe() as rec:
        warnings.simplefilter("error")
        u = x * 2
        u.sum().backward()
        with pytest.raises(UserWarning, match=NOT_A_LEAF):
            print(u.grad)
    assert [read.text for read in rec.record.none_reads] == ["u.grad"]


def test_nothing_warns_where_the_program_does_not_read():
    x = leaf(1.0)
    with warnings.catch_warnings(), bp.probe() as rec:
        warnings.simplefilter("error")
        u = x * 2
        u.sum().backward()
        print(x.grad)
    assert bp.explain(rec).ok


# in cells


@pytest.fixture
def cell(monkeypatch):
    """The report on a cell, run in a shell of IPython under the magic."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    kept = sys.modules["__main__"], sys.excepthook, sys.displayhook
    monkeypatch.delattr("builtins._", raising=False)
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    bp.load_ipython_extension(shell)

    def cell(body):
        with capture_output():
            shell.run_cell(HEAD)
            ran = shell.run_cell(f"%%probe rec\n{body}")
        assert ran.error_in_exec is None, ran.error_in_exec
        return bp.explain(shell.user_ns["rec"])

    yield cell
    InteractiveShell.clear_instance()
    shell.restore_sys_module_state()
    sys.modules["__main__"], sys.excepthook, sys.displayhook = kept


@pytest.mark.parametrize(
    "name",
    [
        "the cell that prints None for u and v",
        "a comprehension",
        "a leaf that is computed with at once",
        "cleared by zero_grad",
        "autograd.grad, of what is not used",
    ],
)
def test_a_cell_says_so_too(name, cell):
    body, names = PROGRAMS[name]
    found = said(cell(body))
    assert len(found) == len(names)
    golden("explain", found)


def test_the_last_expression_of_a_cell_is_shown_and_so_used(cell):
    has(said(cell(TOY + "a.backward()\nu.grad"))[0], "u.grad is None (In[0]:6): 'u' is not a leaf")
