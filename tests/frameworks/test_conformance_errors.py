"""Bad input gives the same message in every framework: what was asked, what was found, why, what to type next."""

import pytest

from asked import message
from refusals import REFUSALS

EACH = [
    pytest.param(refusal, id=refusal.call.__name__, marks=pytest.mark.supports(refusal.claim, "Bad input"))
    for refusal in REFUSALS
]


@pytest.mark.parametrize("refusal", EACH)
def test_the_message_for_bad_input(framework, refusal):
    text = message(refusal.kind, lambda: refusal.call(framework))
    assert refusal.says(text, framework.name), text


def test_every_message_says_what_to_type_next():
    assert [refusal.claim for refusal in REFUSALS if refusal.whole and "\n  next:  " not in refusal.text] == []
