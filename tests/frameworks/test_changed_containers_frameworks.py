"""A list or dict that the program changes, in TensorFlow and JAX."""

import pytest
from backends import JAX, TENSORFLOW

import backprobe as bp
from changed_containers import SAID


@pytest.mark.parametrize("framework", [TENSORFLOW, JAX], ids=str)
@pytest.mark.parametrize("program", SAID, ids=lambda program: program.__name__)
def test_items_are_known_by_what_they_are(framework, program):
    rec = bp.probe(program(framework.ops), backend=framework.name)(*(framework.given([1.0, 2.0]) for _ in range(3)))
    found = [[finding.kind for finding in bp.explain(rec, name, experiments=False).findings] for name in "wv"]
    assert found == [*SAID[program]]
