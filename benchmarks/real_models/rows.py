"""The rows of the table: tiny random-weight models of `transformers`, each with its call, and
schedulers of `diffusers`.

A row is a model class, a configuration of small sizes and a call.  The names follow the table of
GraphMend (arXiv 2509.16248), whose checkpoints they stand for: same code, small sizes, no weights.
``ids`` is a batch of two sentences of five tokens.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    """One model: what is built, how it is called, in half precision or not, trained or not."""

    model: str
    config: str
    call: str
    half: bool = False
    train: bool = False
    names: str = ""
    ids: str = "torch.randint(3, 64, (2, 5))"
    #: Whether ``--unsafe-fixes`` are needed, and why breaks stay nevertheless.
    unsafe: bool = False
    left: str = ""
    #: The first major version of the library that has the row, or breaks in it.
    newest: int = 0
    library: str = "transformers"

    @property
    def program(self) -> str:
        """The row as a script, which finds the package's source in ``src`` beside it."""
        imported = ", ".join(
            sorted({self.model, self.config.partition("(")[0], *self.names.split()})
        )
        return PROGRAM.format(
            names=imported,
            model=self.model,
            config=self.config,
            mode="train()" if self.train else "eval()",
            half=".half()" if self.half else "",
            ids=self.ids,
            call=self.call,
            work=TRAIN if self.train else FORWARD,
        ).lstrip()


PROGRAM = """
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "src"))
import torch
from transformers import {names}

torch.manual_seed(0)
model = {model}({config}).{mode}{half}
compiled = torch.compile(model)
ids = {ids}
inputs = dict({call})


def step():
{work}


print(step())
"""

FORWARD = """
    with torch.no_grad():
        out = compiled(**inputs)
    return [tuple(value.shape) for value in out.values() if torch.is_tensor(value)]
""".strip("\n")

TRAIN = """
    compiled(**inputs, labels=ids).loss.backward()
    return sum(value.grad is not None for value in model.parameters())
""".strip("\n")


@dataclasses.dataclass(frozen=True)
class Steps:
    """A scheduler of `diffusers`: its step is compiled, and called for each time of a short run."""

    scheduler: str
    config: str = ""
    scale: bool = False
    first: int = 0
    begins: bool = False
    unsafe: bool = False
    left: str = ""
    newest: int = 0
    library: str = "diffusers"

    @property
    def program(self) -> str:
        """The row as a script, like that of a model."""
        scaled = "scheduler.scale_model_input(sample, time)" if self.scale else "sample"
        return STEPS.format(
            name=self.scheduler,
            config=self.config,
            scaled=scaled,
            first=self.first,
            # Else the first step looks for its time among all times.
            begin=f"\n    scheduler.set_begin_index({self.first})" if self.begins else "",
        ).lstrip()


STEPS = """
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "src"))
import torch
from diffusers import {name}

scheduler = {name}({config})
compiled = torch.compile(scheduler.step)


def step():
    torch.manual_seed(0)
    scheduler.set_timesteps(50){begin}
    sample = torch.randn(1, 3, 8, 8)
    for time in scheduler.timesteps[{first}:][:3]:
        noise = 0.1 * {scaled}
        sample = compiled(noise, time, sample, return_dict=False)[0]
    return tuple(sample.shape)


print(step())
"""

LAYERS = (
    "d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, "
    "decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32"
)
SEQ = f"vocab_size=64, max_position_embeddings=32, {LAYERS}"
T5 = (
    "vocab_size=64, d_model=16, d_kv=4, d_ff=32, num_layers=1, num_decoder_layers=1, "
    "num_heads=2, decoder_start_token_id=0"
)
ENCODER = "vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, "
TEXT = "input_ids=ids, decoder_input_ids=ids"

T5_MODEL = Row("T5ForConditionalGeneration", f"T5Config({T5})", TEXT)
FLAN_T5 = dataclasses.replace(
    T5_MODEL,
    config=f'T5Config({T5}, feed_forward_proj="gated-gelu", tie_word_embeddings=False)',
)
BART = Row("BartForConditionalGeneration", f"BartConfig({SEQ})", TEXT)
REBEL = dataclasses.replace(
    BART,
    config=f"BartConfig({SEQ}, normalize_before=False, forced_bos_token_id=0, num_beams=3)",
)
MARIAN = Row(
    "MarianMTModel",
    f"MarianConfig({SEQ}, pad_token_id=0, decoder_start_token_id=0, scale_embedding=True, "
    'activation_function="swish")',
    TEXT,
)
BLENDERBOT = Row("BlenderbotForConditionalGeneration", f"BlenderbotConfig({SEQ})", TEXT)
PEGASUS = Row("PegasusForCausalLM", f"PegasusConfig({SEQ})", "input_ids=ids")
WHISPER = Row(
    "WhisperForConditionalGeneration",
    "WhisperConfig(vocab_size=64, num_mel_bins=8, max_source_positions=8, "
    "max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, "
    f"decoder_start_token_id=1, {LAYERS})",
    "input_features=torch.randn(2, 8, 16), decoder_input_ids=ids",
)
BIOGPT = Row(
    "BioGptForCausalLM",
    f"BioGptConfig({ENCODER}intermediate_size=32, max_position_embeddings=32)",
    "input_ids=ids",
)
LAYOUTLM = Row(
    "LayoutLMv3ForTokenClassification",
    "LayoutLMv3Config(vocab_size=64, hidden_size=24, num_hidden_layers=1, num_attention_heads=2, "
    "intermediate_size=32, max_position_embeddings=32, max_2d_position_embeddings=64, "
    "coordinate_size=4, shape_size=4, input_size=32, patch_size=16, pad_token_id=0, "
    "bos_token_id=1, eos_token_id=2)",
    "input_ids=ids, bbox=torch.randint(0, 30, (2, 5, 4)).sort(-1).values, "
    "pixel_values=torch.randn(2, 3, 32, 32)",
)
PHI = Row(
    "Phi3ForCausalLM",
    f"Phi3Config({ENCODER}num_key_value_heads=2, intermediate_size=32, "
    "max_position_embeddings=64, original_max_position_embeddings=16, pad_token_id=0, "
    "bos_token_id=1, eos_token_id=2, "
    'rope_scaling={"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4})',
    "input_ids=ids",
    left="a branch that data decides sets `self.long_inv_freq` and registers the buffer that the "
    "graph reads next (modeling_rope_utils.py:50): `torch.cond` can do neither, and an operator "
    "would leave the graph with the old buffer",
)
GROUNDING_DINO = Row(
    "GroundingDinoForObjectDetection",
    "GroundingDinoConfig("
    "backbone_config=SwinConfig(image_size=32, patch_size=4, embed_dim=8, depths=[1, 1, 1], "
    'num_heads=[1, 1, 1], window_size=2, out_features=["stage2", "stage3"]), '
    f"text_config=BertConfig({ENCODER.replace('64', '1100')}intermediate_size=32, "
    "max_position_embeddings=32), "
    "d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, "
    "decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=4, "
    "num_feature_levels=3, encoder_n_points=2, decoder_n_points=2, max_text_len=8)",
    "pixel_values=torch.randn(2, 3, 64, 64), input_ids=ids, attention_mask=torch.ones_like(ids)",
    names="SwinConfig BertConfig",
    ids="torch.tensor([[101, 5, 1012, 6, 102], [101, 7, 8, 1012, 102]])",
    unsafe=True,
)
LONGFORMER = Row(
    "LongformerForSequenceClassification",
    f"LongformerConfig({ENCODER}intermediate_size=32, max_position_embeddings=32, "
    "attention_window=4, pad_token_id=1)",
    "input_ids=ids",
    ids="torch.randint(3, 64, (2, 8))",
    left="global attention: `is_index_global_attn.flatten().any().item()` "
    "(modeling_longformer.py:1272) decides which path runs, and `nonzero` and `narrow` by a count "
    "of the data (:919 to :1096) decide shapes; `region-option` captures the sizes, but they do "
    "not compile under inductor",
)
CLAP = Row(
    "ClapAudioModelWithProjection",
    "ClapAudioConfig(window_size=2, num_mel_bins=16, spec_size=32, patch_size=4, "
    "patch_stride=[4, 4], num_classes=4, hidden_size=16, projection_dim=16, depths=[1, 1], "
    "num_attention_heads=[1, 1], enable_fusion=True, patch_embeds_hidden_size=8)",
    "input_features=torch.randn(2, 4, 32, 16), is_longer=torch.tensor([[True], [False]])",
    left="the fused branch runs on as many clips as are longer, and not at all for none "
    "(modeling_clap.py:904, :349): sizes and a branch that data decides",
)
LONG_T5 = dataclasses.replace(
    T5_MODEL,
    model="LongT5ForConditionalGeneration",
    config=f"LongT5Config({T5}, local_radius=3, global_block_size=2)",
    newest=5,
)
SWITCH = Row(
    "SwitchTransformersForConditionalGeneration",
    f"SwitchTransformersConfig({T5}, num_experts=2, expert_capacity=8, "
    "num_sparse_encoder_layers=1, num_sparse_decoder_layers=1)",
    TEXT,
    unsafe=True,
    newest=5,
)
JETMOE = Row(
    "JetMoeForCausalLM",
    f"JetMoeConfig({ENCODER}num_key_value_heads=2, kv_channels=8, intermediate_size=32, "
    "num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=32)",
    "input_ids=ids",
    unsafe=True,
    newest=5,
)

LED = Row(
    "LEDForConditionalGeneration",
    "LEDConfig(vocab_size=64, max_encoder_position_embeddings=32, "
    f"max_decoder_position_embeddings=32, attention_window=4, {LAYERS})",
    TEXT,
    ids="torch.randint(3, 64, (2, 8))",
    unsafe=True,
    left="as longformer: `is_index_global_attn.flatten().any().item()` (modeling_led.py:1445) "
    "decides which path runs (:193), on which `nonzero` decides shapes",
    newest=5,
)
VILT = Row(
    "ViltForImagesAndTextClassification",
    f"ViltConfig({ENCODER}intermediate_size=32, max_position_embeddings=32, image_size=32, "
    "patch_size=16, max_image_length=-1, num_images=1, num_labels=2)",
    "input_ids=ids, pixel_values=torch.randn(2, 1, 3, 32, 32), attention_mask=torch.ones_like(ids)",
    unsafe=True,
    left="`for h, w in zip(x_h, x_w)` (modeling_vilt.py:107) interpolates to sizes that the mask "
    "decides, and `unique_rows` (:147) how many rows a list has: sizes in a loop over data",
    newest=5,
)


def _half(row: Row) -> Row:
    return dataclasses.replace(row, half=True)


def _train(row: Row) -> Row:
    return dataclasses.replace(
        row, train=True, call=row.call.replace(", decoder_input_ids=ids", "")
    )


SMALL = "hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32"
SPARSE = "max_position_embeddings=128, block_size=4, num_random_blocks=1"
XLM = "vocab_size=64, emb_dim=16, n_layers=1, n_heads=2, max_position_embeddings=32"

BARE = (
    "without `scale_model_input` or `set_begin_index` the first step looks for its time with "
    "`nonzero` (scheduling_euler_discrete.py:660) and keeps its place as a Python number "
    "(`.item()`, :668), which no graph can give back; the others follow from it"
)
DDPM = (
    "`previous_timestep` looks for the time with `nonzero(...)[0][0]`, which fails for a time that "
    "is not there; `if t > 0` draws noise, which `torch.cond` would draw from another stream, and "
    "gives a Python 0 or a tensor"
)
VISION = (
    "`grid_thw`, a tensor, gives the sizes of loops (vision_utils.py:64, :109, :164), and "
    "`cu_seqlens` those into which attention is split (`torch.split` by `lengths.tolist()`): no "
    "graph can hold a number of rounds that data decides; both can be passed ready-made"
)

#: Of the newest transformers, found by looking for what breaks.
_NEWEST: dict[str, Row] = {
    "vits": Row(
        "VitsModel",
        "VitsConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, "
        "ffn_dim=32, layerdrop=0.0, flow_size=16, spectrogram_bins=9, "
        "upsample_initial_channel=16, upsample_rates=[2, 2], upsample_kernel_sizes=[4, 4], "
        "resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]], "
        "depth_separable_num_layers=1, duration_predictor_num_flows=2, "
        "duration_predictor_filter_channels=16, prior_encoder_num_flows=2, "
        "prior_encoder_num_wavenet_layers=1, posterior_encoder_num_wavenet_layers=1, "
        # Without noise, so that the durations, and with them the shapes, are the same each time.
        "noise_scale=0.0, noise_scale_duration=0.0)",
        "input_ids=ids, attention_mask=torch.ones_like(ids)",
        unsafe=True,
        left="`predicted_lengths.max()` (modeling_vits.py:1352) decides how long the audio is, and "
        "inductor fails on what `region-option` captures of it",
    ),
    "fastspeech2-conformer": Row(
        "FastSpeech2ConformerModel",
        "FastSpeech2ConformerConfig(hidden_size=16, vocab_size=64, num_mel_bins=8, "
        "encoder_layers=1, encoder_linear_units=32, decoder_layers=1, decoder_linear_units=32, "
        "decoder_kernel_size=7, speech_decoder_postnet_layers=1, speech_decoder_postnet_units=16, "
        "duration_predictor_channels=16, energy_predictor_channels=16, "
        "pitch_predictor_layers=2, pitch_predictor_channels=16)",
        "input_ids=ids, attention_mask=torch.ones_like(ids)",
        unsafe=True,
        left="`pos_enc.size(1) >= x.size(1) * 2 - 1` (modeling_fastspeech2_conformer.py:728) "
        "asks for a length that durations decide",
    ),
    "siglip2-vision": Row(
        "Siglip2VisionModel",
        f"Siglip2VisionConfig({SMALL}, patch_size=4, num_patches=16)",
        "pixel_values=torch.randn(2, 12, 48), "
        "pixel_attention_mask=torch.tensor([[1] * 12, [1] * 8 + [0] * 4]), "
        "spatial_shapes=torch.tensor([[3, 4], [2, 4]])",
        unsafe=True,
    ),
    "wav2vec2-train": Row(
        "Wav2Vec2ForCTC",
        f"Wav2Vec2Config(vocab_size=64, {SMALL.replace('layers=1', 'layers=2')}, "
        "conv_dim=[8, 8], conv_stride=[5, 4], conv_kernel=[10, 4], num_conv_pos_embeddings=4, "
        # The mask of the features is drawn by numpy, which torch's seed does not decide.
        "num_conv_pos_embedding_groups=2, layerdrop=0.0, apply_spec_augment=False)",
        "input_values=torch.randn(2, 800), "
        "attention_mask=torch.tensor([[1] * 800, [1] * 600 + [0] * 200])",
        train=True,
        unsafe=True,
    ),
    "parakeet-ctc-train": Row(
        "ParakeetForCTC",
        f"ParakeetCTCConfig(vocab_size=64, pad_token_id=0, encoder_config=dict({SMALL}, "
        "subsampling_conv_channels=8, num_mel_bins=16, max_position_embeddings=64, "
        "layerdrop=0.0))",
        "input_features=torch.randn(2, 96, 16), attention_mask=torch.ones(2, 96).long()",
        train=True,
    ),
    "parakeet-tdt": Row(
        "ParakeetForTDT",
        "ParakeetTDTConfig(vocab_size=64, blank_token_id=63, decoder_hidden_size=16, "
        f"num_decoder_layers=1, encoder_config=dict({SMALL}, subsampling_conv_channels=8, "
        "num_mel_bins=16, max_position_embeddings=64))",
        "input_features=torch.randn(2, 64, 16), attention_mask=torch.ones(2, 64).long(), "
        "decoder_input_ids=ids",
        unsafe=True,
    ),
    "qwen2-vl": Row(
        "Qwen2VLForConditionalGeneration",
        f"Qwen2VLConfig(text_config=dict(vocab_size=64, {SMALL}, num_key_value_heads=2, "
        "max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0, "
        "rope_parameters=dict(rope_type='default', rope_theta=10000.0, "
        "mrope_section=[1, 1, 2])), vision_config=dict(depth=2, embed_dim=16, hidden_size=16, "
        "num_heads=2, patch_size=4, temporal_patch_size=2, spatial_merge_size=2), "
        "image_token_id=62, video_token_id=63, vision_start_token_id=60, "
        "vision_end_token_id=61)",
        "input_ids=ids, attention_mask=torch.ones_like(ids), "
        "pixel_values=torch.randn(32, 96), "
        "image_grid_thw=torch.tensor([[1, 4, 4], [1, 4, 4]]), "
        "mm_token_type_ids=(ids == 62).int()",
        ids="torch.tensor([[5, 60, 62, 62, 62, 62, 61, 7], [5, 60, 62, 62, 62, 62, 61, 8]])",
        unsafe=True,
        left=VISION,
    ),
    "qwen2.5-vl-vision": Row(
        "Qwen2_5_VisionTransformerPretrainedModel",
        # The vision configuration is not exported on its own.
        "Qwen2_5_VLConfig(vision_config=dict(depth=2, hidden_size=16, intermediate_size=32, "
        "num_heads=2, patch_size=4, window_size=16, out_hidden_size=16, "
        "fullatt_block_indexes=[1])).vision_config",
        "hidden_states=torch.randn(48, 96), grid_thw=torch.tensor([[1, 4, 4], [1, 4, 8]])",
        unsafe=True,
        left=VISION,
    ),
    "big-bird": Row(
        "BigBirdForMaskedLM",
        f"BigBirdConfig(vocab_size=64, {SMALL}, {SPARSE})",
        "input_ids=ids",
        ids="torch.randint(3, 64, (2, 64))",
        unsafe=True,
    ),
    "reformer": Row(
        "ReformerModelWithLMHead",
        "ReformerConfig(attention_head_size=8, attn_layers=['local', 'lsh'], "
        "axial_pos_embds=False, feed_forward_size=32, hidden_size=16, is_decoder=True, "
        "local_attn_chunk_length=4, lsh_attn_chunk_length=4, max_position_embeddings=64, "
        "num_attention_heads=2, num_buckets=2, num_hashes=1, vocab_size=64)",
        "input_ids=ids",
        ids="torch.randint(3, 64, (2, 16))",
        unsafe=True,
    ),
    "longcat-flash": Row(
        "LongcatFlashForCausalLM",
        "LongcatFlashConfig(vocab_size=64, hidden_size=16, num_layers=1, "
        "num_attention_heads=2, max_position_embeddings=64, ffn_hidden_size=32, "
        "q_lora_rank=8, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=8, head_dim=8, "
        "v_head_dim=8, moe_topk=2, n_routed_experts=4, zero_expert_num=2, "
        "expert_ffn_hidden_size=16)",
        "input_ids=ids",
        unsafe=True,
    ),
    "superpoint": Row(
        "SuperPointForKeypointDetection",
        "SuperPointConfig(encoder_hidden_sizes=[8, 8, 8, 8], decoder_hidden_size=16, "
        "keypoint_decoder_dim=65, descriptor_decoder_dim=16)",
        "pixel_values=torch.rand(2, 3, 32, 32)",
        unsafe=True,
    ),
    "prophetnet-train": Row(
        "ProphetNetForConditionalGeneration",
        "ProphetNetConfig(vocab_size=64, hidden_size=16, encoder_ffn_dim=32, "
        "num_encoder_layers=1, num_encoder_attention_heads=2, decoder_ffn_dim=32, "
        "num_decoder_layers=1, num_decoder_attention_heads=2, max_position_embeddings=32, "
        "ngram=2, num_buckets=8)",
        "input_ids=ids",
        train=True,
    ),
    "flaubert": Row("FlaubertModel", f"FlaubertConfig({XLM})", "input_ids=ids", unsafe=True),
    "bart-classify": Row(
        "BartForSequenceClassification",
        f"BartConfig(vocab_size=64, max_position_embeddings=32, {LAYERS})",
        "input_ids=ids",
        ids="torch.cat([torch.randint(3, 64, (2, 5)), torch.full((2, 1), 2)], 1)",
        unsafe=True,
    ),
    "splinter": Row(
        "SplinterForPreTraining",
        f"SplinterConfig(vocab_size=64, {SMALL}, max_position_embeddings=32, question_token_id=63)",
        "input_ids=ids",
        ids="torch.tensor([[3, 63, 5, 6, 7], [4, 5, 63, 6, 7]])",
        unsafe=True,
    ),
}

ROWS: dict[str, Row | Steps] = {
    "t5": T5_MODEL,
    "t5-fp16": _half(T5_MODEL),
    "t5-train": _train(T5_MODEL),
    "flan-t5": FLAN_T5,
    "flan-t5-train": _train(FLAN_T5),
    "bart": BART,
    "bart-fp16": _half(BART),
    "bart-train": _train(BART),
    "rebel": REBEL,
    "opus-mt": MARIAN,
    "opus-mt-fp16": _half(MARIAN),
    "opus-mt-train": _train(MARIAN),
    "blenderbot": BLENDERBOT,
    "blenderbot-fp16": _half(BLENDERBOT),
    "pegasus-causal": PEGASUS,
    "pegasus-causal-train": _train(PEGASUS),
    "whisper": WHISPER,
    "whisper-train": _train(WHISPER),
    "biogpt": BIOGPT,
    "biogpt-train": _train(BIOGPT),
    "layoutlmv3": LAYOUTLM,
    "phi-longrope": PHI,
    "grounding-dino": GROUNDING_DINO,
    "longformer": LONGFORMER,
    "clap-fused": CLAP,
    # Not in that table: they break on the newest transformers.
    "longt5": LONG_T5,
    "switch-transformers": SWITCH,
    "jetmoe": JETMOE,
    "led": LED,
    "vilt": VILT,
    **{name: dataclasses.replace(row, newest=5) for name, row in _NEWEST.items()},
    "euler": Steps("EulerDiscreteScheduler", scale=True),
    "euler-bare": Steps("EulerDiscreteScheduler", left=BARE),
    "ddpm": Steps("DDPMScheduler", left=DDPM),
    "ddim": Steps("DDIMScheduler"),
    "ddim-cogvideox": Steps("CogVideoXDDIMScheduler"),
    "ddim-inverse": Steps("DDIMInverseScheduler"),
    "edm-euler": Steps("EDMEulerScheduler", scale=True),
    "flow-match-heun": Steps("FlowMatchHeunDiscreteScheduler", begins=True),
    "lcm": Steps("LCMScheduler", begins=True),
    "tcd": Steps("TCDScheduler", begins=True),
    "pndm": Steps("PNDMScheduler", "skip_prk_steps=True", first=2),
    "ddim-parallel": Steps("DDIMParallelScheduler"),
    "ddpm-parallel": Steps("DDPMParallelScheduler", left=DDPM),
    "unclip": Steps(
        "UnCLIPScheduler",
        unsafe=True,
        left="`if t > 0` (scheduling_unclip.py:322) draws noise, which `torch.cond` would draw "
        "from another stream",
    ),
}
