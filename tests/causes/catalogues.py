"""The programs that the table asks, by group.

``python tests/causes/catalogues.py GROUP`` prints the rows of a group as JSON.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from causes import nonfinite
from causes.rows import Row, of_findings, of_lines, yes

TESTS = Path(__file__).resolve().parent.parent
SECONDS, AT_ONCE = 100, 1


def explain_cases():
    """The catalogue of PyTorch's causes: functions, blocks, and the notes on errors."""
    import backprobe as bp
    from causes.cures import is_cured
    from explain_cases import BLOCKS, ERRORS, FUNCTIONS, WORDS
    from test_explain_cases import LINE, arguments

    for form, cases in (("function", FUNCTIONS), ("block", BLOCKS)):
        for case in cases:
            made = bp.probe(case.program)(*arguments()) if form == "function" else case.program(*arguments(), bp.probe)
            report = bp.explain(made, case.asked)
            findings, marked = dicts(report), case.lines()
            right = tuple(one.kind for one in report.findings) == case.kinds
            cures = is_cured(case.program, report, case.asked, arguments) if form == "function" else None
            key = "explain_cases", "torch", form, case.name
            yield of_findings(key, findings, marked, "explain_cases.py", right=right, cures=cures)
    for case in ERRORS:
        note = note_of(lambda case=case: case.program(*arguments(), bp.probe))
        found = {int(each) for each in LINE.findall(note)}
        marked = {line for word in WORDS for line in case.lines(word)}
        remedy = f"{int('next:' in note)} of 1"
        yield Row("explain_cases", "torch", "error", case.name, *of_lines(found, marked), "", remedy)


def note_of(program):
    """The last note on the error that a program raises."""
    import backprobe as bp

    try:
        program()
    except (RuntimeError, ValueError, bp.BackprobeError) as error:
        return getattr(error, "__notes__", [""])[-1]
    return ""


def dicts(report):
    """The findings of a report as plain data."""
    return [one.to_dict() for one in report.findings]


def models():
    """Cuts in the code of modules, with the model probed whole and in a block."""
    import backprobe as bp
    from test_explain_models import KINDS, cut_line, in_block, in_model_form

    for kind, stated in KINDS.items():
        for form, probed in (("model", in_model_form), ("block", in_block)):
            found = [one for one in dicts(bp.explain(probed(kind()))) if one["kind"] not in ("unused", "not_executed")]
            right = [one["kind"] for one in found] == [stated]
            key = "models", "torch", form, kind.__name__
            yield of_findings(key, found, [cut_line(kind)], "test_explain_models.py", right=right)


def remedies():
    """Remedies of PyTorch that are code, put into the program as they are written."""
    import backprobe as bp
    from causes.cures import is_cured
    from remedied import defined
    from test_literal_remedies import COPIES, HEAD, POSITIONS, W, X, leaf

    with tempfile.TemporaryDirectory() as folder:
        for name, (body, *_) in {**POSITIONS, **COPIES}.items():
            program = defined(f"{HEAD}def f(x, w):\n{body}    return (k * w.sum()).sum()\n", Path(folder)).f
            report = bp.explain(bp.probe(program)(leaf(X), leaf(W)), "x")
            cures = is_cured(program, report, "x", lambda: (leaf(X), leaf(W)))
            yield of_findings(("remedies", "torch", "function", name), dicts(report), [], "", cures=cures, found=())


def threads(framework):
    """Programs from public threads."""
    import importlib

    from threads.asking import asked
    from threads_page import MODULES

    title = {"torch": "PyTorch", "tensorflow": "TensorFlow and Keras", "jax": "JAX"}[framework]
    for module in MODULES[title]:
        for thread in importlib.import_module(f"threads.{module}").THREADS:
            if framework == "torch":
                sys.modules["torch"].manual_seed(0)
            verdict = asked(thread)
            stated = thread.marked(verdict.lines)
            right = verdict.kinds == thread.kinds and verdict.lines == stated
            right = right and all(part in verdict.text for part in thread.says)
            found, marked = (
                {(word, line) for word, lines in each.items() for line in lines} for each in (verdict.lines, stated)
            )
            remedy = f"{int('next:' in verdict.text)} of 1" if found else ""
            kinds = ", ".join(verdict.kinds) or "none"
            key = "threads", framework, thread.form, thread.name
            yield Row(*key, *of_lines(found, marked), kinds, remedy, "", yes(right))


def planted_faults():
    """Faults of one line that ``diff`` blames."""
    import planted

    for number, fault in enumerate(planted.FAULTS):
        report = planted.planted(fault)[1]
        first = [one.to_dict() for one in report.findings]
        key = "planted", "torch", fault.direction, f"{number} {fault.kind} {fault.model}"
        found = planted.is_found(fault, report)
        kinds = ", ".join(dict.fromkeys(one["kind"] for one in first)) or "none"
        yield Row(*key, f"{int(found)} of 1", "", kinds, "", "", yes(found))


def tensorflow_cuts():
    """Losses of TensorFlow that no gradient comes back from: in a block, and as a function, which then raises."""
    import tensorflow as tf
    import test_tensorflow_cut as cases

    import backprobe as bp

    for loss_of, (kind, *_) in cases.CUTS.items():
        net = cases.Net()
        with bp.probe() as rec:
            with tf.GradientTape() as tape:
                loss = loss_of(net)
            tape.gradient(loss, net.w)
        found, marked = dicts(bp.explain(rec)), [cases.here(loss_of)]
        key = "cuts_in_tensorflow", "tensorflow", "block", loss_of.__name__
        right = kind in [one["kind"] for one in found]
        yield of_findings(key, found, marked, "test_tensorflow_cut.py", right=right)
    for loss_of in cases.FUNCTIONS:
        note = note_of(lambda loss_of=loss_of: bp.probe(loss_of)(cases.Net()))
        key = "cuts_in_tensorflow", "tensorflow", "function", loss_of.__name__
        yield of_note(key, note, "test_tensorflow_cut.py", [cases.here(loss_of)])


def jax_cuts():
    """Functions of JAX whose output depends on nothing."""
    import test_jax_cut as cases

    import backprobe as bp

    for function in cases.CUTS:
        note = note_of(lambda function=function: bp.probe(function)(cases.X))
        key = "cuts_in_jax", "jax", "function", function.__name__
        yield of_note(key, note, "test_jax_cut.py", [cases.here(function)])


def of_note(key, note, file, marked):
    """The row of the note on an error, which has no kinds."""
    found = {int(line) for line in re.findall(rf"{file}:(\d+)", note)}
    remedy = f"{int(bool(re.search('^ *next:', note, re.MULTILINE)))} of 1"
    return Row(*key, *of_lines(found, marked), "", remedy)


def field(framework):
    """Whole programs of other people's kind."""
    from field import asking

    def row(path):
        one = asking.asked(path)
        with copied(path.parent) as folder:
            ask = shlex.split(one.ask)
            words = [path.name if word == "PROGRAM" else word.replace("PROGRAM:", f"{path.name}:") for word in ask]
            words += [path.name] if words == ask else []
            status, out = run(framework, folder, words[1:] if ask[0] == "python" else ["-m", "backprobe", *words])
            findings = reported(framework, folder, words) if ask[0] in ("explain", "health", "check") else []
        named = {int(line) for line in re.findall(rf"\b{re.escape(path.name)}:(\d+)", out)} & set(one.lines)
        others = {each["source"]["line"] for each in findings if each["source"]} - set(one.lines)
        wrong = asking.wrong_in(path, status, out)
        key = "field", framework, one.ask.split(":")[0].split(" ")[0], path.stem
        return of_findings(key, findings, one.lines, path.name, right=not wrong, found=named | others)

    yield from each(row, asking.programs(framework))


def cuts(framework):
    """Cuts that no table of names can know, and healthy programs."""
    from cuts import score

    def row(path):
        answer = score.judged(path)
        form = "function" if "PROGRAM:" in path.read_text() else "script"
        key = "cuts", framework, form, path.stem
        if answer.wrong.startswith("premise"):
            raise SystemExit(f"{path}: {answer.wrong}")
        if answer.is_healthy:
            return Row(*key, "", "", "none" if not answer.wrong else answer.wrong[:60], "", "", yes(not answer.wrong))
        return Row(*key, f"{int(answer.line)} of 1", "", answer.kinds, "", "", yes(answer.line and answer.kind))

    yield from each(row, sorted((score.HERE / framework).glob("*.py")))


def useless(framework):
    """Trainings whose gradients are there, some of which are worthless."""
    from useless import score

    def row(path):
        text = path.read_text()
        marked = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# <- here")]
        with copied(path.parent) as folder:
            findings = reported(framework, folder, ["explain", path.name])
        healthy = score.head(text)["kind"] == "healthy"
        found = {each["source"]["line"] for each in findings if each["source"]}
        right = not findings if healthy else bool(found & set(marked)) if marked else None
        return of_findings(("useless", framework, "script", path.stem), findings, marked, path.name, right=right)

    yield from each(row, sorted((TESTS / "useless" / framework).glob("*.py")))


def folder(path):
    """The programs of another folder: what is said of them, and nothing of what is right.

    A program that opens a probe itself runs by itself; its lines are then those that it printed.
    """

    def row(program):
        text = program.read_text()
        framework = next((one for one in ("tensorflow", "jax") if f"import {one}" in text), "torch")
        name, own = str(program.relative_to(path)), "import backprobe" in text
        key = path.name, framework, "by itself" if own else "script", name.removesuffix(".py")
        with copied(path) as copy:
            words = [name] if own else ["-m", "backprobe", "explain", "--json", name]
            status, out = run(framework, copy, words)
        if own or status not in (0, 1):
            found = {int(line) for line in re.findall(rf"\b{re.escape(program.name)}:(\d+)", out)}
            return Row(*key, *of_lines(found, []), "no end" if status is None else f"status {status}")
        return of_findings(key, findings_in(out), [], program.name)

    yield from each(row, sorted(path.rglob("*.py")))


def copied(path):
    """A copy of a folder, for programs that write files."""
    made = tempfile.TemporaryDirectory()
    shutil.copytree(path, made.name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return made


def run(framework, folder, words):
    """The status of ``python WORDS`` in a folder, None where it does not end, and all that it printed."""
    import prepared

    try:
        given = {"cwd": folder, "timeout": SECONDS, "env": dict(os.environ)}
        ran = prepared.run("torch" if framework == "libraries" else framework, "-W", "ignore", *words, **given)
    except TimeoutError:
        return None, ""
    return ran.returncode, ran.stdout + ran.stderr


def reported(framework, folder, words):
    """The findings of a command, asked for as JSON."""
    return findings_in(run(framework, folder, ["-m", "backprobe", words[0], "--json", *words[1:]])[1])


def findings_in(out):
    """The findings of the last report that was printed as JSON."""
    reports = [line for line in out.splitlines() if line.startswith('{"ok"')]
    return json.loads(reports[-1]).get("findings", []) if reports else []


def each(row, paths):
    """A row for each program, a few at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(row, paths)


FRAMEWORKS = ("torch", "tensorflow", "jax")
GROUPS = {
    "explain_cases": explain_cases,
    "models": models,
    "remedies": remedies,
    "planted": planted_faults,
    "cuts_in_tensorflow": tensorflow_cuts,
    "cuts_in_jax": jax_cuts,
    **{
        f"{one.__name__} {name}": lambda one=one, name=name: one(name)
        for one in (threads, field, cuts, useless)
        for name in FRAMEWORKS
    },
    "nonfinite cases": nonfinite.cases,
    "nonfinite statements": nonfinite.statements,
    **{f"grist {name}": lambda name=name: nonfinite.grist(name) for name in ("torch", "tensorflow")},
}
"""The groups by name. Where the libraries are installed there are ``field libraries`` and ``cuts libraries``, too."""


def main(group):
    """Print the rows of a group."""
    kind, _, name = group.partition(" ")
    made = folder(Path(name)) if kind == "folder" else GROUPS[group]() if group in GROUPS else globals()[kind](name)
    print(json.dumps(list(made)))


if __name__ == "__main__":
    main(sys.argv[1])
