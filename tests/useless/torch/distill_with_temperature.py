# from: https://docs.pytorch.org/tutorials/beginner/knowledge_distillation_tutorial.html
# truth: healthy: softmax and log_softmax of the same scores at another temperature, the teacher is fixed
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4)).eval()
student = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
ce, T = nn.CrossEntropyLoss(), 2.0
x, y = torch.randn(48, 8), torch.randint(0, 4, (48,))
for epoch in range(4):
    optimizer.zero_grad()
    with torch.no_grad():
        teacher_logits = teacher(x)
    student_logits = student(x)
    soft_targets = nn.functional.softmax(teacher_logits / T, dim=-1)
    soft_prob = nn.functional.log_softmax(student_logits / T, dim=-1)
    soft_loss = torch.sum(soft_targets * (soft_targets.log() - soft_prob)) / len(x) * T**2
    loss = 0.25 * soft_loss + 0.75 * ce(student_logits, y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
