"""Code of installed distributions is not the program's own, wherever on ``sys.path`` it lies; what is edited is."""

import importlib
import os
import site
import subprocess
import sys
import venv
import zipfile
from textwrap import dedent

import pytest
import torch

import backprobe as bp
from asked import leaf
from backprobe.source.user_code import package
from overlays import PACKAGES, linked, run

INSTALLED = "def smooth(x):\n    inner = x * 2\n    return inner + 1\n"
OWN = "def mine(x):\n    inner = x * 3\n    return inner\n"


class Layout:
    """A folder in which distributions and the program's own files are put."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.searched = []

    def write(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def distribution(self, root, files=None, *, record=True, about=None, **others):
        """A distribution with these files, in a folder below, and what says that it is installed."""
        files = {f"{self.name}/__init__.py": "", f"{self.name}/deep/code.py": INSTALLED} if files is None else files
        about = f"{self.name}-1.0.dist-info" if about is None else about
        for file, text in files.items():
            self.write(f"{root}/{file}", text)
        listed = [*files, f"{about}/METADATA", f"{about}/RECORD", "../../bin/run"]
        self.write(f"{root}/{about}/METADATA", f"Name: {self.name}\nVersion: 1.0\n")
        if record:
            self.write(f"{root}/{about}/RECORD", "".join(f"{file},sha256=0,0\n" for file in listed))
        for name, text in others.items():
            self.write(f"{root}/{about}/{name}", text)

    def search(self, *places):
        self.searched += [str(self.folder / place) for place in places]

    def archive(self, root, file, within=""):
        """What is in a folder as an archive."""
        made = self.folder / file
        made.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(made, "w") as opened:
            for path in sorted((self.folder / root).rglob("*")):
                if path.is_file():
                    opened.write(path, within + str(path.relative_to(self.folder / root)))
        return made


LAYOUTS, EDITED = {}, {}


def layout(function):
    LAYOUTS[function.__name__] = function
    return function


def edited(function):
    EDITED[function.__name__] = function
    return function


def module(made, path="deep.code"):
    return f"{made.name}.{path}"


@layout
def pip_install_target(made):
    made.distribution("target")
    made.search("target")
    return module(made)


@layout
def a_line_of_a_pth_file(made):
    made.distribution("elsewhere/lib")
    made.write("site/more.pth", f"{made.folder}/elsewhere/lib\n")
    site.addsitedir(str(made.folder / "site"))
    return module(made)


@layout
def a_relative_line_of_a_pth_file(made):
    made.distribution("site/nested")
    made.write("site/more.pth", "# a comment\nnested\n")
    site.addsitedir(str(made.folder / "site"))
    return module(made)


@layout
def several_lines_of_a_pth_file(made):
    made.distribution("second")
    (made.folder / "first").mkdir()
    made.write("site/more.pth", f"{made.folder}/first\n{made.folder}/second\n")
    site.addsitedir(str(made.folder / "site"))
    return module(made)


@layout
def a_path_that_ends_with_a_slash(made):
    made.distribution("target")
    made.search("target/")
    return module(made)


@layout
def a_path_with_steps_back(made):
    made.distribution("target")
    made.write("other/x.txt", "")
    made.search("other/../target")
    return module(made)


@layout
def a_module_of_one_file(made):
    made.distribution("target", {f"{made.name}.py": INSTALLED})
    made.search("target")
    return made.name


@layout
def a_package_without_init(made):
    made.distribution("target", {f"{made.name}/part/code.py": INSTALLED})
    made.search("target")
    return module(made, "part.code")


@layout
def a_distribution_of_another_name(made):
    made.distribution("target", about="Its-other.name-2.0.post1.dist-info")
    made.search("target")
    return module(made)


@layout
def in_the_projects_own_folder(made):
    made.distribution(".")
    made.search(".")
    return module(made)


@layout
def in_a_folder_of_the_project(made):
    made.distribution("project/vendor")
    made.search("project", "project/vendor")
    return module(made)


@layout
def among_many(made):
    for at in range(30):
        name = f"{made.name}_{at}"
        made.distribution("target", {f"{name}/__init__.py": ""}, about=f"{name}-1.dist-info")
    made.distribution("target", about="zzz-1.dist-info")
    made.search("target")
    return module(made)


@layout
def a_record_with_quotes_and_other_line_ends(made):
    made.distribution("target", record=False)
    lines = [f'"{made.name}/with, comma.py",sha256=0,1', f"{made.name}/__init__.py,,", f"{made.name}/deep/code.py,,"]
    made.write(f"target/{made.name}-1.0.dist-info/RECORD", "\r\n".join(lines))
    made.search("target")
    return module(made)


@layout
def no_record_but_the_packages(made):
    made.distribution("target", record=False, about="other-1.dist-info", **{"top_level.txt": f"{made.name}\n"})
    made.search("target")
    return module(made)


@layout
def no_record_and_no_packages(made):
    about = made.name.replace("_", "-") + "-1.0.dist-info"
    made.distribution("target", record=False, about=about.replace("-1.0", "") if "-" not in about else about)
    (made.folder / "target" / about).rename(made.folder / "target" / f"{made.name}-1.0.dist-info")
    made.search("target")
    return module(made)


@layout
def the_files_of_an_egg_info(made):
    listed = {"installed-files.txt": f"../{made.name}/__init__.py\n../{made.name}/deep/code.py\nPKG-INFO\n"}
    made.distribution("target", record=False, about=f"{made.name}-1.0.egg-info", **listed)
    made.search("target")
    return module(made)


@layout
def a_folder_that_is_an_egg(made):
    made.write(f"site/{made.name}-1.0-py3.11.egg/{made.name}/deep/code.py", INSTALLED)
    made.search(f"site/{made.name}-1.0-py3.11.egg")
    return module(made)


@layout
def an_archive_that_is_an_egg(made):
    made.write(f"laid/{made.name}/__init__.py", "")
    made.write(f"laid/{made.name}/deep/code.py", INSTALLED)
    made.write(f"laid/{made.name}/deep/__init__.py", "")
    made.search(made.archive("laid", f"{made.name}-1.0-py3.11.egg"))
    return module(made)


@layout
def an_archive(made):
    made.distribution("laid", {f"{made.name}/__init__.py": INSTALLED})
    made.search(made.archive("laid", "libraries.zip"))
    return made.name


@layout
def a_folder_in_an_archive(made):
    made.distribution("laid", {f"{made.name}/__init__.py": INSTALLED})
    made.search(made.archive("laid", "libraries.zip", "lib/") / "lib")
    return made.name


@layout
def a_wheel(made):
    made.distribution("laid", {f"{made.name}/__init__.py": INSTALLED})
    made.search(made.archive("laid", f"{made.name}-1.0-py3-none-any.whl"))
    return made.name


@layout
def an_application_that_is_an_archive(made):
    made.distribution("laid", {f"{made.name}/__init__.py": INSTALLED})
    made.write("laid/__main__.py", OWN)
    made.search(made.archive("laid", "app.pyz"))
    return made.name


@layout
def an_overlay_of_uv(made):
    made.distribution("cache/uv/archive-v0/Ab3x/lib/python3.11/site-packages")
    made.search("cache/uv/archive-v0/Ab3x/lib/python3.11/site-packages")
    return module(made)


@layout
def an_archive_of_uv_that_is_linked_to(made):
    made.distribution("cache/uv/archive-v0/Ab3x")
    (made.folder / "env/site-packages").mkdir(parents=True)
    for one in (made.folder / "cache/uv/archive-v0/Ab3x").iterdir():
        (made.folder / "env/site-packages" / one.name).symlink_to(one)
    made.search("env/site-packages")
    return module(made)


@layout
def a_repository_of_bazel(made):
    made.distribution(f"train.runfiles/rules_python++pip+{made.name}/site-packages")
    made.search(f"train.runfiles/rules_python++pip+{made.name}/site-packages")
    return module(made)


@layout
def an_older_repository_of_bazel(made):
    made.distribution(f"external/pypi__{made.name}")
    (made.folder / "train.runfiles").mkdir()
    (made.folder / f"train.runfiles/pypi__{made.name}").symlink_to(made.folder / f"external/pypi__{made.name}")
    made.search("train.runfiles", f"train.runfiles/pypi__{made.name}")
    return module(made)


@layout
def a_folder_of_debian(made):
    made.write(f"usr/lib/python3/dist-packages/{made.name}/code.py", INSTALLED)
    made.search("usr/lib/python3/dist-packages")
    return module(made, "code")


@layout
def a_wheel_that_a_pex_has_unpacked(made):
    made.distribution(f"pex/installed_wheels/0/ab12/{made.name}-1.0-py3-none-any.whl")
    made.search(f"pex/installed_wheels/0/ab12/{made.name}-1.0-py3-none-any.whl")
    return module(made)


@edited
def a_pth_file_to_the_source(made):
    made.write(f"project/src/{made.name}/code.py", OWN)
    made.distribution("site-packages", {f"__editable__.{made.name}-1.0.pth": f"{made.folder}/project/src\n"})
    site.addsitedir(str(made.folder / "site-packages"))
    return module(made, "code")


@edited
def a_source_with_an_egg_info(made):
    made.write(f"project/{made.name}/code.py", OWN)
    made.write(f"project/{made.name}.egg-info/SOURCES.txt", f"{made.name}/code.py\n")
    made.write(f"project/{made.name}.egg-info/top_level.txt", made.name)
    made.search("project")
    return module(made, "code")


@edited
def a_link_in_a_folder_of_packages(made):
    made.write(f"project/{made.name}/code.py", OWN)
    url = '{"url": "file:///project", "dir_info": {"editable": true}}'
    made.distribution("site-packages", {}, **{"direct_url.json": url})
    (made.folder / f"site-packages/{made.name}").symlink_to(made.folder / f"project/{made.name}")
    made.search("site-packages")
    return module(made, "code")


@edited
def a_tree_of_links(made):
    made.write(f"project/src/{made.name}/code.py", OWN)
    tree = made.folder / f"project/build/__editable__.{made.name}-1.0-py3-none-any/{made.name}"
    tree.mkdir(parents=True)
    (tree / "code.py").symlink_to(made.folder / f"project/src/{made.name}/code.py")
    made.distribution("site-packages", {f"__editable__.{made.name}-1.0.pth": f"{tree.parent}\n"})
    site.addsitedir(str(made.folder / "site-packages"))
    return module(made, "code")


@edited
def a_finder(made):
    path = made.write(f"project/{made.name}/__init__.py", OWN)
    finder = f"""
        import sys
        from importlib.util import spec_from_file_location

        class Finder:
            @classmethod
            def find_spec(cls, name, path=None, target=None):
                return spec_from_file_location(name, {str(path)!r}) if name == {made.name!r} else None

        def install():
            sys.meta_path.append(Finder)
    """
    files = {f"__editable___{made.name}_finder.py": dedent(finder)}
    files[f"__editable__.{made.name}.pth"] = f"import {[*files][0][:-3]}; {[*files][0][:-3]}.install()\n"
    made.distribution("site-packages", files)
    site.addsitedir(str(made.folder / "site-packages"))
    return made.name


@edited
def beside_an_installed_package(made):
    made.distribution("project", {"other_of_" + made.name + "/__init__.py": ""}, about="other-1.dist-info")
    made.write(f"project/{made.name}/code.py", OWN)
    made.search("project")
    return module(made, "code")


@edited
def a_part_of_a_namespace(made):
    made.distribution("target", {f"{made.name}/theirs/code.py": INSTALLED})
    made.write(f"target/{made.name}/ours/code.py", OWN)
    made.search("target")
    return module(made, "ours.code")


@edited
def in_an_archive_without_a_distribution(made):
    made.write(f"laid/{made.name}.py", OWN)
    made.search(made.archive("laid", "job.zip"))
    return made.name


@edited
def the_main_file_of_an_archive(made):
    made.distribution("laid", {"other_" + made.name + "/__init__.py": ""})
    made.write(f"laid/{made.name}.py", OWN)
    made.search(made.archive("laid", "app.pyz"))
    return made.name


@pytest.fixture
def made(tmp_path, monkeypatch, request):
    """A layout whose modules have names of their own, and nothing of which is left."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    kept = {*sys.modules}
    name = "lay_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.callspec.id)
    yield Layout(tmp_path, name)
    for one in {*sys.modules} - kept:
        del sys.modules[one]


def imported(made, lays_out):
    name = lays_out(made)
    sys.path[:0] = made.searched
    importlib.invalidate_caches()
    return importlib.import_module(name)


def program(x, function):
    y = function(x)
    return y.sum()


@pytest.mark.parametrize("lays_out", LAYOUTS.values(), ids=LAYOUTS)
def test_what_is_installed_is_not_followed(made, lays_out):
    found = imported(made, lays_out)
    file = found.smooth.__code__.co_filename

    assert package(file).removesuffix(".py") == made.name
    assert list(bp.probe(program)(leaf(1.0), found.smooth)) == ["x", "y", "return"]
    assert "/smooth" not in str(bp.probe(program, "**")(leaf(1.0), found.smooth))
    with bp.probe() as rec:
        x = leaf(1.0)
        y = found.smooth(x)
        z = y.sum()
        z.backward()
    assert list(rec) == ["x", "y", "z"]


@pytest.mark.parametrize("lays_out", EDITED.values(), ids=EDITED)
def test_what_is_edited_is_followed(made, lays_out):
    found = imported(made, lays_out)

    rec = bp.probe(program, "**")(leaf(1.0), found.mine)

    assert package(found.mine.__code__.co_filename) is None
    if ".zip/" in found.__file__ or ".pyz/" in found.__file__:  # whose text is not read
        assert "mine was not followed: there is no source text for mine" in str(rec)
    else:
        assert "/mine:inner" in str(rec)


def test_there_are_layouts_enough():
    assert len(LAYOUTS) >= 25


@pytest.mark.parametrize("way", ["relative", "removed", "later"])
def test_it_is_known_whatever_becomes_of_the_path(made, way, monkeypatch):
    made.distribution("target", {f"first_{made.name}.py": INSTALLED}, about="first-1.dist-info")
    monkeypatch.chdir(made.folder)
    place = "target" if way == "relative" else str(made.folder / "target")
    sys.path.insert(0, place)
    first = importlib.import_module(f"first_{made.name}")
    if way == "removed":
        sys.path.remove(place)
    elif way == "relative":
        monkeypatch.chdir("/")

    assert package(first.smooth.__code__.co_filename) == f"first_{made.name}.py"
    if way == "later":  # as by a cell of a notebook
        os.utime(made.folder / "target", (1, 1))
        made.distribution("target")
        importlib.invalidate_caches()
        assert package(importlib.import_module(module(made)).smooth.__code__.co_filename) == made.name


def test_a_file_is_decided_once(made_counts):
    file, calls = made_counts
    package(file)
    before = len(calls)
    for _ in range(10):
        package(file)

    assert before and len(calls) == before


@pytest.fixture
def made_counts(tmp_path, monkeypatch):
    calls, stat = [], os.stat
    monkeypatch.setattr(os, "stat", lambda *given, **words: calls.append(given) or stat(*given, **words))
    monkeypatch.setattr(sys, "path_importer_cache", {**sys.path_importer_cache, str(tmp_path): None})
    return str(tmp_path / "some/file.py"), calls


# real libraries, in processes of their own


@pytest.fixture(scope="module")
def overlay(tmp_path_factory):
    return linked(tmp_path_factory.mktemp("overlay"))


BLOCK = """
    import opt_einsum, torch, backprobe as bp

    x = torch.tensor([[0.3, 0.1], [0.2, 0.0]], requires_grad=True)
    linear = torch.nn.Linear(2, 2)
    with bp.probe() as rec:
        p = opt_einsum.contract("ij,jk->ik", x, x)
        loss = linear(p).sum()
        loss.backward()
    print(list(rec), torch.__file__, opt_einsum.__file__)
"""


def test_a_block_has_the_programs_entries_alone(overlay, tmp_path):
    file = tmp_path / "train.py"
    file.write_text(dedent(BLOCK))

    found = run(file, overlay)

    assert found.startswith("['x', 'p', 'loss']"), found
    assert f"{overlay}/torch/__init__.py {overlay}/opt_einsum" in found


def test_a_virtual_environment_whose_packages_lie_elsewhere(overlay, tmp_path):
    venv.create(tmp_path / "env", with_pip=False)
    (places,) = (tmp_path / "env/lib").glob("python*/site-packages")
    (places / "more.pth").write_text(f"{overlay}\n")
    file = tmp_path / "train.py"
    file.write_text(dedent(BLOCK))

    found = run(file, overlay, python=tmp_path / "env/bin/python", paths=False)

    assert found.startswith("['x', 'p', 'loss']"), found


def test_a_script_is_explained(overlay, tmp_path):
    file = tmp_path / "train.py"
    file.write_text(
        dedent("""
        import torch

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.detach() * w
        y.sum().backward()
    """)
    )

    found = run(file, overlay, "-m", "backprobe", "explain")

    assert "`x.detach()` at train.py:6 cuts 'y' off from 'x'" in found
    assert "partially initialized" not in found


def test_a_copy_of_an_installed_distribution_is_one(tmp_path, monkeypatch):
    """As ``pip install --target`` leaves it."""
    (about,) = PACKAGES.glob("opt_einsum-*.dist-info")
    for one in (PACKAGES / "opt_einsum", about):
        subprocess.run(["cp", "-r", str(one), str(tmp_path)], check=True)
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] == "opt_einsum"}
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    contract = importlib.import_module("opt_einsum").contract
    x = torch.eye(2, requires_grad=True)

    def program(x):
        y = contract("ij,jk->ik", x, x)
        return y.sum()

    try:
        assert sys.modules["opt_einsum"].__file__ == f"{tmp_path}/opt_einsum/__init__.py"
        assert list(bp.probe(program, "**")(x)) == ["x", "y", "return"]
        assert package(sys.modules["opt_einsum.contract"].__file__) == "opt_einsum"
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "opt_einsum"]:
            del sys.modules[name]
        sys.modules.update(kept)
