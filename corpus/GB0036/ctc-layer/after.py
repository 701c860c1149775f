"""A CTC loss that a layer computes, on padded targets."""

import torch
from torch import nn


def ctc_loss_op_in_python(scores, text, widths, text_lengths, blank, reduction, zero_infinity):
    return torch.nn.functional.ctc_loss(
        scores,
        text,
        widths,
        text_lengths,
        blank=blank,
        reduction=reduction,
        zero_infinity=zero_infinity,
    )


@torch.library.custom_op("before::ctc_loss_op", mutates_args=())
def ctc_loss_op(scores: torch.Tensor, text: torch.Tensor, widths: torch.Tensor, text_lengths: torch.Tensor, blank: torch.types.Number, reduction: str, zero_infinity: torch.types.Number) -> torch.Tensor:
    return ctc_loss_op_in_python(scores, text, widths, text_lengths, blank, reduction, zero_infinity)


@ctc_loss_op.register_fake
def _(scores, text, widths, text_lengths, blank, reduction, zero_infinity):
    return scores.new_empty(scores.shape[1:-1] if reduction == "none" else ())


@torch.library.custom_op("before::ctc_loss_op_backward", mutates_args=())
def ctc_loss_op_backward(scores: torch.Tensor, text: torch.Tensor, widths: torch.Tensor, text_lengths: torch.Tensor, blank: torch.types.Number, reduction: str, zero_infinity: torch.types.Number, gradient: torch.Tensor) -> torch.Tensor:
    # An operator's own code runs below autograd: this runs it again, for its gradient.
    _, pull = torch.func.vjp(lambda scores: ctc_loss_op_in_python(scores, text, widths, text_lengths, blank, reduction, zero_infinity), scores)
    (scores_grad,) = pull(gradient)
    return scores_grad.clone(memory_format=torch.contiguous_format)


ctc_loss_op_backward.register_fake(
    lambda scores, text, widths, text_lengths, blank, reduction, zero_infinity, gradient: torch.empty_like(scores, memory_format=torch.contiguous_format)
)


def ctc_loss_op_setup(ctx, inputs, output):
    scores, text, widths, text_lengths, blank, reduction, zero_infinity = inputs
    ctx.save_for_backward(scores, text.clone(), widths.clone(), text_lengths.clone())
    ctx.blank = blank
    ctx.reduction = reduction
    ctx.zero_infinity = zero_infinity


def ctc_loss_op_gradient(ctx, gradient):
    scores, text, widths, text_lengths = ctx.saved_tensors
    found = ctc_loss_op_backward(scores, text, widths, text_lengths, ctx.blank, ctx.reduction, ctx.zero_infinity, gradient)
    return found, None, None, None, None, None, None


ctc_loss_op.register_autograd(ctc_loss_op_gradient, setup_context=ctc_loss_op_setup)


class Reader(nn.Module):
    def __init__(self, letters=10):
        super().__init__()
        self.lines = nn.Linear(6, letters)
        self.ctc = nn.CTCLoss(blank=letters - 1, reduction="sum", zero_infinity=True)

    def forward(self, columns, text, text_lengths: torch.Tensor):
        scores = self.lines(columns).log_softmax(-1).transpose(0, 1)
        widths = torch.full((columns.shape[0],), columns.shape[1])
        return ctc_loss_op(scores, text, widths, text_lengths, self.ctc.blank, self.ctc.reduction, self.ctc.zero_infinity) / columns.shape[0]


torch.manual_seed(0)
reader = torch.compile(Reader())
loss = reader(torch.randn(2, 20, 6), torch.tensor([[1, 2, 3], [4, 4, 0]]), torch.tensor([3, 2]))
loss.backward()
print(round(loss.item(), 3))
