"""A speech model's training step: padding is taken out of the labels before the CTC loss."""

import torch
import torch.nn.functional as F
from torch import nn


def ctc_loss_op_in_python(log_probs, labels, labels_mask, lengths, target_lengths):
    with torch.backends.cudnn.flags(enabled=False):
        return torch.nn.functional.ctc_loss(
            log_probs,
            labels.masked_select(labels_mask),
            lengths // 2,
            target_lengths,
            blank=0,
            zero_infinity=True,
        )


@torch.library.custom_op("before::ctc_loss_op", mutates_args=())
def ctc_loss_op(log_probs: torch.Tensor, labels: torch.Tensor, labels_mask: torch.Tensor, lengths: torch.Tensor, target_lengths: torch.Tensor) -> torch.Tensor:
    return ctc_loss_op_in_python(log_probs, labels, labels_mask, lengths, target_lengths)


ctc_loss_op.register_fake(
    lambda log_probs, labels, labels_mask, lengths, target_lengths: log_probs.new_empty(())
)


@torch.library.custom_op("before::ctc_loss_op_backward", mutates_args=())
def ctc_loss_op_backward(log_probs: torch.Tensor, labels: torch.Tensor, labels_mask: torch.Tensor, lengths: torch.Tensor, target_lengths: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    # An operator's own code runs below autograd: this runs it again, for its gradient.
    _, pull = torch.func.vjp(lambda log_probs: ctc_loss_op_in_python(log_probs, labels, labels_mask, lengths, target_lengths), log_probs)
    (log_probs_grad,) = pull(gradient)
    return log_probs_grad.clone(memory_format=torch.contiguous_format)


ctc_loss_op_backward.register_fake(
    lambda log_probs, labels, labels_mask, lengths, target_lengths, gradient: torch.empty_like(log_probs, memory_format=torch.contiguous_format)
)


def ctc_loss_op_setup(ctx, inputs, output):
    log_probs, labels, labels_mask, lengths, target_lengths = inputs
    ctx.save_for_backward(log_probs, labels.clone(), labels_mask.clone(), lengths.clone(), target_lengths.clone())


def ctc_loss_op_gradient(ctx, gradient):
    log_probs, labels, labels_mask, lengths, target_lengths = ctx.saved_tensors
    found = ctc_loss_op_backward(log_probs, labels, labels_mask, lengths, target_lengths, gradient)
    return found, None, None, None, None


ctc_loss_op.register_autograd(ctc_loss_op_gradient, setup_context=ctc_loss_op_setup)


class Recognizer(nn.Module):
    def __init__(self, features=8, tokens=12, pad=-100):
        super().__init__()
        self.encoder = nn.Conv1d(features, 16, 3, stride=2, padding=1)
        self.head = nn.Linear(16, tokens)
        self.pad = pad

    def forward(self, audio, lengths: torch.Tensor, labels: torch.Tensor | None = None):
        hidden = F.gelu(self.encoder(audio.transpose(1, 2))).transpose(1, 2)
        logits = self.head(hidden)
        loss = None
        if labels is not None:
            labels_mask = labels != self.pad
            target_lengths = labels_mask.sum(-1)

            # the loss is not there for half precision
            log_probs = F.log_softmax(logits, dim=-1, dtype=torch.float32).transpose(0, 1)

            loss = ctc_loss_op(log_probs, labels, labels_mask, lengths, target_lengths)
        return logits, loss


torch.manual_seed(0)
model = torch.compile(Recognizer())
audio = torch.randn(3, 40, 8)
lengths = torch.tensor([40, 32, 36])
labels = torch.tensor([[3, 5, 5, -100], [1, 2, -100, -100], [7, 8, 9, 10]])
logits, loss = model(audio, lengths, labels)
loss.backward()
print(logits.shape, round(loss.item(), 3))
