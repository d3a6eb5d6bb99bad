"""DTensors: nothing is communicated for a probe, a guard or a watch, and one process may look alone."""

import json
from pathlib import Path

import pytest

import prepared
from commands import DISTRIBUTED, forked
from dtensor_blocks import FORMS, PLACEMENTS
from test_block_processes import free_port

HERE = Path(__file__).parent
PARTIAL = {name for name, placements in PLACEMENTS.items() if any(one.is_partial() for one in placements)}


@pytest.fixture(scope="module")
def found():
    """What ran under a fake process group, by placement and kind of net."""
    code, out, errors = forked("-W", "default", HERE / "dtensor_blocks.py", imported=DISTRIBUTED)
    assert code == 0, errors
    return dict(map(json.loads, out.splitlines()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_nothing_is_communicated(found, placement, form):
    for of in found[placement].values():
        assert of[form]["probed"] == of[form]["bare"]
        assert of[form].get("left", True)  # in .grad, bitwise, with its placements


@pytest.mark.parametrize("form", ["model", "model, twice", "model, .grad before"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_entry_of_a_parameter_is_what_backward_added(found, placement, form):
    for kind, of in found[placement].items():
        is_maximum = (placement, form, kind) == ("a maximum", "model, .grad before", "Direct")
        assert of[form]["said"] == (["opaque", "gradients_lie_apart"] if is_maximum else ["ok", ""])
        assert of[form]["is_said_right"]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_watch_has_rows_or_says_that_the_gradient_is_partial(found, placement):
    said = found[placement]["Direct"]["watch"]
    if placement in PARTIAL:
        assert (said["rows"], said["gaps"]) == (["param"], [["weight", "partial", ["grad"]]])
    else:
        assert (said["rows"], said["gaps"]) == (["grad", "param"], [])


def test_one_process_looks_alone():
    port = free_port()
    started = [prepared.start(DISTRIBUTED, HERE / "dtensor_processes.py", at, port) for at in (0, 1)]
    for ended in [process.ended() for process in started]:
        assert ended.stdout == "in_model ok\nin_block ok\nguarded ok\nwatched ok\n", ended.stdout + ended.stderr
