# from: own
# ask: python
from jax.custom_derivatives import linear_call

import backprobe as bp


def off(x):
    u = x * 2
    y = linear_call(lambda r, v: v * 3, lambda r, c: c * 100, (), u)
    return y * y


def right(x):
    u = x * 2
    y = linear_call(lambda r, v: v * 3, lambda r, c: c * 3, (), u)
    return y * y


report = bp.check(off)(1.0)
assert not report.ok, report
assert "linear_call" in str(report), report
report = bp.check(right)(1.0)
assert report.ok and report.complete, report
assert not report.findings, report
