"""A report is plain data that prints with the file and line of each cause."""

from backprobe.findings.report import Finding, Report, arranged
from backprobe.record.source import Source

LINE = Source("train.py", 12, "    d = v.detach()", "v.detach()", ("torch.detach",))
CUT = Finding("detached", "d", "'d' is cut off by detach()", LINE, ("v requires a gradient",), ("u", "v", "d"), "d = v")


def test_a_finding_prints_its_line_path_facts_and_remedy():
    assert str(Report("'u' has no gradient", (CUT,), ("nothing else was seen",))).splitlines() == [
        "'u' has no gradient",
        "  'd' is cut off by detach()",
        "    at:    train.py:12",
        "             d = v.detach()",
        "    path:  u -> v -> d",
        "    seen:  v requires a gradient",
        "    next:  d = v",
        "  note: nothing else was seen",
    ]


def test_several_findings_are_numbered():
    text = str(
        Report("two", (CUT, Finding("frozen", "w", "w is frozen", remedy="w.requires_grad_()\nbefore the call")))
    )
    assert "  1. 'd' is cut off by detach()\n       at:    train.py:12" in text
    assert text.endswith("  2. w is frozen\n       next:  w.requires_grad_()\n              before the call")


def test_ok_is_that_nothing_was_found():
    assert Report("fine").ok
    assert not Report("not fine", (CUT,)).ok
    assert Report("", (CUT,)).of_kind("detached", "frozen") == [CUT]


def test_a_finding_that_follows_from_another_hangs_beneath_it():
    symptom = Finding("none", "w", "w.grad is None", facts=(f"{CUT.headline} (train.py:12)", "more"), remedy="d = v",
                      cause=CUT.headline)  # fmt: skip
    other = Finding("frozen", "x", "x is frozen")
    text = str(Report("three", (symptom, CUT, other))).splitlines()
    assert text[1] == "  1. 'd' is cut off by detach()"
    assert text[7:] == ["     - w.grad is None", "         seen:  more", "  2. x is frozen"]
    html = Report("three", (symptom, CUT))._repr_html_()
    assert html.index("cut off by detach()") < html.index("w.grad is None") and html.count("<ul") == 2


def test_no_finding_is_lost_beneath_another():
    first, second = Finding("a", "u", "same", cause="same"), Finding("b", "v", "same")
    assert sum(1 + len(below) for _, below in arranged((first, second))) == 2
    assert len(arranged((Finding("a", "u", "one", cause="two"), Finding("b", "v", "two", cause="one")))) == 2
