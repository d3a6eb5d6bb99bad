"""Every program and every refusal of the suite on PyTorch alone, so that it runs on every Python that is supported."""

import pytest

from asked import message
from programs import PROGRAMS
from programs.agreement import check
from refusals import REFUSALS
from torch_framework import TORCH


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"{program.section}-{program}")
def test_what_a_recording_says(program):
    check(program, TORCH, program.record(TORCH))


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.call.__name__)
def test_the_message_for_bad_input(refusal):
    assert refusal.says(message(refusal.kind, lambda: refusal.call(TORCH)), "torch")
