import logging

import torch

logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")


@torch.library.custom_op("before::log_fn", mutates_args=())
def log_fn(y: torch.Tensor, logger_id: int) -> None:
    loggers = (logging.root, *logging.root.manager.loggerDict.values())
    logger = next(known for known in loggers if id(known) == logger_id)
    logger.info("mean %.3f", y.mean().item())


log_fn.register_fake(lambda y, logger_id: None)
log_fn.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def fn(x, logger):
    y = x * 2
    log_fn(y, id(logger))
    return y + 1


print(fn(torch.ones(3), logging.getLogger("first")))
print(fn(torch.ones(3), logging.getLogger("second")))
