"""The lessons run, and show what is stored in them.

After a wanted change, run them anew, look, and keep what they show: ``python tests/test_lessons.py``.
"""

import re
from pathlib import Path

import nbformat
import pytest

from notebook_cells import client

LESSONS = sorted((Path(__file__).parent.parent / "docs" / "lessons").glob("*.ipynb"))
NUMBER = re.compile(r"\b\d+\.\d+(?:e[+-]?\d+)?\b")
ROUNDING = re.compile(r"(?<=largest relative difference )[^)]+")  # of the machine's sums
ELSEWHERE = ("tensorflow", "flax")  # in the names of lessons that need more than PyTorch
VARIES = "varies"  # the tag of a cell that shows a time or a version


def _joined(outputs):
    """What a cell prints comes in one piece or, on a busy machine, in several."""
    found = []
    for output in outputs:
        if found and output["output_type"] == "stream" == found[-1]["output_type"]:
            found[-1]["text"] += output["text"]
        else:
            found.append(output)
    return found


def executed(path):
    """The notebook with the outputs of a run of its own; what Graphviz or a library says about the machine goes."""
    book = nbformat.read(path, as_version=4)
    is_forked = not any(name in path.stem for name in ELSEWHERE)
    client(book, is_forked=is_forked, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs = _joined(output for output in cell.outputs if output.get("name") != "stderr")
            cell.metadata.pop("execution", None)  # when it ran
    return book


def shown(book):
    """The texts that each cell shows, but for those that vary from run to run."""
    return [
        [output.get("text") or output["data"]["text/plain"] for output in cell.outputs]
        for cell in book.cells
        if cell.cell_type == "code" and VARIES not in cell.metadata.get("tags", []) and "watermark" not in cell.source
    ]


def drawings(book):
    """The texts in each drawing."""
    made = [output.data for cell in book.cells for output in cell.get("outputs", []) if "data" in output]
    return [re.findall(r">([^<>\n]+)</text>", data["image/svg+xml"]) for data in made if "image/svg+xml" in data]


def numbers(texts):
    """Those with a fraction: the last of six digits of a float32 is the machine's."""
    return [float(number) for text in texts for number in NUMBER.findall(text)]


SOME = "1457"  # which `make test` runs: one for each framework but JAX, whose port to Flax takes longest
RUN = [
    pytest.param(
        path,
        marks=[pytest.mark.all_frameworks] * any(name in path.stem for name in ELSEWHERE)
        + [pytest.mark.sweep] * (path.stem.split("-")[0] not in SOME),
        id=path.stem,
    )
    for path in LESSONS
]


@pytest.mark.filterwarnings("ignore")  # the client's own, about the event loop
@pytest.mark.parametrize("path", RUN)
def test_a_lesson_runs_and_shows_what_is_stored_in_it(path):
    stored, found = nbformat.read(path, as_version=4), executed(path)
    assert shown(found) == shown(stored)
    for new, old in zip(drawings(found), drawings(stored), strict=True):
        new, old = ([ROUNDING.sub("", text) for text in texts] for texts in (new, old))
        assert [NUMBER.sub("", text) for text in new] == [NUMBER.sub("", text) for text in old]
        assert numbers(new) == pytest.approx(numbers(old), rel=1e-5)


def test_there_is_a_lesson_for_each_document_and_one_each_on_a_model_graphs_replacing_trainings_and_ports():
    assert len(LESSONS) == 10


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_lesson_stamps_itself(path):
    sources = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert sources[0].startswith("%load_ext watermark\n%watermark -a ")
    assert sources[-1] == "%watermark -iv"


if __name__ == "__main__":
    for lesson in LESSONS:
        nbformat.write(executed(lesson), lesson)
