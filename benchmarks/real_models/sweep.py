"""Which models of the installed `transformers` (or `diffusers`) break their graphs, and where.

    python benchmarks/real_models/sweep.py [NAME ...] [--library diffusers] [--seconds 60]

For each configuration class that has a model: shrink its sizes, build a model of random weights,
call it uncompiled, then under ``torch.compile`` with a backend that only counts graphs.  One line
a model (graphs, breaks with code and place) and a sum by code at the end; models that do not run
with invented inputs are counted, not guessed at.  Each model runs in a fork with a time limit, and
nothing is downloaded.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import inspect
import io
import json
import logging
import os
import re
import signal
import sys
import warnings
from collections.abc import Collection
from typing import Any

import torch
import torch._dynamo as dynamo

#: Names of sizes in configurations, by the small value that they get.
SIZES = {
    32: """hidden_size d_model dim n_embd embed_dim embedding_size hidden_dim word_embed_proj_dim
        d_embed projection_dim encoder_hidden_size decoder_hidden_size attention_hidden_size
        image_size max_source_positions max_target_positions""",
    48: """intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim d_inner ffn_hidden_size
        dim_feedforward encoder_intermediate_size n_inner moe_intermediate_size
        shared_expert_intermediate_size mlp_dim""",
    2: """num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers
        num_encoder_layers num_decoder_layers depth num_blocks num_hidden_groups
        encoder_num_hidden_layers decoder_num_hidden_layers
        num_attention_heads n_head n_heads num_heads encoder_attention_heads
        decoder_attention_heads num_key_value_heads encoder_num_attention_heads
        num_experts_per_tok moe_topk top_k_experts n_group topk_group num_experts_per_token
        eos_token_id""",
    4: "num_experts num_local_experts n_routed_experts moe_num_experts num_queries",
    8: "qk_rope_head_dim kv_lora_rank q_lora_rank patch_size",
    16: """head_dim d_kv attention_head_size qk_nope_head_dim v_head_dim num_mel_bins
        encoder_seq_length""",
    64: "max_position_embeddings n_positions n_ctx",
    99: "vocab_size",
    0: "pad_token_id",
    1: "bos_token_id decoder_start_token_id",
}
SMALL = {name: value for value, names in SIZES.items() for name in names.split()}
HEADS = ("ForCausalLM", "ForConditionalGeneration", "ForSpeechSeq2Seq", "ForCTC",
         "ForObjectDetection", "ForImageClassification", "ForSequenceClassification",
         "ForPreTraining", "ForMaskedLM", "Model")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="model types; all by default")
    parser.add_argument("--library", choices=("transformers", "diffusers"), default="transformers")
    parser.add_argument("--seconds", type=int, default=60, help="time limit for a model")
    parser.add_argument("--train", action="store_true", help="models in training mode")
    options = parser.parse_args()
    models = transformers_models if options.library == "transformers" else diffusers_models
    found = models(options.names)
    codes: collections.Counter[str] = collections.Counter()
    ends: collections.Counter[str] = collections.Counter()
    for name, build in found.items():
        result = in_fork(build, options.seconds, options.train)
        ends[result["end"]] += 1
        for code in {item.split()[0] for item in result.get("breaks", ())}:
            codes[code] += 1
        print(f"{name:32} {result['end']:8} {result.get('graphs', '')!s:4}", end=" ")
        print("; ".join(result.get("breaks", [result.get("error", "")])), flush=True)
    print(dict(ends))
    for code, count in codes.most_common():
        print(f"{count:4} models  {code}")


def in_fork(build: Any, seconds: int, train: bool) -> dict[str, Any]:
    """What `look` says of one model, from a child process that is ended when it takes too long."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.alarm(seconds)
        try:
            result = look(build, train)
        except BaseException as error:
            text = " ".join(str(error).split())[:120]
            result = {"end": "skipped", "error": f"{type(error).__name__}: {text}"}
        os.write(write, json.dumps(result).encode()[:60000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answers:
        text = answers.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"end": "died"}


def look(build: Any, train: bool) -> dict[str, Any]:
    """Graphs and breaks of one model's call."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, calls = build()
    model.train(train)
    for call in calls:
        with contextlib.suppress(Exception), torch.no_grad():
            model(**call)
            break
    else:
        with torch.no_grad():
            model(**calls[0])
    graphs = [0]

    def count(module: torch.fx.GraphModule, _inputs: object) -> Any:
        graphs[0] += 1
        return module.forward

    seen = io.StringIO()
    logging.disable(logging.NOTSET)
    torch._logging.set_logs(graph_breaks=True)
    log = logging.getLogger("torch.__trace_breaks")
    handler = logging.StreamHandler(seen)
    for logger in (log, logging.getLogger("torch._dynamo.symbolic_convert.__graph_breaks")):
        logger.addHandler(handler)
    dynamo.reset()
    logging.disable(logging.NOTSET)
    try:
        with torch.no_grad():
            torch.compile(model, backend=count)(**call)
        end = "ran"
    except Exception as error:
        end = "failed"
        return {
            "end": end,
            "error": f"{type(error).__name__}: {' '.join(str(error).split())[:120]}",
        }
    breaks = places(seen.getvalue())
    return {"end": "breaks" if breaks or graphs[0] > 1 else "whole", "graphs": graphs[0],
            "breaks": breaks}  # fmt: skip


def places(log: str) -> list[str]:
    """``GB0170 modeling_x.py:12`` for each break in a log of ``TORCH_LOGS=graph_breaks``."""
    result = []
    for part in re.split(r"(?m)^Graph break in user code", log)[1:]:
        where = re.match(r" at (\S+):(\d+)", part)
        code = re.search(r"gb(\d+)\.html", part)
        place = f"{os.path.basename(where[1])}:{where[2]}" if where else "?"
        frames = re.findall(r'File "([^"]+)", line (\d+)', part)
        mine = [
            frame for frame in frames if "/transformers/" in frame[0] or "/diffusers/" in frame[0]
        ]
        if mine:
            place = f"{os.path.basename(mine[-1][0])}:{mine[-1][1]}"
        result.append(f"{'GB' + code[1] if code else 'other'} {place}")
    return list(dict.fromkeys(result))


# -- transformers ----------------------------------------------------------------------------


def transformers_models(only: Collection[str] = ()) -> dict[str, Any]:
    """By model type: a function that builds a small model and the calls to try."""
    import transformers

    logging.getLogger("transformers").setLevel(logging.ERROR)
    result = {}
    for name, config in sorted(
        transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES.items()
    ):
        if not only or name in only:
            result[name] = lambda config=config: _transformers_model(config)
    return result


def _transformers_model(config_name: str) -> tuple[torch.nn.Module, list[dict[str, Any]]]:
    import transformers

    config_class = getattr(transformers, config_name)
    stem = config_name.removesuffix("Config")
    names = [stem + head for head in HEADS if hasattr(transformers, stem + head)]
    if not names:
        raise LookupError(f"no model for {config_name}")
    model_class = getattr(transformers, names[0])
    config = shrunk(config_class)
    with torch.device("meta"):
        size = sum(value.numel() for value in model_class._from_config(config).parameters())
    if size > 30_000_000:
        raise MemoryError(f"{size // 1_000_000} million parameters after shrinking")
    model = model_class._from_config(config)
    return model, _calls(model, config)


def shrunk(config_class: Any) -> Any:
    """A configuration with small sizes, its parts included."""
    default = config_class()
    known = default.to_dict()
    changes = {key: value for key, value in SMALL.items() if isinstance(known.get(key), int)}
    for key in ("num_attention_heads", "num_key_value_heads"):
        if key in changes and known.get(key) == 0:
            del changes[key]
    for key, value in known.items():
        if isinstance(value, dict) and hasattr(getattr(default, key, None), "to_dict"):
            changes[key] = shrunk(type(getattr(default, key))).to_dict()
        elif key in ("layer_types", "mlp_layer_types") and isinstance(value, list):
            changes[key] = value[-2:] if len(set(value)) < 2 else list(dict.fromkeys(value))[:2]
    return config_class(**changes)


def _calls(model: torch.nn.Module, config: Any) -> list[dict[str, Any]]:
    """Inputs to try, most likely first."""
    text = getattr(config, "get_text_config", lambda: config)()
    names = inspect.signature(model.forward).parameters
    high = min(getattr(text, "vocab_size", None) or 99, 90)
    ids = torch.randint(3, high, (2, 8))
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "image_size", None) or 32
    side = side if isinstance(side, int) else side[0]
    given = {
        "input_ids": ids, "decoder_input_ids": ids, "attention_mask": torch.ones_like(ids),
        "pixel_values": torch.randn(2, getattr(vision, "num_channels", 3) or 3, side, side),
        "input_values": torch.randn(2, 4000),
        "input_features": torch.randn(2, getattr(config, "num_mel_bins", 16) or 16, 64),
    }  # fmt: skip
    takes = {key: value for key, value in given.items() if key in names}
    main = getattr(model, "main_input_name", "input_ids")
    plain = {key: value for key, value in takes.items() if key in (main, "decoder_input_ids")}
    both = {key: value for key, value in takes.items() if key in ("input_ids", "pixel_values")}
    ids_only = {key: value for key, value in takes.items() if key in ("input_ids",)}
    turned = {**plain}
    if "input_features" in turned:
        turned["input_features"] = turned["input_features"].transpose(1, 2).contiguous()
    return [plain, both, turned, takes, ids_only]


# -- diffusers -------------------------------------------------------------------------------


def diffusers_models(only: Collection[str] = ()) -> dict[str, Any]:
    """By class name: a function that builds a small model and the calls to try."""
    import diffusers

    result = {}
    for name in sorted({*dir(diffusers), *BY_HAND}):
        if only and name not in only:
            continue
        if name in BY_HAND:
            result[name] = lambda name=name: _by_hand(name)
            continue
        if name.endswith("Scheduler") and name not in ("Scheduler", "KarrasDiffusionSchedulers"):
            with contextlib.suppress(Exception):
                getattr(diffusers, name)
            result[name] = lambda name=name: _scheduler(name)
            continue
        if re.search(r"(Model|Transformer[123]D\w*|Autoencoder\w+)$", name):
            with contextlib.suppress(Exception):  # imported here once, or else in every fork
                getattr(diffusers, name)
            result[name] = lambda name=name: _diffusers_model(name)
    return result


#: Where small sizes of the same names do not fit: a configuration, and the call's tensors.
BY_HAND = {
    "UNet2DModel": (
        "sample_size=16, block_out_channels=(32, 32), layers_per_block=1, norm_num_groups=8, "
        "down_block_types=('DownBlock2D', 'AttnDownBlock2D'), "
        "up_block_types=('AttnUpBlock2D', 'UpBlock2D')",
        "sample=torch.randn(1, 3, 16, 16), timestep=torch.tensor([1])",
    ),
    "UNet2DConditionModel": (
        "sample_size=16, block_out_channels=(32, 32), layers_per_block=1, norm_num_groups=8, "
        "cross_attention_dim=16, attention_head_dim=8, "
        "down_block_types=('DownBlock2D', 'CrossAttnDownBlock2D'), "
        "up_block_types=('CrossAttnUpBlock2D', 'UpBlock2D')",
        "sample=torch.randn(1, 4, 16, 16), timestep=torch.tensor([1]), "
        "encoder_hidden_states=torch.randn(1, 6, 16)",
    ),
    "VQModel": ("norm_num_groups=8, sample_size=16", "sample=torch.randn(1, 3, 16, 16)"),
    "DiTTransformer2DModel": (
        "num_attention_heads=2, attention_head_dim=8, num_layers=1, sample_size=8, "
        "norm_num_groups=8, num_embeds_ada_norm=10, in_channels=4",
        "hidden_states=torch.randn(1, 4, 8, 8), timestep=torch.tensor([1]), "
        "class_labels=torch.tensor([2])",
    ),
    "FluxTransformer2DModel": (
        "in_channels=8, num_layers=1, num_single_layers=1, attention_head_dim=8, "
        "num_attention_heads=2, joint_attention_dim=16, pooled_projection_dim=16, "
        "axes_dims_rope=(2, 2, 4)",
        "hidden_states=torch.randn(1, 4, 8), encoder_hidden_states=torch.randn(1, 6, 16), "
        "pooled_projections=torch.randn(1, 16), timestep=torch.tensor([1.0]), "
        "img_ids=torch.zeros(4, 3), txt_ids=torch.zeros(6, 3)",
    ),
}  # fmt: skip


class Step(torch.nn.Module):
    """A scheduler's step as a module; each call begins anew."""

    def __init__(self, scheduler: Any) -> None:
        super().__init__()
        self.scheduler = scheduler

    def forward(self, **given: Any) -> Any:
        return self.scheduler.step(**given, return_dict=False)


def _scheduler(name: str) -> tuple[torch.nn.Module, list[dict[str, Any]]]:
    """A scheduler in the middle of its run, at a time that is a tensor, as pipelines have it."""
    import diffusers

    scheduler = getattr(diffusers, name)()
    scheduler.set_timesteps(10)
    time = scheduler.timesteps[2]
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(2)
    sample = torch.randn(1, 3, 8, 8)
    if hasattr(scheduler, "scale_model_input"):
        sample = scheduler.scale_model_input(sample, time)
    given = {"model_output": torch.randn(1, 3, 8, 8), "timestep": time, "sample": sample}
    return Step(scheduler), [given]


def _by_hand(name: str) -> tuple[torch.nn.Module, list[dict[str, Any]]]:
    import diffusers

    config, call = BY_HAND[name]
    model = eval(f"made({config})", {"made": getattr(diffusers, name)})
    return model, [eval(f"dict({call})", {"torch": torch})]


def _diffusers_model(name: str) -> tuple[torch.nn.Module, list[dict[str, Any]]]:
    import diffusers

    model_class = getattr(diffusers, name)
    parameters = inspect.signature(model_class.__init__).parameters
    small = {
        "sample_size": 16, "num_layers": 1, "num_attention_heads": 2, "attention_head_dim": 8,
        "cross_attention_dim": 16, "joint_attention_dim": 16, "caption_projection_dim": 16,
        "block_out_channels": (32, 32), "layers_per_block": 1, "norm_num_groups": 8,
        "num_single_layers": 1, "axes_dims_rope": (2, 2, 4), "pooled_projection_dim": 16,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "caption_channels": 16,
    }  # fmt: skip
    changes = {key: value for key, value in small.items() if key in parameters}
    if name.startswith("Autoencoder"):
        changes.pop("down_block_types", None)
        changes.pop("up_block_types", None)
        changes.pop("block_out_channels", None)
    with torch.device("meta"):
        size = sum(value.numel() for value in model_class(**changes).parameters())
    if size > 60_000_000:
        raise MemoryError(f"{size // 1_000_000} million parameters after shrinking")
    model = model_class(**changes)
    channels = getattr(model.config, "in_channels", 4) or 4
    given = {
        "sample": torch.randn(1, channels, 16, 16),
        "hidden_states": torch.randn(1, channels, 16, 16),
        "timestep": torch.tensor([1]),
        "encoder_hidden_states": torch.randn(1, 6, 16),
        "pooled_projections": torch.randn(1, 16),
        "x": torch.randn(1, channels, 16, 16),
    }
    names = inspect.signature(model.forward).parameters
    takes = {key: value for key, value in given.items() if key in names}
    video = {
        key: value[:, :, None] if key in ("sample", "hidden_states") else value
        for key, value in takes.items()
    }
    return model, [takes, video]


if __name__ == "__main__":
    sys.exit(main())
