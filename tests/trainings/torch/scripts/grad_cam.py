"""Grad-CAM of a trained network, by hooks on a layer, after jacobgil/pytorch-grad-cam."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class ActivationsAndGradients:
    def __init__(self, model, target_layers):
        self.model = model
        self.gradients = []
        self.activations = []
        self.handles = []
        for target_layer in target_layers:
            self.handles.append(target_layer.register_forward_hook(self.save_activation))
            self.handles.append(target_layer.register_forward_hook(self.save_gradient))

    def save_activation(self, module, input, output):
        self.activations.append(output.cpu().detach())

    def save_gradient(self, module, input, output):
        def _store_grad(grad):
            self.gradients = [grad.cpu().detach(), *self.gradients]

        output.register_hook(_store_grad)

    def __call__(self, x):
        self.gradients = []
        self.activations = []
        return self.model(x)

    def release(self):
        for handle in self.handles:
            handle.remove()


class GradCAM:
    def __init__(self, model, target_layers):
        self.model = model.eval()
        self.activations_and_grads = ActivationsAndGradients(self.model, target_layers)

    def forward(self, input_tensor):
        outputs = self.activations_and_grads(input_tensor)
        target_categories = np.argmax(outputs.cpu().data.numpy(), axis=-1)
        self.model.zero_grad()
        loss = sum([output[category] for category, output in zip(target_categories, outputs)])
        loss.backward(retain_graph=True)
        activations = self.activations_and_grads.activations[-1].numpy()
        grads = self.activations_and_grads.gradients[-1].numpy()
        weights = np.mean(grads, axis=(2, 3))
        weighted_activations = weights[:, :, None, None] * activations
        cam = np.maximum(weighted_activations.sum(axis=1), 0)
        return cam / (1e-7 + cam.max())


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
        )
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.features(x)
        x = F.adaptive_avg_pool2d(x, 1)
        x = torch.flatten(x, 1)
        return self.fc(x)


model = CNN()
cam = GradCAM(model, [model.features[-1]])
cams = []
for image in torch.rand(3, 2, 3, 12, 12):  # each step: model
    grayscale_cam = cam.forward(image)
    cams.append(grayscale_cam)
    print(grayscale_cam.shape, float(grayscale_cam.mean()))
cam.activations_and_grads.release()
