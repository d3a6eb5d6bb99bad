"""The package as it is imported and installed: what it imports, what it offers, what is documented."""

import ast
import inspect
import re
import subprocess
import tomllib
from enum import Enum
from pathlib import Path

import pytest
from installed import MOST, beyond_numpy

import backprobe as bp
from commands import forked, printed, python

ROOT = Path(__file__).parent.parent
HEAVY = {
    "torch",
    "tensorflow",
    "jax",
    "keras",
    "transformers",
    "numpy",
    "rich",
    "click",
    "safetensors",
    "IPython",
    "sympy",
    "pygraphviz",
    "matplotlib",
}
SLOW = {"importlib.metadata", "email"}  # 44 ms of a start that takes 60

PUBLIC = {
    "Alert", "Gap", "RunReport", "Attribution", "attribute", "Curvature", "curvature",
    "AmbiguousName", "BackprobeError", "BadName", "BadOption", "BadOutput", "BadRecording", "CheckReport",
    "Conflict", "Conflicts",
    "Derivation", "DiffReport", "Divergence", "Drawing", "Edge", "Entry", "Finding", "Finiteness", "GradStatus",
    "BackwardOp", "NoBackend",
    "NoGradient", "NoSource", "Nonfinite", "NotFinite", "NotInstalled", "NotSaved", "NothingMatched",
    "NothingToDifferentiate", "Overwritten",
    "BadRun", "Histogram", "Run", "RunDiffReport", "RunDivergence", "Step", "UnknownStep", "Watch", "open_run", "watch",
    "Guard", "Pace", "watch_function",
    "IndirectInput", "Pass", "PathSums", "PerSample", "Probe", "Provocation", "Provocations", "RemovedName",
    "Read", "Recording", "Report", "Source", "StaleSource", "Stamp",
    "StrategyRefused", "UnknownAttribute", "UnknownName",
    "Unsupported", "WrongDerivative", "check", "derive", "diff", "draw", "explain",
    "diff_live",
    "Names", "names",
    "guard", "health", "hvp", "jacobian", "load", "noise_floor", "NoiseFloor", "probe", "provoke", "stamp",
    "replay", "ReplayReport",
    "WorkerLost",
    "Sweep", "sweep", "per_sample", "Held", "MemoryReport", "memory",
    "Viewer", "view",
}  # fmt: skip


def imported_by(code, folder=None):
    """The modules that a fresh Python has imported after running this code."""
    return set(printed(python("-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))", cwd=folder)).split())


def test_importing_backprobe_imports_nothing_heavy():
    modules = imported_by("from backprobe import *")
    assert "backprobe.recording" in modules
    assert modules & (HEAVY | SLOW) == set()


def test_a_verb_is_imported_when_it_is_asked_for():
    before, after = imported_by("import backprobe"), imported_by("import backprobe\nbackprobe.load")
    assert {name for name in before if name.startswith("backprobe")} == {"backprobe"}
    assert "backprobe.recording" in after
    assert "backprobe.watch" not in after


def test_the_first_verb_imports_no_explanations_and_no_storage():
    """A third of the time of its import was what explains, tries remedies and writes to disk: most runs do neither."""
    modules = imported_by("from backprobe import probe")
    later = ("explain", "experiments", "remedies", "storage")
    assert [name for name in modules if name.startswith(tuple(f"backprobe.{one}" for one in later))] == []
    assert "backprobe.recording" in modules


def test_a_verb_is_no_module_whoever_imports_that_module():
    """Python puts a module that is imported into its package, under the name that the verb has there."""
    code = """
        import backprobe.check.report, backprobe.diff
        import backprobe as bp
        import backprobe.names as names
        from backprobe import check, diff
        print(check is bp.check, diff is bp.diff, names is bp.names)
        print({type(one).__name__ for one in (check, diff, names)})
    """
    assert printed(python("-c", inspect.cleandoc(code))) == "True True True\n{'function'}\n"


def test_a_module_is_there_though_nothing_has_imported_it():
    assert printed(python("-c", "import backprobe as bp\nprint(bp.rules.rule.RULES['dead'].kind)")) == "dead\n"


def test_a_name_is_imported_from_where_its_type_is():
    """`__init__.py` says it twice: for type checkers, and for Python."""
    tree = ast.parse(Path(bp.__file__).read_text())
    said = {one.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for one in node.names}
    assert {name: module for name, module in said.items() if module != "backprobe"} == bp._HOME


def test_the_command_of_the_viewer_imports_no_other():
    """Its server lives long: what explains, records and draws would be 8 MB of it."""
    code = """
        import sys
        from click.testing import CliRunner
        from backprobe.cli import main
        CliRunner().invoke(main, ["view", "--no-open", "no such run"])
        imported = {name.split(".")[1] for name in sys.modules if name.startswith("backprobe.")}
        print({"view", "explain", "probe", "draw", "diff"} & imported)
        print(len(main.commands))
    """
    assert printed(python("-c", inspect.cleandoc(code))) == "{'view'}\n15\n"


def test_the_import_check_can_fail(tmp_path):
    """The check above sees an import at the top of a module, within a package, and one that a call makes."""
    assert imported_by("import backprobe.cli") & HEAVY == {"click"}
    assert imported_by("import backprobe.backends.numpy") & HEAVY == {"numpy"}
    assert SLOW <= imported_by("import backprobe\nbackprobe.stamp()\nimport importlib.metadata")
    (tmp_path / "careless").mkdir()
    (tmp_path / "careless" / "__init__.py").write_text("from careless import deep\n")
    (tmp_path / "careless" / "deep.py").write_text("import rich\n")
    assert imported_by("import careless", tmp_path) & HEAVY == {"rich"}


def test_the_backend_of_pytorch_imports_no_compiler():
    """Which takes longer than the rest of PyTorch that it needs, and would come on top of each first probe."""
    code = """
        import sys, torch
        import torch.utils.checkpoint  # which older releases import apart, with a part of their compiler
        before = {*sys.modules}
        from backprobe.backends.torch import BACKEND
        backend = {*sys.modules} - before
        BACKEND.watches
        print([name for name in backend if name.startswith("torch.")], "torch._dynamo" in {*sys.modules} - before)
    """
    assert printed(forked("-c", inspect.cleandoc(code))) == "[] True\n"


def test_the_table_in_a_pipe_needs_no_rich(tmp_path):
    code = "import backprobe as bp\nstr(bp.load({!r}, to='numpy'))"
    bp.probe(_double, backend="torch")(1.0).save(tmp_path / "rec")
    assert imported_by(code.format(str(tmp_path / "rec"))) & HEAVY == {"numpy", "safetensors"}


@pytest.mark.parametrize(
    ("missing", "call"),
    [
        ("pygraphviz", "bp.draw(rec).svg"),
        ("sympy", "bp.derive(rec, 'x')"),
        ("matplotlib", "bp.Sweep('f', 'return', 1.0).plot()"),
    ],
)
def test_an_optional_package_that_is_missing(missing, call, tmp_path):
    """A folder without the package stands for an environment without it: the import fails as it does there."""
    bp.probe(_double, backend="torch", partials=True)(1.0).save(tmp_path / "rec")
    code = f"""
        import sys
        sys.modules[{missing!r}] = None
        import backprobe as bp
        rec = bp.load({str(tmp_path / "rec")!r}, to="numpy")
        try:
            {call}
        except bp.NotInstalled as error:
            print(isinstance(error, ImportError), error)
        print(len(str(rec).splitlines()))
    """
    shown = printed(python("-c", inspect.cleandoc(code)))
    assert f"needs {missing}" in shown
    assert f"next:  pip install {missing}\n" in shown
    assert shown.splitlines()[-1].isdigit()


@pytest.mark.parametrize(
    ("code", "missing", "packages"),
    [
        ("import backprobe.integrations.huggingface", "transformers", "transformers accelerate"),
        ("import backprobe.integrations.lightning", "lightning", "lightning"),
        (
            "from backprobe.integrations.tensorboard import TensorBoardSink; TensorBoardSink('tb')",
            "tensorboard",
            "tensorboard",
        ),
        ("from backprobe.integrations.wandb import WandbSink; WandbSink()", "wandb", "wandb"),
        ("from backprobe.integrations.mlflow import MLflowSink; MLflowSink()", "mlflow", "mlflow-skinny"),
        ("bp.executors.ray(2)", "ray", "ray"),
        ("bp.executors.submitit(None)", "submitit", "submitit"),
        ("bp.open_run('memory://nowhere')", "pyarrow", "pyarrow"),
    ],
)
def test_a_library_that_is_integrated_and_missing(code, missing, packages):
    blocked = f"import sys\nsys.modules[{missing!r}] = None\nimport backprobe as bp\n"
    shown = printed(python("-c", f"{blocked}try:\n    {code}\nexcept bp.NotInstalled as error:\n    print(error)"))
    assert f"needs {missing}" in shown
    assert shown.endswith(f"next:  pip install {packages}\n")


def taken_from_a_registry(text):
    """Commands that would install another project of our name."""
    return re.findall(r"""pip install\s+(?:-\S+ )*["']?backprobe\b.*""", text)


def test_nothing_says_to_install_a_package_of_our_name_which_is_not_ours():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "lessons").glob("*.ipynb")]
    files = [*Path(bp.__file__).parent.rglob("*.py"), *pages]
    assert {file.name: found for file in files if (found := taken_from_a_registry(file.read_text()))} == {}
    assert taken_from_a_registry("pip install 'backprobe[plot]'\npip install -U backprobe\npip install .")[1:] == [
        "pip install -U backprobe"
    ]


def _double(x):
    return x * 2


def test_the_public_names_are_exactly_these():
    assert set(bp.__all__) == PUBLIC
    assert list(bp.__all__) == sorted(bp.__all__)
    assert bp.__version__ == "0.2.0"
    assert all(hasattr(bp, name) for name in PUBLIC)
    visible = {name for name, value in vars(bp).items() if name[:1] != "_" and not inspect.ismodule(value)}
    assert visible == PUBLIC | {"load_ipython_extension", "unload_ipython_extension"}


def test_what_an_editor_offers_is_what_is_public():
    """Neither modules, which are there once something imports them, nor what was public before."""
    from backprobe import notebook

    assert set(dir(bp)) == PUBLIC | {"__version__"}
    assert dir(bp) == sorted(bp.__all__ + ["__version__"])
    assert bp.notebook is notebook


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("Check", "CheckReport"),
        ("DiffRuns", "DiffReport"),
        ("NoiseRuns", "NoiseFloor"),
        ("Provoke", "Provocations"),
        ("SweepRuns", "Sweep"),
    ],
)
def test_a_name_that_is_no_longer_public_says_what_to_use(name, instead):
    with pytest.raises(bp.UnknownAttribute, match=f"next:  bp.{instead}, which the call returns"):
        getattr(bp, name)
    with pytest.raises(bp.RemovedName, match=f"bp.{name} is no longer public(?s:.)*next:  bp.{instead}"):
        exec(f"from backprobe import {name}")
    assert not hasattr(bp, name)
    assert hasattr(bp, instead)


@pytest.mark.parametrize("code", ["bp.Check", "from backprobe import Check"])
def test_the_first_name_that_is_asked_for_may_be_one_of_these(code):
    status, _, errors = python("-c", f"import backprobe as bp\n{code}")
    assert status == 1 and "bp.Check is no longer public" in errors


def test_a_name_that_never_was_public_is_as_python_says():
    with pytest.raises(AttributeError, match=r"module 'backprobe' has no attribute 'prob'") as caught:
        bp.prob
    assert type(caught.value) is AttributeError
    assert (caught.value.name, caught.value.obj) == ("prob", bp)  # by which Python adds: Did you mean: 'probe'?
    with pytest.raises(ImportError, match="cannot import name 'prob' from 'backprobe'"):
        exec("from backprobe import prob")


def documented(module):
    """Every public class and function of a module, and their public members, by dotted name."""
    for name in module.__all__:
        value = getattr(module, name)
        yield name, value
        if inspect.isclass(value):
            for member, held in vars(value).items():
                public = member[:1] != "_" or member in ("__getitem__", "__call__")
                if public and (inspect.isfunction(held) or isinstance(held, property | classmethod | staticmethod)):
                    yield f"{name}.{member}", held


def undocumented(module):
    """The names of those without a docstring of their own; the ones that dataclass and Enum write do not count."""
    return [name for name, value in documented(module) if not _own_doc(value)]


def _own_doc(value):
    text = value.__doc__ or ""
    if inspect.isclass(value):
        text = vars(value).get("__doc__") or ""
        if text.startswith(f"{value.__name__}(") or (issubclass(value, Enum) and text == Enum.__doc__):
            return ""
    return text.strip()


def test_everything_public_has_a_docstring():
    assert undocumented(bp) == []
    names = {name for name, _ in documented(bp)}
    assert {"probe", "Recording.grads", "Recording.result", "Entry.grad", "Recording.__getitem__"} <= names


def test_the_docstring_check_can_fail():
    from dataclasses import dataclass

    @dataclass
    class Made:
        x: int

        def method(self):
            pass

        @property
        def held(self):
            pass

        def told(self):
            """Something."""

    class Base:
        """Something."""

    class Derived(Base):
        pass

    class Module:
        __all__ = ["Made", "Derived", "Base", "function"]
        function = staticmethod(lambda: None)

    Module.Made, Module.Derived, Module.Base = Made, Derived, Base
    assert undocumented(Module) == ["Made", "Made.method", "Made.held", "Derived", "function"]


def test_errors_are_one_tree_and_also_the_builtin_that_fits():
    classes = {name: getattr(bp, name) for name in bp.__all__ if inspect.isclass(getattr(bp, name))}
    errors = {name: value for name, value in classes.items() if issubclass(value, Exception)}
    assert {name for name, value in errors.items() if not issubclass(value, bp.BackprobeError)} == set()
    assert set(errors) == {
        name
        for name in PUBLIC
        if name not in ("BackwardOp", "NoiseFloor", "Nonfinite")
        and (
            name[:2] in ("No", "Ba", "Am", "Un", "Ov", "Wo")
            or name in ("RemovedName", "StaleSource", "StrategyRefused")
        )
    }
    builtin = (
        ValueError,
        TypeError,
        KeyError,
        LookupError,
        RuntimeError,
        FloatingPointError,
        ImportError,
        AttributeError,
    )
    assert [name for name, value in errors.items() if not issubclass(value, builtin)] == ["BackprobeError"]


def settings():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_types_are_in_the_wheel():
    package, command = settings()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert settings()["project"]["scripts"] == {"backprobe": f"{Path(command).stem}:main"}
    assert (ROOT / command).is_file()
    assert (ROOT / package / "py.typed").read_bytes() == b""
    assert Path(bp.__file__).parent == ROOT / package
    ignored = subprocess.run(["git", "check-ignore", f"{package}/py.typed"], cwd=ROOT, capture_output=True, text=True)
    assert (ignored.returncode, ignored.stdout) == (1, ""), "hatchling leaves out what git ignores"
    tracked = subprocess.run(["git", "ls-files", package], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"{package}/py.typed" in tracked.stdout.splitlines()


def test_the_version_is_read_from_the_package():
    from importlib import metadata

    assert settings()["tool"]["hatch"]["version"]["path"] == "src/backprobe/__init__.py"
    assert metadata.version("backprobe") == bp.__version__


@pytest.mark.parametrize("name", ["torch", "tensorflow", "jax"])
def test_no_framework_is_a_requirement(name):
    required = settings()["project"]["dependencies"]
    assert sorted(part.split(">")[0] for part in required) == ["click", "numpy", "safetensors"]
    assert any(part.startswith(name) for part in settings()["project"]["optional-dependencies"][name])


def test_an_install_is_light():
    """NumPy, which every framework brings, and little more: no graphics library, no SymPy."""
    sizes = beyond_numpy()
    assert sizes.keys() == {"backprobe", "click", "safetensors"}
    assert 5e6 < sum(sizes.values()) <= MOST, sizes


def test_the_stamp_names_what_is_imported_and_nothing_else():
    code = "import backprobe as bp; print(sorted(bp.stamp().packages), bp.stamp().author)"
    assert printed(python("-c", code)) == "['backprobe'] None\n"


def test_the_tree_of_errors_is_drawn_as_it_is():
    from backprobe import errors

    drawn = re.findall(r"[├└]── (\w+)(?: \((\w+)\))?", errors.__doc__)
    own = {name: value for name, value in vars(errors).items() if getattr(value, "__module__", "") == errors.__name__}
    classes = {name: value for name, value in own.items() if inspect.isclass(value)}
    assert {name for name, _ in drawn} == set(classes) - {"BackprobeError"}
    assert {name: builtin for name, builtin in drawn if builtin} == {
        name: value.__bases__[1].__name__ for name, value in classes.items() if len(value.__bases__) == 2
    }


@pytest.mark.parametrize(
    "verb",
    [
        "probe",
        "watch",
        "watch_function",
        "sweep",
        "attribute",
        "curvature",
        "per_sample",
        "memory",
        "noise_floor",
        "provoke",
        "check",
        "diff",
        "diff_live",
        "guard",
        "health",
        "draw",
        "replay",
    ],
)
def test_each_parameter_of_a_verb_has_its_line_in_the_docstring(verb):
    function = getattr(bp, verb)
    heads = re.findall(r"^- ((?:``\w+[^`]*``(?:, | and )?)+)", inspect.getdoc(function), re.MULTILINE)
    named = {name for head in heads for name in re.findall(r"``(\w+)", head)}
    assert [name for name in inspect.signature(function).parameters if name not in named] == []
