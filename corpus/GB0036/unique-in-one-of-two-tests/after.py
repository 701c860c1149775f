from typing import Optional

import torch


@torch.library.custom_op("before::check_votes_op", mutates_args=())
def check_votes_op(votes: torch.Tensor, abstained: torch.types.Number | None) -> None:
    seen = torch.unique(votes)
    if abstained is None:
        wrong = ((seen != 0) & (seen != 1)).any()
    else:
        wrong = ((seen != 0) & (seen != 1) & (seen != abstained)).any()
    if wrong:
        raise RuntimeError(f"votes are 0, 1 or {abstained}, but there are {seen.tolist()}")


check_votes_op.register_fake(lambda votes, abstained: None)
check_votes_op.register_effect(torch.library.EffectType.ORDERED)


def check_votes(votes: torch.Tensor, abstained: Optional[int] = None) -> None:
    """Votes are 0 or 1, or say that somebody abstained."""
    check_votes_op(votes, abstained)


def share(weights: torch.Tensor, votes: torch.Tensor) -> torch.Tensor:
    check_votes(votes, abstained=-1)
    return (weights * (votes == 1)).sum() / (weights * (votes != -1)).sum()


compiled = torch.compile(share)
print(compiled(torch.ones(4), torch.tensor([0, 1, -1, 1])))
try:
    compiled(torch.ones(3), torch.tensor([0, 1, 7]))
except RuntimeError as error:
    print(error)
