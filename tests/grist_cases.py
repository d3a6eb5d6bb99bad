"""The numerical bugs of the 63 programs of GRIST, each written anew in a few lines: the pattern, and none of the code.

GRIST: Yan et al., "Exposing Numerical Bugs in Deep Learning via Gradient Back-Propagation", ESEC/FSE 2021. The
programs and their numbers are those of https://github.com/Jacob-yen/GRIST; where one has several bugs, a letter tells
them apart.

``python tests/grist_count.py`` runs all of them in each form and counts the lines, reasons and remedies that are right.
"""

from dataclasses import dataclass, field

LOGITS = {"x": [[1.0, 0.5]], "w": [[200.0, 0.0], [0.0, 0.0]], "b": [0.0, 0.0], "labels": [[0.0, 1.0]]}
THREE = {"x": [[1.0]], "w": [[0.0, 0.0, -200.0]], "b": [0.0, 0.0, 0.0], "labels": [[0.0, 0.0, 1.0]]}
BINARY = {"x": [[1.0], [0.0]], "w": [[200.0]], "b": [0.0], "labels": [[0.0], [1.0]]}
BELOW = {**BINARY, "w": [[-200.0]], "labels": [[1.0], [0.0]]}


@dataclass(frozen=True)
class Bug:
    """One bug: the line that carries ``# born`` (the birth that is looked for first), its reason, and its remedy.

    ``body`` computes ``loss`` from ``x, w, b, labels``; ``setup`` stands above it. ``instead`` is what the remedy
    writes.
    """

    key: str
    project: str
    framework: str
    body: str
    why: str
    instead: str
    numbers: dict = field(default_factory=lambda: LOGITS)
    setup: str = ""


def tf(key, project, body, why="log(0)", instead="tf.nn.log_softmax(", numbers=LOGITS, setup=""):
    return Bug(key, project, "tensorflow", body, why, instead, numbers, setup)


def torch(key, project, body, why="log(0)", instead="torch.log_softmax(", numbers=LOGITS, setup=""):
    return Bug(key, project, "torch", body, why, instead, numbers, setup)


OVERFLOW = "overflow: float32 ends at 3.40e38"
ROOT = "the derivative of sqrt is infinite at 0"
SIGMOID, SOFTPLUS = "torch.nn.functional.logsigmoid(", "torch.nn.functional.softplus("

DROPPED = """
hidden = tf.nn.relu(tf.matmul(x, tf.ones((2, 2))))
kept = tf.nn.dropout(hidden, rate=0.0)
prediction = tf.nn.softmax(tf.matmul(kept, w) + b)
loss = -tf.reduce_sum(labels * tf.math.log(prediction))  # born
"""
PLAIN = """
y = tf.nn.softmax(tf.matmul(x, w) + b)
cross_entropy = -tf.reduce_sum(labels * tf.math.log(y))  # born
loss = cross_entropy
"""
MEAN = """
y = tf.nn.softmax(tf.matmul(x, w) + b)
loss = tf.reduce_mean(-tf.reduce_sum(labels * tf.math.log(y), axis=[1]))  # born
"""
ONE_HOT = """
hypothesis = F.softmax(x.matmul(w) + b, dim=1)
loss = (labels * -torch.log(hypothesis)).sum(dim=1).mean()  # born
"""
LOGISTIC = """
hypothesis = torch.sigmoid(x.matmul(w) + b)
loss = -(labels * torch.log(hypothesis) +
         (1 - labels) * torch.log(1 - hypothesis)).mean()  # born
"""
FREE_ENERGY = """
wx_b = F.linear(x, w.t(), b)
hidden = wx_b.exp().add(1).log().sum(1)  # born
loss = (-hidden - x.mv(b[:1].expand(x.shape[1]))).mean()
"""
SOFTMAX_BY_HAND = """
def by_hand(logits):
    return tf.exp({0}) / tf.reduce_sum(tf.exp(logits), axis=1, keepdims=True)
"""
LAYER = "sigmoid = torch.nn.Sigmoid()\n"
LAYER_LOGISTIC = """
hypothesis = sigmoid(x @ w + b)
cost = -(labels * torch.log(hypothesis) + (1 - labels)
         * torch.log(1 - hypothesis)).mean()  # born
loss = cost
"""
LATENT = """
mean, log_sigma = tf.matmul(x, w) + b, tf.matmul(x, w) - b
z = tf.add(mean, tf.multiply(tf.sqrt(tf.exp(log_sigma)), labels))  # born
latent = -0.5 * tf.reduce_sum(1 + log_sigma - tf.square(mean) - tf.exp(log_sigma), 1)
loss = tf.reduce_mean(z) + tf.reduce_mean(latent)
"""
LATENT_ROOT = """
mean, log_sigma = tf.matmul(x, w) + b, tf.matmul(x, w)
scale = tf.clip_by_value(log_sigma, -110, 87)
z = tf.add(mean, tf.multiply(tf.sqrt(tf.exp(scale)), labels))  # born
loss = tf.reduce_sum(z)
"""
DOWN = {"x": [[1.0]], "w": [[-300.0, 0.0]], "b": [0.0, 0.0], "labels": [[1.0, 1.0]]}
UP = {"x": [[1.0]], "w": [[100.0, 0.0]], "b": [0.0, 0.0], "labels": [[1.0, 1.0]]}
SCALED = {"x": [[1.0, 2.0]], "w": [[0.0, 1.0], [0.0, 1.0]], "b": [0.0, 1.0], "labels": [[1.0, 1.0]]}
SCALE = """
def rescaled(x, w, gain):
    total = tf.reduce_sum(tf.abs(w), axis=0)
    every = tf.reshape(tf.tile(total, [tf.shape(x)[0]]), shape=[tf.shape(x)[0], tf.shape(w)[1]])
    y = tf.matmul(x, w)
    z = tf.divide(y, every){0}
    scale = tf.divide(every, gain){1}
    return tf.clip_by_value(z * gain, -1, 1), scale
"""
SCALED_LOSS = """
z, scale = rescaled(x, w, b)
loss = tf.reduce_sum(z) + tf.reduce_mean(scale)
"""

BUGS = [
    tf("1", "GitHub-IPS-1", DROPPED),
    tf("2a", "GitHub-IPS-6", """
output = tf.nn.softmax(tf.matmul(x, w) + b)
loss = -tf.reduce_mean(labels * tf.math.log(output) +  # born
                       (1 - labels) * tf.math.log(1 - output))
""", numbers=THREE),
    tf("2b", "GitHub-IPS-6", """
output = tf.nn.softmax(tf.matmul(x, w) + b)
loss = -tf.reduce_mean(labels * tf.math.log(tf.maximum(output, 1e-9)) +
                       (1 - labels) * tf.math.log(1 - output))  # born
""", instead="tf.reduce_logsumexp("),
    tf("3", "GitHub-IPS-9", """
activation = tf.nn.softmax(tf.matmul(x, w) + b)
cost = -tf.reduce_sum(labels * tf.math.log(activation))  # born
loss = cost / 2
"""),
    torch("4", "Pytorch_Geometric_Fork", """
mu, logvar = x @ w, x @ w + b
z = mu + torch.ones_like(logvar) * torch.exp(logvar)  # born
loss = z.sum()
""", OVERFLOW, "torch.exp(torch.clamp(", UP),
    torch("5", "MatchZoo", """
logits = torch.cat((x @ w, torch.zeros(1, 2)), dim=-1)
target = torch.cat((labels, torch.zeros(1, 2)), dim=-1)
loss = -torch.mean(
    torch.sum(target * torch.log(F.softmax(logits, dim=-1)), dim=-1)  # born
)
"""),
    tf("6", "StackOverFlow-1", DROPPED.replace("prediction", "y_conv")),
    tf("7", "StackOverFlow-2", """
y_conv = tf.nn.softmax(tf.add(tf.matmul(x, w), b))
cross_entropy = -tf.reduce_sum(labels * tf.math.log(y_conv))  # born
loss = cross_entropy
"""),
    tf("8", "StackOverFlow-6", DROPPED.replace("hidden", "h_fc1")),
    tf("9a", "StackOverFlow-7", """
h1 = tf.nn.sigmoid(tf.matmul(x, w))
y_ = tf.nn.sigmoid(tf.matmul(h1 - 0.5, w) * 2)
loss = tf.reduce_mean(tf.reduce_sum(
    - labels * tf.math.log(y_) - (1 - labels)
    * tf.math.log(1 - y_), 1))  # born
""", instead="tf.math.log_sigmoid(-", numbers=BINARY),
    tf("9b", "StackOverFlow-7", """
h1 = tf.nn.sigmoid(tf.matmul(x, w))
y_ = tf.nn.sigmoid(tf.matmul(h1 - 0.5, w) * -2)
loss = tf.reduce_mean(tf.reduce_sum(
    - labels * tf.math.log(y_) - (1 - labels)  # born
    * tf.math.log(1 - y_), 1))
""", instead="tf.math.log_sigmoid(", numbers=BINARY),
    tf("10", "StackOverFlow-14", PLAIN),
    tf("11a", "TensorFuzz", """
p = by_hand(tf.matmul(x, w) + b)
loss = -tf.reduce_sum(labels * tf.math.log(tf.clip_by_value(p, 1e-6, 1)), axis=1)
""", OVERFLOW, "tf.nn.softmax(",
       setup=SOFTMAX_BY_HAND.format("tf.clip_by_value(logits, -87, 87)").replace("=True)", "=True)  # born")),
    tf("11b", "TensorFuzz", """
p = by_hand(tf.matmul(x, w) + b)
loss = -tf.reduce_sum(labels * tf.math.log(p), axis=1)  # born
""", numbers=DOWN, setup=SOFTMAX_BY_HAND.format("logits")),
    tf("11c", "TensorFuzz", """
p = by_hand(tf.matmul(x, w) + b)
loss = -tf.reduce_sum(labels * tf.math.log(tf.clip_by_value(p, 1e-6, 1)), axis=1)
""", "0/0", "tf.nn.softmax(", {**DOWN, "b": [0.0, -200.0]},
       setup=SOFTMAX_BY_HAND.format("logits").replace("=True)", "=True)  # born")),
    torch("12", "Skorch", """
p = net(x @ w + b)
loss = F.nll_loss(torch.log(p), torch.tensor([1]))  # born
""", setup="""
class Classifier(torch.nn.Module):
    def forward(self, x):
        x = F.relu(x)
        x = F.softmax(x, dim=-1)
        return x

net = Classifier()
"""),
    torch("13", "Pytorch_Geometric", """
edges = (x @ w + b).flatten()
loss = scattered(edges, torch.tensor([0, 0])).sum()
""", OVERFLOW, "torch.exp(torch.clamp(", UP, setup="""
def scattered(src, index):
    out = src.exp()  # born
    out = out / torch.zeros(1).index_add(0, index, out)[index]
    return out
"""),
    tf("14", "MNIST", """
model = Model(x, labels)
loss = model.train(w, b)
""", setup="""
class Model:
    def __init__(self, x, label):
        self.x, self.label = x, label

    def train(self, w, b):
        self.y = tf.nn.softmax(tf.matmul(self.x, w) + b)
        self.loss = -tf.reduce_sum(self.label * tf.math.log(self.y))  # born
        return self.loss
"""),
    tf("15", "Tensorflow_Value_Iteration_Networks_V1", """
nn = tf.nn.softmax(tf.matmul(x, w) + b)
at = tf.stack([tf.range(1), tf.constant([1])], axis=1)
loss = -tf.reduce_mean(tf.gather_nd(tf.math.log(nn), [at]))  # born
"""),
    tf("16a", "FuzzForTensorflow", """
p = by_hand(tf.matmul(x, w) + b)
loss = -tf.reduce_sum(labels * tf.math.log(tf.abs(tf.clip_by_value(p, 1e-6, 1))), axis=1)
""", OVERFLOW, "tf.nn.softmax(",
       setup=SOFTMAX_BY_HAND.format("tf.clip_by_value(logits, -87, 87)").replace("=True)", "=True)  # born")),
    tf("16b", "FuzzForTensorflow", """
p = by_hand(tf.matmul(x, w) + b)
loss = -tf.reduce_sum(labels * tf.math.log(tf.abs(p)), axis=1)  # born
""", numbers=DOWN, setup=SOFTMAX_BY_HAND.format("logits")),
    tf("16c", "FuzzForTensorflow", """
p = by_hand(tf.matmul(x, w) + b)
loss = -tf.reduce_sum(labels * tf.math.log(tf.abs(p) + 1e-6), axis=1)
""", "0/0", "tf.nn.softmax(", {**DOWN, "b": [0.0, -200.0]},
       setup=SOFTMAX_BY_HAND.format("logits").replace("=True)", "=True)  # born")),
    tf("17", "TF_Unet", """
prediction = pixels(tf.reshape(tf.matmul(x, w) + b, (1, 1, 1, 2)))
both = tf.reduce_sum(prediction * labels)
union = 1e-5 + tf.reduce_sum(prediction) + tf.reduce_sum(labels)
loss = -(2 * both / union)
""", OVERFLOW, "tf.nn.softmax(", setup="""
def pixels(output):
    exponential = tf.exp(output)  # born
    total = tf.reduce_sum(exponential, 3, keepdims=True)
    every = tf.tile(total, tf.stack([1, 1, 1, tf.shape(output)[3]]))
    return tf.divide(exponential, every)
"""),
    tf("18", "Hands-On TensorFlow", """
y = tf.nn.softmax(tf.matmul(x, w) + b, name='y')
cross_entropy = tf.reduce_mean(-tf.reduce_sum(labels * tf.math.log(y), axis=[1]), name='cross_entropy')  # born
loss = cross_entropy
"""),
    tf("19", "Python-Tensorflow", """
prediction = layer(x, w, b)
loss = tf.reduce_mean(- tf.reduce_sum(labels * tf.math.log(prediction), axis=[1]))  # born
""", setup="""
def layer(data, weights, biases):
    with tf.name_scope("layer"):
        wx_plus_b = tf.nn.softmax(tf.matmul(data, weights) + biases)
    return wx_plus_b
"""),
    tf("20", "Tensorflow-Examples", MEAN.replace("y =", "pred =").replace("(y)", "(pred)").replace("[1]", "1")),
    tf("21", "Tensorflow-Examples-Tutorials-MNIST", PLAIN),
    torch("22", "git1_rbm", """
loss = RBM(w, b).free_energy(x)
""", OVERFLOW, SOFTPLUS, UP, setup="""
class RBM(torch.nn.Module):
    def __init__(self, w, b):
        super().__init__()
        self.W, self.h_bias = w.t(), b

    def free_energy(self, v):
        wx_b = F.linear(v, self.W, self.h_bias)
        hidden_term = wx_b.exp().add(1).log().sum(1)  # born
        return (-hidden_term).mean()
"""),
    torch("23", "pytorch_tu", ONE_HOT.replace("x.matmul(w) + b", "z").replace("\nhyp", "\nz = x @ w\nhyp")),
    tf("24", "Tensorflow_Gesture_Demo", """
h = tf.nn.relu(x)
y = tf.nn.softmax(tf.matmul(h,w)+b)
loss = -tf.reduce_sum(labels * tf.math.log(y))  # born
"""),
    tf("25", "Tensorflow_MNIST", MEAN),
    torch("26", "PyTorchDeepLearningStart.0401_logistic_regression", LOGISTIC, instead=SIGMOID, numbers=BINARY),
    torch("27", "PyTorchDeepLearningStart.0503_softmax_regression_cost", """
z = x @ w + b
hypothesis = F.softmax(z, dim=1)
target = torch.zeros_like(hypothesis)
target.scatter_(1, torch.tensor([[1]]), 1)
loss = (target * -torch.log(hypothesis)).sum(dim=1).mean()  # born
"""),
    tf("28a", "SC_DNN", SCALED_LOSS, "0/0", "", SCALED, SCALE.format("  # born", "")),
    tf("28b", "SC_DNN", SCALED_LOSS, "division by zero", "", {**SCALED, "w": [[1.0, 1.0], [1.0, 1.0]]},
       SCALE.format("", "  # born")),
    tf("28c", "SC_DNN", """
limit = tf.reduce_max(w)
ratio = tf.divide(w, limit)  # born
loss = tf.reduce_sum(tf.multiply(x, ratio))
""", "0/0", "", {**SCALED, "w": [[0.0, 0.0], [0.0, 0.0]]}),
    tf("28d", "SC_DNN", """
y = tf.divide(tf.add(x, tf.divide(labels, b)), 2)  # born
loss = tf.reduce_sum(y) + tf.reduce_sum(w)
""", "division by zero", "", SCALED),
    tf("29", "MachineLearning", DROPPED.replace("prediction", "y_conv").replace("* tf", "*tf")),
    tf("30", "Tensorflow_In_MachineLearning", PLAIN.replace("cross_entropy", "entropy")),
    tf("31", "GAN_MNIST", """
d_real, d_fake = tf.sigmoid(tf.matmul(x, w) + b), tf.sigmoid(tf.matmul(x, w) - b)
d_loss = - tf.reduce_mean(tf.math.log(d_real) + tf.math.log(1. - d_fake + 1e-8))  # born
loss = d_loss
""", instead="tf.math.log_sigmoid(", numbers=BELOW),
    torch("32", "PyTorchDeepLearningStart.0504_softmax_regression", ONE_HOT.replace("sum(dim=1)", "sum()")),
    torch("33", "TodayILearned.logistic_classification", LOGISTIC.replace("hypothesis", "p"), instead=SIGMOID,
          numbers=BINARY),
    torch("34", "TodayILearned.softmax_classification", ONE_HOT),
    tf("35a", "deep_learning_Nikolenko_and_Co.ch10_04_01", """
recon = tf.nn.sigmoid(tf.add(tf.matmul(x, w), b))
rows = -tf.reduce_sum(labels * tf.math.log(recon + 1e-10) + (1 - labels) * tf.math.log(1e-10 + 1 - recon), 1)  # born
loss = tf.reduce_mean(rows)
""", instead="tf.math.log_sigmoid(-", numbers=BINARY),
    tf("35b", "deep_learning_Nikolenko_and_Co.ch10_04_01", LATENT_ROOT, ROOT, "tf.exp(", DOWN),
    tf("36a", "deep_learning_Nikolenko_and_Co.ch10_04_03_Pic_10_05", LATENT, OVERFLOW, "tf.exp(",
       UP),
    tf("36b", "deep_learning_Nikolenko_and_Co.ch10_04_03_Pic_10_05", LATENT_ROOT.replace("scale", "clipped"), ROOT,
       "tf.exp(", DOWN),
    torch("37", "MachineLearning.lab05", LAYER_LOGISTIC, instead=SIGMOID, numbers=BINARY, setup=LAYER),
    torch("38", "MachineLearning.lab09", LAYER_LOGISTIC.replace("sigmoid(x @ w + b)", "model(x @ w)"), instead=SIGMOID,
          numbers=BINARY, setup="model = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Sigmoid())\n"),
    tf("39a", "deep_learning_Nikolenko_and_Co.ch10_04_04_Pic_10_06", """
log_sigma = tf.matmul(x, w)
z = tf.add(b, tf.multiply(tf.sqrt(tf.exp(log_sigma)), labels))  # born
loss = tf.reduce_sum(z)
""", OVERFLOW, "tf.exp(", UP),
    tf("39b", "deep_learning_Nikolenko_and_Co.ch10_04_04_Pic_10_06", """
log_sigma = tf.matmul(x, w)
z = tf.add(b, tf.multiply(tf.sqrt(tf.exp(log_sigma)), labels))  # born
loss = tf.reduce_sum(z)
""", ROOT, "tf.exp(", DOWN),
    tf("40", "ml_plactice.bmi", PLAIN),
    tf("41", "ml_plactice.tb_bmi", PLAIN.replace("x, w) + b", "x, w)")),
    tf("42", "ml_plactice.tb_bmi2", """
with tf.name_scope("layer"):
    y = tf.nn.softmax(tf.matmul(x, w) + b)
with tf.name_scope("loss"):
    loss = -tf.reduce_sum(labels * tf.math.log(y))  # born
"""),
    tf("43a", "deep_learning_Nikolenko_and_Co.ch10_04_05_Pic_10_07", LATENT, OVERFLOW, "tf.exp(",
       UP),
    tf("43b", "deep_learning_Nikolenko_and_Co.ch10_04_05_Pic_10_07", """
log_sigma = tf.matmul(x, w)
std = tf.sqrt(  # born
    tf.exp(log_sigma))
loss = tf.reduce_sum(b + std * labels)
""", ROOT, "tf.exp(", DOWN),
    tf("44", "CNNRelationExtraction", """
cnn = Cnn(labels)
cnn.build(x, w, b)
loss = cnn.cross_entropy()
""", setup="""
class Cnn:
    def __init__(self, y_):
        self.y_ = y_

    def build(self, x, w, b):
        self.y_conv = tf.nn.softmax(tf.matmul(tf.nn.relu(x), w) + b)

    def cross_entropy(self):
        return -tf.reduce_sum(self.y_ * tf.math.log(self.y_conv))  # born
"""),
    tf("45a", "DataStructure", MEAN),
    tf("45b", "DataStructure", """
fc = tf.matmul(tf.nn.relu(x), w) + b
y_cnn = tf.nn.softmax(fc)
loss = tf.reduce_mean(-tf.reduce_sum(labels * tf.math.log(y_cnn), axis=[1]))  # born
"""),
    torch("46", "Study.torch20_softmax", ONE_HOT.replace("x.matmul(w) + b", "x @ w")),
    torch("47", "Study.torch21_Softmax_Reg1", ONE_HOT),
    tf("48a", "Dive_python", MEAN),
    tf("48b", "Dive_python", DROPPED.replace("(prediction))", "(prediction), axis=1)")),
    tf("49a", "deep_learning_Nikolenko_and_Co.ch10_04_06_Pic_10_08", LATENT, OVERFLOW, "tf.exp(",
       UP),
    tf("49b", "deep_learning_Nikolenko_and_Co.ch10_04_06_Pic_10_08", LATENT_ROOT, ROOT, "tf.exp(", DOWN),
    tf("50", "ImportantProjects", MEAN),
    torch("51", "RBM", FREE_ENERGY, OVERFLOW, SOFTPLUS, UP),
    tf("52", "karch", MEAN.replace(", axis=[1]", "")),
    torch("53", "DataScience.h02", """
hypothesis = torch.sigmoid(torch.mm(x, w) + b)
loss = torch.mean(-labels * torch.log(hypothesis) - (1 - labels) * torch.log(1 - hypothesis))  # born
""", instead=SIGMOID, numbers=BINARY),
    torch("54", "DataScience.h03", """
hypothesis = torch.softmax(torch.mm(x, w) + b, dim=1)
loss = -torch.mean(torch.sum(labels * torch.log(hypothesis), dim=1))  # born
"""),
    tf("55", "practice", DROPPED.replace("loss = -tf.reduce_sum(labels * tf.math.log(prediction))",
                                         "loss = tf.reduce_mean(-tf.reduce_sum(labels * tf.math.log(prediction), 1))")),
    torch("56", "start_beginner_kaggle.01", LOGISTIC.replace("x.matmul(w)", "x @ w"), instead=SIGMOID, numbers=BINARY),
    torch("57", "start_beginner_kaggle.03", ONE_HOT),
    tf("58", "pytest", DROPPED.replace("prediction", "y_conv")),
    tf("59", "tensorflow_book", """
net = Net(x, labels)
net.forward(w, b)
loss = net.get_loss()
""", setup="""
class Net:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def forward(self, w, b):
        self.full = tf.matmul(self.x, w) + b
        self.pred = tf.nn.softmax(self.full, name='y_pred')

    def get_loss(self):
        tf.clip_by_value(self.pred, 1e-15, 1.0)
        cross_entropy = tf.reduce_mean(-tf.reduce_sum(self.y * tf.math.log(self.pred), axis=1))  # born
        return cross_entropy
"""),
    tf("60", "tensorflow_test", PLAIN),
    tf("61", "tensorflow_project", DROPPED.replace("prediction", "y")),
    torch("62", "gongdols.denoising_RBM", """
wx_b = F.linear(x, w.t(), b)
temp = torch.log(torch.exp(wx_b) + 1)  # born
hidden_term = torch.sum(temp, dim=1)
loss = (-hidden_term).mean()
""", OVERFLOW, SOFTPLUS, UP),
    torch("63", "gongdols.main", """
wx_b = F.linear(x, w.t(), b)
temp = torch.log(
    torch.exp(wx_b) + 1  # born
)
hidden_term = torch.sum(temp, dim=1)
loss = (-hidden_term).mean()
""", OVERFLOW, SOFTPLUS, UP),
]  # fmt: skip
