"""A report is plain data that prints with the file and line of each cause."""

import io
import sys
from dataclasses import replace

import backprobe as bp
from backprobe.explain.error_text import ERRORS
from backprobe.explain.text import SENTENCES
from backprobe.findings.report import arranged

LINE = bp.Source("train.py", 12, "    d = v.detach()", "v.detach()", ("torch.detach",))
CUT = bp.Finding(
    "detached", "d", "'d' is cut off by detach()", LINE, ("v requires a gradient",), ("u", "v", "d"), "d = v"
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_finding_prints_its_line_path_facts_and_remedy():
    assert str(bp.Report("'u' has no gradient", (CUT,), ("nothing else was seen",))).splitlines() == [
        "'u' has no gradient",
        "  'd' is cut off by detach() (train.py:12)",
        "    line:  d = v.detach()",
        "    path:  u -> v -> d",
        "    seen:  v requires a gradient",
        "    next:  d = v",
        "  note: nothing else was seen",
    ]


def test_the_headline_names_the_line_after_the_code_that_it_quotes():
    found = bp.Finding("detach", "d", "`v.detach()` cuts 'd' off", LINE, consequence="2 parameters get no gradient")
    assert found.title == "`v.detach()` at train.py:12 cuts 'd' off: 2 parameters get no gradient"
    inner = replace(found, headline="no input of `v.detach( )` requires a gradient", consequence="")
    assert inner.title == "no input of `v.detach( )` (train.py:12) requires a gradient"
    elsewhere = replace(found, headline="`u` is not read, and `v.detac` is none of that line: it is gone")
    assert elsewhere.title == (
        "`u` is not read, and `v.detac` is none of that line (train.py:12): it is gone; 2 parameters get no gradient"
    )
    said = replace(found, headline="the loop at train.py:12 cuts 'd' off", consequence="")
    assert said.title == said.headline


def test_a_file_in_a_folder_has_its_path_with_the_line():
    finding = replace(CUT, source=replace(LINE, file="net/train.py"))
    assert str(finding).splitlines()[:2] == [
        "'d' is cut off by detach() (train.py:12)",
        "  line:  net/train.py:12: d = v.detach()",
    ]


def test_a_line_that_the_headline_has_whole_is_not_repeated():
    finding = replace(CUT, headline="the result of `d = v.detach()` is dropped", facts=(), chain=(), remedy="")
    assert str(finding) == "the result of `d = v.detach()` (train.py:12) is dropped"
    elsewhere = replace(finding, source=replace(LINE, file="net/train.py"))
    assert str(elsewhere).endswith("\n  line:  net/train.py:12: d = v.detach()")


def test_of_two_files_with_one_name_the_headline_has_the_path():
    twins = [replace(CUT, source=replace(LINE, file=f"{folder}/train.py")) for folder in ("a", "b")]
    other = replace(CUT, source=replace(LINE, file="a/net.py"))
    text = str(bp.Report("three", (*twins, other))).splitlines()
    assert [line.strip() for line in text if "cut off" in line or "line:" in line] == [
        "1. 'd' is cut off by detach() (a/train.py:12)",
        "line:  d = v.detach()",
        "2. 'd' is cut off by detach() (b/train.py:12)",
        "line:  d = v.detach()",
        "3. 'd' is cut off by detach() (net.py:12)",
        "line:  a/net.py:12: d = v.detach()",
    ]
    many = str(bp.Report("many", (*twins * 3, other))).splitlines()
    assert "  6. b/train.py:12: 'd' is cut off by detach()" in many
    html = bp.Report("three", (*twins, other))._repr_html_()
    assert html.count("a/train.py:12") == 1 and html.count("(net.py:12)") == 1


def test_a_line_that_is_cut_short_keeps_the_consequence():
    lost = "2 parameters get no gradient (net.encoder.weight, net.encoder.bias)"
    one = replace(CUT, headline="`v.detach()` cuts 'd' off from a value with a long name", consequence=lost)
    last = str(bp.Report("six", (one,) * 6)).splitlines()[-2]
    assert last == "  6. train.py:12: `v.detach()` cuts 'd' off from …: 2 parameters get no gradient"
    wide = str(bp.Report("six", (replace(one, consequence="no gradient comes to " + "net.encoder, " * 9),) * 6))
    assert wide.splitlines()[-2] == ("  6. train.py:12: `v.detach()` cuts 'd' …: no gradient comes to net.encoder, ne…")
    brief = replace(one, headline="it is cut off", consequence="w gets no gradient")
    assert "  6. train.py:12: it is cut off: w gets no gradient" in str(bp.Report("six", (brief,) * 6)).splitlines()


def test_a_report_of_twenty_causes_fits_a_screen(monkeypatch):
    facts = tuple([f"{what} is known of the value that this line computes, and of its gradient" for what in "abcdefgh"])
    causes = [
        replace(
            CUT,
            name=str(at),
            headline=f"'d{at}' is cut off by `v{at}.detach()`",
            facts=facts,
            lost=(f"w{at}",),
            source=replace(LINE, line=at),
            consequence=f"net.layers.{at}.weight gets no gradient",
        )
        for at in range(20)
    ]
    report = bp.Report("20 of 30 parameters got no gradient", tuple(causes), ("looked at one iteration",))
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "80")
    lines = str(report).splitlines()
    assert len(lines) <= 48 and max(map(len, lines)) <= 80
    assert [line.strip()[:3] for line in lines if "d19" in line] == ["20."]
    assert len(report.findings) == 20


def test_a_remedy_breaks_where_a_clause_ends():
    words = {code: text for texts in (SENTENCES, ERRORS) for code, text in texts.items() if code.endswith("_next")}
    broken = {code: line for code, text in words.items() for line in text.split("\n")[:-1] if line[-1] not in ",;:."}
    assert broken == {}


def test_several_findings_are_numbered():
    text = str(
        bp.Report("two", (CUT, bp.Finding("frozen", "w", "w is frozen", remedy="w.requires_grad_()\nbefore the call")))
    )
    assert "  1. 'd' is cut off by detach() (train.py:12)\n       line:  d = v.detach()" in text
    assert text.endswith("  2. w is frozen\n       next:  w.requires_grad_()\n              before the call")


def test_ok_is_that_nothing_was_found():
    assert bp.Report("fine").ok
    assert not bp.Report("not fine", (CUT,)).ok
    assert bp.Report("", (CUT,)).of_kind("detached", "frozen") == [CUT]


def test_a_finding_that_follows_from_another_hangs_beneath_it():
    symptom = bp.Finding(
        "none",
        "w",
        "w.grad is None",
        facts=(f"{CUT.headline} (train.py:12)", "more"),
        remedy="d = v",
        cause=CUT.headline,
    )
    other = bp.Finding("frozen", "x", "x is frozen")
    text = str(bp.Report("three", (symptom, CUT, other))).splitlines()
    assert text[1] == "  1. 'd' is cut off by detach() (train.py:12)"
    assert text[6:] == ["     - w.grad is None", "         seen:  more", "  2. x is frozen"]
    html = bp.Report("three", (symptom, CUT))._repr_html_()
    assert html.index("cut off by detach()") < html.index("w.grad is None") and html.count("<ul") == 2


def test_no_finding_is_lost_beneath_another():
    first, second = bp.Finding("a", "u", "same", cause="same"), bp.Finding("b", "v", "same")
    assert sum(1 + len(below) for _, below in arranged((first, second))) == 2
    assert len(arranged((bp.Finding("a", "u", "one", cause="two"), bp.Finding("b", "v", "two", cause="one")))) == 2
