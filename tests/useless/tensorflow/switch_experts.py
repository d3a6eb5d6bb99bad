# from: https://github.com/keras-team/keras-io/blob/master/examples/nlp/text_classification_with_switch_transformer.py
# truth: healthy: each sample goes to one expert, an expert may have none; the load loss is added
# kind: healthy
import keras
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(0)
router = layers.Dense(4)
experts = [keras.Sequential([layers.Dense(8, "relu"), layers.Dense(3)]) for _ in range(4)]
optimizer = keras.optimizers.Adam(0.01)
x = tf.random.normal((12, 5))
y = tf.argmax(x[:, :3], 1)
for step in range(3):
    with tf.GradientTape() as tape:
        p = tf.nn.softmax(router(x))
        chosen = tf.one_hot(tf.argmax(p, 1), 4)
        outputs = tf.stack([expert(x) for expert in experts], 1)
        logits = tf.einsum("be,beo->bo", chosen * p, outputs)
        load = 4 * tf.reduce_sum(tf.reduce_mean(chosen, 0) * tf.reduce_mean(p, 0))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)) + 0.01 * load
    variables = router.trainable_variables + [v for e in experts for v in e.trainable_variables]
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    print(step, float(loss))
