"""A block that a forked process leaves is not differentiated there: TensorFlow's threads are its parent's."""

import pytest

from commands import forked

FORKED = """
import os, signal
import tensorflow as tf
import backprobe as bp

def forks():
    x = tf.Variable([1.0, 2.0])
    with bp.probe() as rec:
        y = {computed}
        child = os.fork()
        if child == 0:
            signal.alarm(60)
        loss = tf.reduce_sum(y * y) if child else y
    return child, rec, x

child, rec, x = forks()
if child == 0:
    print(rec["y"].status, "-", rec["y"].reason, flush=True)
    os._exit(0)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), rec["y"].grad.shape, flush=True)
"""
COMPUTED = {
    "small": "x * 3.0",
    "for many threads": "tf.matmul(tf.ones((600, 2)), x[:, None])",
    "a convolution": "tf.nn.conv1d(tf.ones((8, 64, 2)), tf.ones((5, 2, 1)) * x[None, :, None], 1, 'SAME')",
}


@pytest.mark.parametrize("computed", COMPUTED.values(), ids=COMPUTED)
def test_a_child_that_leaves_a_block_does_not_differentiate(tmp_path, computed):
    script = tmp_path / "forks.py"
    script.write_text(FORKED.format(computed=computed))
    code, out, errors = forked("-W", "default", script, imported="tensorflow")
    assert code == 0, errors
    left, _, child = out.partition("\n")
    assert left == "backward_not_run - the block was left by a forked process, which cannot differentiate it"
    assert child.startswith("child 0 (")
