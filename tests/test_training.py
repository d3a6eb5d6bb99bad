"""Well-known training programs, as their public examples write them: unmoved under a probe, and found to be well.

The programs are the scripts in ``tests/trainings/torch/scripts``; ``training_forms`` puts a probe around each of their
steps. Of a program that is well there are no findings, but for what ``SAID`` states.
"""

import pytest

import backprobe as bp
import training_forms
from goldens import golden
from sampled import without
from training_forms import HERE

PROGRAMS = sorted(path.stem for path in HERE.glob("*.py"))
SAID = {
    # the first step multiplies A by B, which begins as zero: A gets its gradient from the second step on
    ("lora", "model"): {"zero_gradient"},
    # most steps run no backward(), and no gradient ever goes to the target network, or to the choice of an action
    ("dqn", "policy_net"): {"backward_not_run", "no_grad"},
    ("dqn", "target_net"): {"backward_not_run", "no_grad"},
}
"""What is said of a program's models, and is so."""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """What each program leaves by itself, the second time that it runs."""
    known = {}

    def of(name, text):
        if name not in known:
            path = tmp_path_factory.mktemp("bare") / f"{name}.py"
            first, known[name] = training_forms.run(text, path), training_forms.run(text, path)
            assert first.left == known[name].left
        return known[name]

    return of


def read(name):
    return (HERE / f"{name}.py").read_text()


FORMS = [(name, model) for name in PROGRAMS for model in ["", *training_forms.models(read(name))]]


@pytest.mark.parametrize(
    ("name", "model", "nonfinite"),
    [
        pytest.param(
            *form,
            nonfinite,
            marks=[pytest.mark.sweep] * (nonfinite and form[1] != ""),
            id="-".join([*form, "nonfinite" if nonfinite else "gradients"]),
        )
        for form in FORMS
        for nonfinite in (False, True)
    ],
)
def test_a_block_around_each_step(name, model, nonfinite, bare, tmp_path):
    text = read(name)
    ran = training_forms.run(training_forms.with_block(text, model), tmp_path / f"{name}.py", nonfinite=nonfinite)
    assert moved(ran, bare(name, text)) == []
    for recording in ran.recordings:
        found = [*bp.explain(recording).findings, *([] if nonfinite else bp.health(recording).findings)]
        assert [str(one) for one in found if one.kind not in SAID.get((name, model), ())] == []


def moved(ran, bare):
    """What a program left or printed otherwise than without a probe."""
    names = [name for name in {**bare.left, **ran.left} if bare.left.get(name) != ran.left.get(name, "nothing")]
    return names + (["what it printed"] if ran.printed != bare.printed else [])


@pytest.mark.parametrize(("name", "model"), FORMS, ids=lambda part: part or "block")
def test_a_guard_around_each_step(name, model, bare, tmp_path):
    text = read(name)
    guarded = training_forms.with_guard(text, model)
    assert f"guarding({model}):" in guarded
    assert moved(training_forms.run(guarded, tmp_path / f"{name}.py"), bare(name, text)) == []


OBJECTIVES = [name for name in PROGRAMS if training_forms.has_objective(read(name))]


@pytest.mark.parametrize("nonfinite", [False, True], ids=["gradients", "nonfinite"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_function_that_gives_the_loss(name, nonfinite, bare, tmp_path):
    """It runs under a probe, and then again for the program: that must not know."""
    text = read(name)
    ran = training_forms.run(training_forms.with_probe(text), tmp_path / f"{name}.py", nonfinite=nonfinite)
    assert ran.recordings
    assert moved(ran, bare(name, text)) == []
    assert [str(finding) for recording in ran.recordings for finding in bp.explain(recording).findings] == []


@pytest.mark.parametrize("name", without(PROGRAMS, "gpt", "ddpm", "seq2seq", "dcgan"))
def test_the_script_to_its_end(name, bare, tmp_path):
    text = read(name)
    ran, status = training_forms.explained(text, tmp_path / f"{name}.py", "--nonfinite")
    *printed, answer = ran.printed.splitlines(keepends=True)
    assert status == 0
    golden("explain", answer.split(":")[0])
    ran.printed = "".join(printed)
    assert moved(ran, bare(name, text)) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_script_to_its_first_backward(name, tmp_path):
    ran, status = training_forms.explained(read(name), tmp_path / f"{name}.py")
    assert status == 0, ran.printed
