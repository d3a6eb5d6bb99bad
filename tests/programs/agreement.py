"""Does a recording say what its program states?"""

from torch_framework import close


def numbers(framework, value):
    return framework.numpy(value) if hasattr(value, "shape") else value


def check(program, framework, rec):
    """Does a recording say what the program states: these entries in this order, and no other?"""
    assert list(rec) == list(program.wanted)
    for name, (value, gradient) in program.wanted.items():
        entry = rec[name]
        status = gradient if isinstance(gradient, str) else "ok"
        assert entry.status == status, f"{name} is {entry.status}: {entry.reason}"
        found = numbers(framework, entry.value)
        if value is None or isinstance(value, bool):
            assert found is value, name
        else:
            assert close(found, value, program.tolerance), f"{name} is {found} and not {value}"
        if status == "ok":
            found = framework.numpy(entry.grad)
            assert close(found, gradient, program.tolerance), f"the gradient of {name} is {found} and not {gradient}"
            assert type(entry.grad) is type(framework.tensor(0.0))
            assert (found.shape, entry.grad.dtype) == (entry.shape, entry.value.dtype), name
    for reading, name in program.readings.items():
        assert rec[reading] is rec[name], f"{reading} is {rec[reading].name} and not {name}"
