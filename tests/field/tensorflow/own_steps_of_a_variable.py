# from: own
# ask: explain PROGRAM --steps 3
# says: ran 3 steps
# never: got no gradient
import sys

import tensorflow as tf

steps = int(sys.argv[sys.argv.index("--steps") + 1]) if "--steps" in sys.argv else 2
w = tf.Variable([[1.0], [2.0]], name="w")
print("ran", steps, "steps")
for _ in range(steps):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.constant([[1.0, -1.0], [0.5, 2.0]]) @ w - 1.0) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
