"""Every command's output as one JSON document with ``--json``, and nothing of it with ``--quiet``."""

import json
import os
import platform
import sys
from pathlib import Path

import pytest
import torch

import backprobe as bp
from commands import DISTRIBUTED, WRONG, forked, in_folder, invoked, printed, python, refused, unread, verbs

FUNCTIONS = (
    WRONG
    + """\
def well(x, w):
    u = x * w
    return u.exp()

def ill(x, w):
    print("said by the program")
    u = x.detach() * w
    return torch.sqrt(u)

def wrong(x, w):
    return Bad.apply(x * w)

def two(x, w):
    return {"a": x * w, "b": x + 1}

def several(x, w):
    v = [x * w, 3]
    return v[0] * w.detach()

def nan(x, w):
    return (x / 0 * 0 * w)

def odd(x):
    ragged = torch.nested.nested_tensor([x[:1], x], layout=torch.jagged)
    sparse, empty, nowhere = x.detach().reshape(1, 2).to_sparse(), x[:0], torch.ones(2, device="meta")
    flags, whole, half, pairs = x > 0, (x > 0).long(), x.bfloat16(), torch.complex(x, x)
    held = [x * 2, 10**5000, None, True, float("inf")]
    return (pairs.real * half.float()).sum() + empty.sum()

def nothing(x):
    return x
"""
)
SCRIPT = """\
import os
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.head = nn.Linear(2, 2), nn.Linear(2, 1)

    def forward(self, x):
        h = self.enc(x)
        h = h.detach()
        return self.head(h).square().mean()

torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
print("said by the script")
os.system("echo said by another process")
for step in range(3):
    loss = net(torch.ones(4, 2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
END
"""
GIVEN = ("x=3.0", "w=2.0")
KEYS = {"ok", "complete", "heading", "findings", "notes"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("output")
        whole = SCRIPT.replace("        h = h.detach()\n", "")
        ends, raises = whole.replace("END", "raise SystemExit(7)"), whole.replace("END", "raise LookupError('mine')")
        files = {"f.py": FUNCTIONS, "cut.py": SCRIPT.replace("END", ""), "ends.py": ends, "raises.py": raises}
        files["made.py"] = "import torch\n\ndef make():\n    return torch.nn.Linear(2, 1)\n"
        with in_folder(path, patch, files):
            for name in ("well", "ill"):
                assert invoked("probe", f"f.py:{name}", *GIVEN, "--save", f"{name}.rec")[0] == 0
            for name, rate in (("still", 0.001), ("loud", 1e30)):
                torch.manual_seed(0)
                model = torch.nn.Linear(2, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=rate)
                with bp.watch(model, name, optimizer=optimizer) as run:
                    for step in range(4):
                        model(torch.ones(4, 2)).square().mean().backward()
                        optimizer.step()
                        optimizer.zero_grad()
                        run.log(lonely=1.0 + step)
            model = torch.nn.Linear(2, 1)
            with pytest.raises(bp.NotFinite), bp.guard(model, capture="bad-step"):
                model(torch.full((1, 2), torch.nan))
            yield path


COMMANDS = {  # with what is read of each
    "explain f.py:ill": (GIVEN, lambda one: one["findings"][0]["source"]["line"] == 18 and not one["ok"]),
    "explain f.py:well": (GIVEN, lambda one: one["ok"] and one["complete"] and one["findings"] == []),
    "explain f.py:ill u": (GIVEN, lambda one: "'u'" in one["heading"]),
    "explain --nonfinite f.py:nan": (GIVEN, lambda one: one["findings"][0]["kind"] == "born"),
    "explain ill.rec": ((), lambda one: [each["kind"] for each in one["findings"]] == ["detach"]),
    "explain cut.py": ((), lambda one: one["findings"][0]["source"]["text"].strip() == "h = h.detach()"),
    "explain -m cut": ((), lambda one: len(one["findings"]) == 1),
    "health f.py:well": (GIVEN, lambda one: one["ok"] and "no problems found" in one["heading"]),
    "health cut.py": ((), lambda one: {each["kind"] for each in one["findings"]} >= {"missing"}),
    "check f.py:wrong": (GIVEN, lambda one: one["findings"][0]["input"] == "x * w" and one["judged"] == 2),
    "check f.py:nothing": (("x=1.0",), lambda one: (one["ok"], one["complete"]) == (True, False)),
    "provoke f.py:ill": (GIVEN, lambda one: one["findings"][0]["broken"] == "gradient" and one["risky"] == 1),
    "diff f.py:well f.py:wrong": (GIVEN, lambda one: one["findings"][one["first"]]["next"] is not None),
    "diff well.rec well.rec": ((), lambda one: one["ok"] and [pair["name"] for pair in one["pairs"]][:2] == ["x", "w"]),
    "diff still loud": ((), lambda one: one["first"]["step"] == 0 and one["rows"][0]["parts_at"] is not None),
    "report loud": ((), lambda one: one["alerts"] == one["findings"] and one["steps"] == [0, 1, 2, 3]),
    "report loud --name lonely": ((), lambda one: one["fields"]["logged"] == [1.0, 2.0, 3.0, 4.0] and one["ok"]),
    "report loud --step 1": ((), lambda one: one["names"]["lonely"]["logged"] == 2.0),
    "report loud --html loud.html": ((), lambda one: one["page"] == "loud.html" and one["alerts"]),
    "memory cut.py": ((), lambda one: one["ok"] and one["held"] == [] and one["saved"][0]["source"][:7] == "cut.py:"),
    "view loud --no-open --until-ended": ((), lambda one: one["url"].startswith("http://127.0.0.1:")),
    "probe f.py:well": (
        GIVEN,
        lambda one: (
            {each["name"]: each["gradient"] and each["gradient"]["numbers"] for each in one["entries"]}["u"]
            == pytest.approx(403.4288)
        ),
    ),
    "probe f.py:two --of a --of b": (
        GIVEN,
        lambda one: (
            one["entries"][1]["gradients"]["b"]["status"] != "ok"
            and one["entries"][1]["gradients"]["a"]["gradient"]["numbers"] == 3.0
        ),
    ),
    "probe f.py:several": (
        ("x=[1.0, 2.0]", "w=[3.0, 4.0]", "--cotangent", "[1, 1]"),
        lambda one: {each["name"]: each["value"] for each in one["entries"]}["v.1"] == {"numbers": 3},
    ),
    "probe f.py:nan": (
        GIVEN,
        lambda one: (
            one["entries"][-1]["value"]
            == {
                "numbers": "NaN",
                "rms": one["entries"][-1]["value"]["rms"],
                "largest": one["entries"][-1]["value"]["largest"],
                "nonfinite": 1,
            }
        ),
    ),
    "probe f.py:odd": (
        ("x=[1.0, nan]",),
        lambda one: (
            (kept := {each["name"]: each["value"] for each in one["entries"]})["held.3"] == {"numbers": True}
            and kept["held.1"] == {"text": "an integer of 16610 bits"}
            and kept["x"]["numbers"] == [1.0, "NaN"]
            and kept["held.4"] == {"numbers": "infinite"}
            and kept["ragged"]["numbers"] is kept["nowhere"] is None
            and kept["pairs"]["numbers"][0] == {"real": 1.0, "imag": 1.0}
            and kept["empty"]["numbers"] == []
        ),
    ),
    "probe cut.py": ((), lambda one: one["outputs"] == ["loss"]),
    "derive f.py:well x u": (GIVEN, lambda one: one["value"]["numbers"] == 2.0 and one["agrees"] and one["paths"]),
    "draw f.py:well out.svg": (GIVEN, lambda one: one["drawing"] == "out.svg"),
    "watch --folder NEW.run cut.py": ((), lambda one: [each["steps"] for each in one["runs"]] == [3]),
    "replay bad-step made.py:make": ((), lambda one: one["bitwise"] and not one["ok"]),
    "demo --folder shown": ((), lambda one: "shown/toy.svg" in one["drawings"]),
}
ELSEWHERE = {"export"}
"""Tested in tests/integrations/test_exports.py: it needs the packages that read what it writes."""


def words(command, option, name):
    """The command with an option of ours, which comes before a script."""
    verb, *rest = command.replace("NEW", name).split()
    return verb, option, *rest


def test_every_command_is_here():
    assert {command.split()[0] for command in COMMANDS} | ELSEWHERE == verbs()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_one_document(folder, command):
    given, holds = COMMANDS[command]
    code, out, err = invoked(*words(command, "--json", "first"), *given)
    data = json.loads(out, parse_constant=pytest.fail)
    assert out.count("\n") == 1 and holds(data), out
    if command.split()[0] in ("explain", "health", "check", "provoke", "diff", "report", "replay"):
        assert data.keys() >= KEYS
        assert code == (not data["ok"])
        assert all(one.keys() >= {"kind", "name", "headline", "source", "facts", "remedy"} for one in data["findings"])
    else:
        assert code == 0
    assert data["environment"].keys() == {"python", "system", "packages"}
    for said in ("said by the program", "said by the script"):
        assert said not in out


def test_a_report_for_programs_names_versions_and_no_person(folder, monkeypatch):
    monkeypatch.setattr("backprobe.record.stamp._Author.name", "Ada")
    found = json.loads(invoked("explain", "--json", "cut.py")[1])["environment"]
    assert found["python"] == platform.python_version()
    assert found["packages"]["torch"] == torch.__version__ and found["packages"]["backprobe"] == bp.__version__
    text = json.dumps(found)
    assert not any(one in text for one in ("Ada", platform.node(), str(Path.home()), os.getcwd(), sys.prefix))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_quiet_and_its_status_tells(folder, command):
    given, _ = COMMANDS[command]
    aloud = invoked(*words(command, "--json", "second"), *given)
    code, out, err = invoked(*words(command, "--quiet", "third"), *given)
    own = [line for line in out.splitlines() if not line.startswith("said by")]
    assert (code, own, err) == (aloud[0], [], "")


BEFORE = {  # what these documents have had since --json came; keys are added, and none goes
    "diff f.py:well f.py:wrong": (
        {"ok", "heading", "findings", "first", "first_backward", "pairs", "only_a", "only_b", "notes"},
        {
            "findings": {
                "kind",
                "direction",
                "name",
                "other",
                "headline",
                "error",
                "excess",
                "floor",
                "matched",
                "facts",
                "source",
                "next",
                "measure",
            },
            "pairs": {"name", "other", "matched", "value", "gradient"},
        },
    ),
    "diff still loud": (
        {"ok", "heading", "first", "rows", "only_a", "only_b", "notes"},
        {
            "first": {"step", "name", "other", "field", "numbers", "error", "excess", "headline", "facts"},
            "rows": {"name", "other", "kind", "steps", "parts_at"},
        },
    ),
    "report loud": (
        {"run", "steps", "skipped", "names", "alerts", "notes", "gaps"},
        {"alerts": {"kind", "step", "name", "field", "number", "threshold", "headline", "facts", "remedy"}},
    ),
    "report loud --name lonely": ({"run", "name", "steps", "fields", "alerts", "notes"}, {}),
    "report loud --step 1": ({"run", "step", "names"}, {}),
}


@pytest.mark.parametrize("command", BEFORE)
def test_keys_stay(folder, command):
    keys, within = BEFORE[command]
    data = json.loads(invoked(*words(command, "--json", ""), *COMMANDS[command][0])[1])
    assert data.keys() >= keys
    for key, inner in within.items():
        each = data[key] if isinstance(data[key], list) else [data[key]]
        assert each and all(one.keys() >= inner for one in each)


def test_a_gap_keeps_its_keys(folder):
    with bp.open_run("still") as run:
        assert run.report().to_dict()["gaps"] == [one.to_dict() for one in run.gaps]
    assert bp.Gap("not_called", "w", "w", steps=(1, 2), kinds=("grad",)).to_dict().keys() >= {
        "kind",
        "name",
        "kinds",
        "steps",
        "headline",
    }


def test_other_processes_and_c_do_not_write_into_the_document(folder):
    code, out, err = forked("-m", "backprobe", "explain", "--json", "cut.py", imported=DISTRIBUTED)
    assert code == 1 and json.loads(out)["findings"]
    assert [line for line in err.splitlines() if line.startswith("said")] == [
        "said by the script",
        "said by another process",
    ]


def test_a_pipe_that_nobody_reads(folder):
    """The command ends as without --json: with the status of SIGPIPE and no word."""
    assert unread(forked, "-m", "backprobe", "explain", "--json", "f.py:well", *GIVEN) == (141, "", "")


def test_what_is_known_of_a_script_that_fails_is_a_document_too(folder):
    code, out, err = invoked("explain", "--json", "--steps", "9", "raises.py")
    assert code == 3 and "LookupError: mine" in err
    assert json.loads(out)["heading"] == "all 4 parameters got a gradient"
    code, out, err = invoked("explain", "--json", "--steps", "9", "ends.py")
    assert code == 7 and json.loads(out)["heading"] == "all 4 parameters got a gradient"


def test_errors_are_said_all_the_same(folder):
    for option in ("--json", "--quiet"):
        assert refused(invoked("explain", "nowhere.py:f", option)).startswith("BadOption: 'nowhere.py:f'")
    code, out, err = invoked("explain", "--quiet", "--steps", "9", "raises.py")
    assert (code, out.splitlines()) == (3, ["said by the script"]) and "LookupError: mine" in err


def test_both_are_refused(folder):
    err = refused(invoked("explain", "--json", "--quiet", "cut.py"))
    assert err.startswith("BadOption: --json prints a document, and --quiet prints nothing\n")
    assert err.endswith("  next:  backprobe explain --help\n")


def test_that_not_all_was_judged_is_no_error(folder):
    for option, said in (("--json", 1), ("--quiet", 0)):
        code, _, err = invoked("check", option, "f.py:nothing", "x=1.0")
        assert (code, err.count("not everything could be checked")) == (0, said)
    assert invoked("check", "--quiet", "--strict", "f.py:nothing", "x=1.0") == (1, "", "")


def test_after_a_script_they_are_its_own(folder):
    code, out, err = invoked("explain", "cut.py", "--json")
    assert code == 1 and out.startswith("said by the script\n2 of 4 parameters got no gradient")
    assert "--json was passed to cut.py; to pass it to backprobe: backprobe explain --json cut.py" in err


def test_a_document_keeps_characters_that_no_stream_can_hold(folder):
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    assert invoked("probe", "f.py:well", *GIVEN, "--partials", "true", "--save", "partials.rec")[0] == 0
    out = printed(python("-m", "backprobe", "derive", "--json", "partials.rec", "x", env=env))
    assert json.loads(out)["text"].startswith("∂return/∂x = ")


def test_help_tells_of_them():
    for verb in verbs():
        out = " ".join(printed(invoked(verb, "--help")).split())
        assert "--json Print one JSON document" in out and "--quiet Print nothing but errors" in out
