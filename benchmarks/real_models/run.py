"""gbfix on real models: tiny random-weight models of an installed `transformers`, row by row.

    pip install transformers==4.52.4
    python benchmarks/real_models/run.py [ROW ...] [--work FOLDER]

The package's source is copied into the work folder and put first on the path, so that it is project
code which may be patched; site-packages is never touched. Each row is one program: it builds a
model from a small configuration, compiles it and calls it. The table shows graph breaks before and
after, graphs before and after, codemods, safety, and gbfix's own seconds. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: Row -> model class, configuration class, its small sizes, the call, half precision or not.
SIZES = {
    "bart": (
        "d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, "
        "decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32"
    ),
    "t5": (
        "d_model=16, d_kv=4, d_ff=32, num_layers=1, num_decoder_layers=1, num_heads=2, "
        "decoder_start_token_id=0"
    ),
}
TEXT = "input_ids=ids, decoder_input_ids=ids"
ROWS: dict[str, tuple[str, str, str, str, bool]] = {
    "t5": ("T5ForConditionalGeneration", "T5Config", f"vocab_size=64, {SIZES['t5']}", TEXT, False),
    "t5-fp16": (
        "T5ForConditionalGeneration", "T5Config", f"vocab_size=64, {SIZES['t5']}", TEXT, True,
    ),
    "bart": (
        "BartForConditionalGeneration", "BartConfig",
        f"vocab_size=64, max_position_embeddings=32, {SIZES['bart']}", TEXT, False,
    ),
    "bart-fp16": (
        "BartForConditionalGeneration", "BartConfig",
        f"vocab_size=64, max_position_embeddings=32, {SIZES['bart']}", TEXT, True,
    ),
    "marian": (
        "MarianMTModel", "MarianConfig",
        f"vocab_size=64, pad_token_id=0, max_position_embeddings=32, {SIZES['bart']}", TEXT, False,
    ),
    "marian-fp16": (
        "MarianMTModel", "MarianConfig",
        f"vocab_size=64, pad_token_id=0, max_position_embeddings=32, {SIZES['bart']}", TEXT, True,
    ),
    "blenderbot": (
        "BlenderbotForConditionalGeneration", "BlenderbotConfig",
        f"vocab_size=64, max_position_embeddings=32, {SIZES['bart']}", TEXT, False,
    ),
    "blenderbot-fp16": (
        "BlenderbotForConditionalGeneration", "BlenderbotConfig",
        f"vocab_size=64, max_position_embeddings=32, {SIZES['bart']}", TEXT, True,
    ),
    "pegasus-causal": (
        "PegasusForCausalLM", "PegasusConfig",
        f"vocab_size=64, max_position_embeddings=32, {SIZES['bart']}", "input_ids=ids", False,
    ),
    "whisper": (
        "WhisperForConditionalGeneration", "WhisperConfig",
        "vocab_size=64, num_mel_bins=8, max_source_positions=8, max_target_positions=16, "
        "pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, "
        + SIZES["bart"],
        "input_features=torch.randn(2, 8, 16), decoder_input_ids=ids", False,
    ),
    "biogpt": (
        "BioGptForCausalLM", "BioGptConfig",
        "vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, "
        "intermediate_size=32, max_position_embeddings=32",
        "input_ids=ids", False,
    ),
}  # fmt: skip

PROGRAM = """
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "src"))
import torch
from transformers import {config}, {model}

torch.manual_seed(0)
model = {model}({config}({sizes})).eval(){half}
compiled = torch.compile(model)
ids = torch.randint(3, 64, (2, 5))
with torch.no_grad():
    out = compiled({call})
print(tuple(out.logits.shape))
"""


def program(row: str) -> str:
    model, config, sizes, call, half = ROWS[row]
    return PROGRAM.format(
        model=model, config=config, sizes=sizes, call=call, half=".half()" if half else ""
    ).lstrip()


def prepare(folder: Path) -> str:
    """Copy the installed package's source into the work folder; its version."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("transformers is not installed; try: pip install transformers==4.52.4")
    source = Path(next(iter(spec.submodule_search_locations)))
    target = folder / "src" / "transformers"
    if not target.exists():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pyproject.toml").touch()
    return importlib.metadata.version("transformers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--work", type=Path, help="keep the work folder here")
    options = parser.parse_args()
    unknown = set(options.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as name:
        folder = options.work or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        version = prepare(folder)
        print(f"transformers {version}\n")
        print(f"{'row':16} {'breaks':>9} {'graphs':>9} {'status':8} {'safe':5} {'s':>5}  codemods")
        for row in options.rows or ROWS:
            (folder / f"{row}.py").write_text(program(row))
            started = time.perf_counter()
            result = subprocess.run(
                [sys.executable, "-m", "gbfix", "--no-cache", "--format", "json", f"{row}.py"],
                cwd=folder,
                capture_output=True,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            seconds = time.perf_counter() - started
            print(line(row, result, seconds), flush=True)


def line(row: str, result: subprocess.CompletedProcess[str], seconds: float) -> str:
    try:
        report = json.loads(result.stdout)
    except ValueError:
        return f"{row:16} gbfix failed: {result.stderr.strip().splitlines()[-1:]}"
    errors = [error["message"] for error in report["errors"] if error["fatal"]]
    if errors:
        return f"{row:16} {errors[0]}"
    regions = report["regions"]

    def total(key: str) -> int:
        return sum(region[key] or 0 for region in regions)

    breaks = f"{total('breaks_before')} -> {total('breaks_after')}"
    graphs = f"{total('graphs_before')} -> {total('graphs_after')}"
    status = ", ".join(sorted({region["status"] for region in regions}))
    safe = (
        all(patch["safety"] == "safe" for patch in report["patches"]) if report["patches"] else ""
    )
    names = sorted({name for patch in report["patches"] for name in patch["codemods"]})
    left = [
        f"{item['code']} at {Path(item['path']).name}:{item['line']}"
        for item in report["breaks"]
        if item["status"] != "fixed"
    ]
    text = ", ".join(names) + (f"; left: {', '.join(left)}" if left else "")
    return f"{row:16} {breaks:>9} {graphs:>9} {status:8} {safe!s:5} {seconds:5.0f}  {text}"


if __name__ == "__main__":
    main()
