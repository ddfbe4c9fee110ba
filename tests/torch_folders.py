"""Folders of tiny causal language models of random numbers, as transformers saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import dptext as dp

SIZES: Final[dict[str, Any]] = {
    "vocab_size": 400, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 200, "eos_token_id": 1, "bos_token_id": None,
    "pad_token_id": None, "initializer_range": 0.3,
}  # fmt: skip
ROPE: Final = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
#: Class of the model, settings beside `SIZES`, and whether its tokenizer writes bytes, or words after a mark.
FAMILIES: Final[dict[str, tuple[str, dict[str, Any], bool]]] = {
    "qwen2": ("Qwen2", {}, True),
    "mistral": ("Mistral", {"sliding_window": 16}, False),
    "gemma": ("Gemma", {"bos_token_id": 2}, False),
    "gemma 3": ("Gemma3", {"bos_token_id": 2, "sliding_window": 16}, False),
    "llama 3": ("Llama", {"rope_parameters": ROPE}, True),
}  # fmt: skip
#: No keys and values; not among those whose numbers a second pass compares.
STATES: Final[dict[str, tuple[str, dict[str, Any], bool]]] = {"mamba": ("Mamba", {"state_size": 4}, True)}
CHAT: Final = "{% for message in messages %}Q: {{ message.content }}\nA:{% endfor %}"


def tokenizer(*, of_bytes: bool) -> Any:
    """Train a tokenizer of 400 tokens on built-in texts: of bytes as GPT-2's, or of marked words as SentencePiece's."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    special = [AddedToken(name, special=True) for name in ("<unk>", "<end>", "<start>")]
    texts = [record.text for record in dp.sample_records(300, seed=3)]
    if of_bytes:
        found = Tokenizer(models.BPE())
        found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        found.decoder = decoders.ByteLevel()
        known = pre_tokenizers.ByteLevel.alphabet()
    else:
        found = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
        found.normalizer = normalizers.Replace(" ", "▁")
        found.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
        found.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        special += [AddedToken(f"<0x{i:02X}>", special=False, normalized=False) for i in (10, 13)]
        known = [chr(i) for i in range(ord("!"), ord("~") + 1)]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=known, show_progress=False)
    found.train_from_iterator(texts, trainer)
    if not of_bytes:
        found.post_processor = processors.TemplateProcessing(single="<start> $A", special_tokens=[("<start>", 2)])
    return found


def saved(path: Path, family: str, *, chat: str | None = None, positions: int = 200, **generation: Any) -> Path:
    """Save a model of a family as a folder; `generation` are settings of its generation_config.json."""
    import torch
    import transformers

    name, more, of_bytes = {**FAMILIES, **STATES}[family]
    kind = getattr(transformers, f"{name}ForCausalLM")
    with torch.random.fork_rng([]):
        torch.manual_seed(7)
        model = kind(kind.config_class(**{**SIZES, **more, "max_position_embeddings": positions}))
    model.generation_config = transformers.GenerationConfig(eos_token_id=1, **generation)
    model.save_pretrained(path)
    tokens = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer(of_bytes=of_bytes), eos_token="<end>", unk_token="<unk>", bos_token="<start>"
    )
    tokens.chat_template = chat
    tokens.save_pretrained(path)
    return path
