# from: own
# truth: the class weights come of an integer division and are all 0, so the weighted loss and each gradient are 0
# kind: every zero
# names: class_weight weights
import keras
import numpy as np

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(90, 6)).astype("float32")
y = (x[:, 0] > 0.8).astype("int64")

counts = np.bincount(y)
weights = (counts.sum() - counts) // counts.sum()  # <- here
class_weight = {label: weight for label, weight in enumerate(weights)}

model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1, "sigmoid")])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy")
history = model.fit(x, y, batch_size=30, epochs=2, class_weight=class_weight, verbose=0)
print(history.history["loss"])
