"""Any causal language model that transformers loads from this machine, written with on a CPU or a GPU.

It reads public prompts and noisy numbers alone, so nothing here has to be exact: texts differ between devices, batches
and versions.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import numpy as np

from dptext.errors import ConfigError, needing
from dptext.language.reading import require_room
from dptext.language.writing import Drafts, OnWritten, repeating
from dptext.text.files import sha256_of
from dptext.types import Floats

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: The kinds of numbers that a model computes with; "auto" takes bfloat16 on a GPU that has it, else float32.
Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
_WHAT: Final = "The writer model:PATH"
_BATCH_CPU: Final = 64
_BATCH_GPU: Final = 256
#: Errors of libraries that read damaged or unknown models.
_ERRORS: Final = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, ImportError,
)  # fmt: skip
_LINES: Final = "take the template lines (--template lines)"
_LONGEST: Final = 8192  # limit of tokens for models that name none
#: What a text stands after when its tokens are asked for, as some tokenizers put a space before a text that begins.
_BEFORE: Final = "\n"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TorchModel:
    """A causal language model on its device, with its tokenizer.

    Attributes:
        size: number of logits of a token.
        longest: largest number of tokens that the model reads.
        digest: sha256 of the files of weights.
        start: tokens with which the model's prompts begin.
        line_ends: tokens that end a line; their texts hold a line break.
        kept_ends: those of `line_ends` whose text has more before the line break.
        stops: tokens that end a text or an answer.
    """

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    size: int
    longest: int
    digest: str
    start: tuple[int, ...]
    line_ends: frozenset[int]
    kept_ends: frozenset[int]
    stops: frozenset[int]

    def __repr__(self) -> str:
        return f"TorchModel({self.digest[:12]}, {self.network.device})"

    def require_room(self, prompt: int, more: int) -> None:
        """Raise ConfigError if the model cannot read a prompt of so many tokens, and write `more` after it."""
        require_room(self.longest, prompt, more)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text within others. The spelling of a special token counts as text."""
        before, both = self._encoded(_BEFORE), self._encoded(_BEFORE + text)
        return both[len(before) :] if both[: len(before)] == before else self._encoded(text)

    def _encoded(self, text: str) -> list[int]:
        found = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return [int(token) for token in found]

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens. Special tokens are left out."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def asked(self, question: str) -> list[int]:
        """Return the tokens of a question to a chat model, by its own template.

        ConfigError: it has none, or one that refuses a single question of a user.
        """
        if not self.tokenizer.chat_template:
            raise ConfigError(f"Expected a chat template in the model's folder, found none: {_LINES}.")
        # Models that can think aloud first are asked not to; the others' templates read no such setting.
        try:
            found = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=True, return_dict=False,
                enable_thinking=False,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 (a template is a program, and raises what it likes)
            raise ConfigError(
                f"Expected the model's chat template to take a question, found {error}: {_LINES}."
            ) from None
        return list(map(int, cast("list[int]", found)))

    def write(
        self,
        prompt: Sequence[int],
        n: int,
        *,
        shift: Floats,
        ends: frozenset[int],
        most: int,
        least: int = 0,
        temperature: float,
        options: int,
        seed: int,
        batch: int = 0,
        on_progress: OnWritten | None = None,
    ) -> Drafts:
        """Continue a prompt `n` times up to one of `ends`, by `least` to `most` tokens.

        Tokens are drawn in proportion to p^(1 / temperature) e^shift among the `options` most likely ones and `ends`.
        Tokens that are already in a text get no positive shift; with a `least`, no run of tokens comes twice. The
        prompt is read once for a batch of at most `batch` texts; 0 takes 64 on a CPU and 256 on a GPU. A batch that
        does not fit into memory is halved.

        ConfigError: not even one text fits into memory.
        """
        import torch  # noqa: PLC0415 (an extra, slow to load)

        device = self.network.device
        texts: list[list[int]] = []
        expected, likely, drawn = np.zeros(self.size), 0.0, 0
        most_rows = batch or (_BATCH_CPU if device.type == "cpu" else _BATCH_GPU)
        with torch.inference_mode(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            while (begun := len(texts)) < n:
                steps = _Steps(shift, sorted(ends), len(prompt), temperature, options, device, least)
                if on_progress is not None:
                    steps.on_step = partial(_told, on_progress, begun, most)
                try:
                    texts += self._continued(prompt, min(most_rows, n - begun), steps, most)
                except torch.OutOfMemoryError:
                    if most_rows == 1:
                        raise ConfigError("Expected a model that fits into memory: take a smaller one.") from None
                    most_rows //= 2
                    torch.cuda.empty_cache()
                    continue
                expected += steps.expected.cpu().double().numpy()
                likely += steps.likely
                drawn += steps.drawn
                if on_progress is not None:
                    on_progress(len(texts))
        return Drafts(texts, expected / max(1, n), likely, drawn)

    def _continued(self, prompt: Sequence[int], n: int, steps: _Steps, most: int) -> list[list[int]]:
        """Return the tokens that continue a prompt, up to the first end."""
        import torch  # noqa: PLC0415 (an extra, slow to load)
        from transformers import DynamicCache, GenerationConfig, LogitsProcessorList  # noqa: PLC0415

        ids = torch.tensor([list(prompt)], device=self.network.device)
        rows, known = ids.repeat(n, 1), dict[str, Any]()
        cache = DynamicCache(config=self.network.config)
        # Models that keep a state in the place of keys and values have no such method: each row reads the prompt.
        if len(prompt) > 1 and all(hasattr(layer, "batch_repeat_interleave") for layer in cache.layers):
            self.network(ids[:, :-1], past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache.batch_repeat_interleave(n)
            known["past_key_values"] = cache
        pad = min(steps.ends)
        set_ = GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=most, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, eos_token_id=list(steps.ends),
            pad_token_id=pad, use_cache=True,
        )  # fmt: skip
        found = self.network.generate(  # type: ignore[operator]  # transformers adds it
            rows, attention_mask=torch.ones_like(rows), generation_config=set_,
            logits_processor=LogitsProcessorList([steps]), **known,
        )[:, len(prompt) :]  # fmt: skip
        steps.finish(found)
        return [self._cut(row, frozenset(steps.ends)) for row in found.tolist()]

    def _cut(self, tokens: Sequence[int], ends: frozenset[int]) -> list[int]:
        last = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
        kept = last < len(tokens) and tokens[last] in self.kept_ends
        return list(tokens[: last + kept])


def _told(on_progress: OnWritten, begun: int, most: int, step: int, rows: int) -> None:
    """Tell how many texts are written: those of a batch in the making count as the part of their steps that is done."""
    on_progress(begun + rows * step // most)


class _Steps:
    """The choices of a batch: a logits processor of transformers, which also counts what may be drawn."""

    def __init__(
        self,
        shift: Floats,
        ends: Sequence[int],
        prompt: int,
        temperature: float,
        options: int,
        device: torch.device,
        least: int,
    ) -> None:
        import torch  # noqa: PLC0415 (an extra, slow to load)

        self.ends, self.likely, self.drawn = tuple(ends), 0.0, 0
        self.on_step: Callable[[int, int], None] | None = None  # gets the number of the step, and of the texts
        self._shift = torch.tensor(shift, dtype=torch.float32, device=device)
        self._gain = self._shift.clamp(min=0.0)
        self._ends = torch.tensor(list(ends), device=device)
        self._prompt, self._temperature, self._options, self._least = prompt, temperature, options, least
        self.expected = torch.zeros(len(shift), dtype=torch.float32, device=device)
        self._before: tuple[torch.Tensor, torch.Tensor] | None = None  # log-probabilities, and which rows went on

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the logits that are drawn from, `(rows, size)`; -inf where no option is."""
        import torch  # noqa: PLC0415 (an extra, slow to load)

        written = input_ids[:, self._prompt :]
        self._count(written)
        going = ~torch.isin(written, self._ends).any(dim=1)
        public = torch.log_softmax(scores.float(), dim=-1)
        if bool(public.isnan().any()):  # float16 ends at 65,504
            raise ConfigError("Expected the model to compute finite numbers, found NaN: set precision=float32.")
        moved = public / self._temperature + self._shift
        if written.shape[1]:
            moved.scatter_(1, written, moved.gather(1, written) - self._gain[written])
        if self._least:
            for row, text in zip(moved, written.tolist(), strict=True):
                row[repeating(text)] = -torch.inf
        if early := written.shape[1] < self._least:
            moved[:, self._ends] = -torch.inf
        best = moved.topk(min(self._options, moved.shape[1]), dim=1)
        found = torch.full_like(moved, -torch.inf).scatter_(1, best.indices, best.values)
        if not early:
            found[:, self._ends] = moved[:, self._ends]
        self.expected += torch.softmax(found[going], dim=-1).sum(dim=0)
        self._before = public, going
        if self.on_step is not None:
            self.on_step(written.shape[1], len(written))
        return found

    def finish(self, written: torch.Tensor) -> None:
        """Count the last tokens of the texts `(rows, tokens)`."""
        self._count(written)
        self._before = None

    def _count(self, written: torch.Tensor) -> None:
        if self._before is None:
            return
        public, going = self._before
        chosen = public.gather(1, written[:, -1:])[:, 0]
        self.likely += float(chosen[going].sum())
        self.drawn += int(going.sum())


def load_torch_model(place: str, *, device: str = "auto", precision: Precision = "auto") -> TorchModel:
    """Load the model in a folder with config.json and *.safetensors, or in a file *.gguf. Nothing is downloaded.

    `device` is "auto", "cpu", "cuda", or another one of torch; "auto" takes a GPU where there is one.

    ConfigError: there is no such model or device, the model needs code of its own, its files are damaged, or it
    computes no finite numbers. MissingExtraError: a package is absent.
    """
    path = Path(place).expanduser()
    files = weight_files(path)
    with needing(_WHAT, "dptext[torch]"):
        import torch  # noqa: PLC0415 (an extra, slow to load)
        from safetensors import SafetensorError  # noqa: PLC0415 (comes with the next)
        from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig  # noqa: PLC0415 (an extra)

        from dptext.embeddings.devices import require_device  # noqa: PLC0415 (needs torch)
    on = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    require_device(on)
    if path.is_file():
        with needing(f"{_WHAT} of a GGUF file", "dptext[torch]"):
            import accelerate  # noqa: F401, PLC0415 (transformers reads such files with it, and names no line to install it)
    fast = on.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)
    dtype = {"auto": torch.bfloat16 if fast else torch.float32}.get(precision) or getattr(torch, precision)
    folder, named = (path.parent, {"gguf_file": path.name}) if path.is_file() else (path, {})
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False, **named}
    weights = {} if named else {"use_safetensors": True}
    with quiet(), contextlib.redirect_stderr(io.StringIO()):  # the reader of GGUF files shows a bar
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), **local)
            read: Any = AutoModelForCausalLM.from_pretrained  # its types know no pair
            network, loaded = read(str(folder), dtype=dtype, output_loading_info=True, **weights, **local)
            network.to(on).eval()
            stops = _stops(network, tokenizer)
            # Else the model's own settings would fill in those that are not set.
            network.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
            with torch.inference_mode():
                stop = next(iter(stops))
                first, other = network(torch.tensor([[stop, 0], [stop, 1]], device=on)).logits[:, 0].float()
        except (*_ERRORS, SafetensorError) as error:
            raise ConfigError(
                f"Cannot load the language model {path}: {error}. Where its files are damaged or cut off, save or copy "
                "them again; else take another model."
            ) from error
    # transformers fills what is missing at random.
    if wrong := [*map(str, loaded["missing_keys"]), *map(str, loaded["mismatched_keys"])]:
        raise ConfigError(f"Expected the weights {wrong[0]} in {path}, which are not there. Save the model again.")
    if not bool(first.isfinite().all()):
        raise ConfigError(f"Expected {path} to compute finite numbers, found NaN or infinity: take another model.")
    # What follows a token may not move what is said of it; transformers loads BERT as a causal model, too.
    if not torch.allclose(first, other, rtol=1e-3, atol=1e-3 * float(first.abs().max())):
        raise ConfigError(
            f"Expected a causal language model in {path}, found one that reads texts in both directions: take a model "
            "that writes, such as one of the Llama, Qwen or Mistral families."
        )
    config = network.config.get_text_config()
    longest = min(getattr(config, "max_position_embeddings", None) or _LONGEST, _LONGEST)
    digest = hashlib.sha256("".join(map(sha256_of, files)).encode()).hexdigest()
    spelled = tokenizer.batch_decode([[i] for i in range(min(len(tokenizer), len(first)))])
    line_ends = {i: text for i, text in enumerate(spelled) if "\n" in text}
    if not line_ends:
        raise ConfigError(
            f"Expected a token for the end of a line in {path}, found none: save the tokenizer beside the weights "
            "(tokenizer.json), or take another model."
        )
    begins = tokenizer("a")["input_ids"]
    return TorchModel(
        network=network,
        tokenizer=tokenizer,
        size=len(first),
        longest=longest,
        digest=sha256_of(path) if path.is_file() else digest,
        start=(int(begins[0]),) if begins and begins[0] == tokenizer.bos_token_id else (),
        line_ends=frozenset(line_ends) | stops,
        kept_ends=frozenset(i for i, text in line_ends.items() if text.partition("\n")[0].strip()),
        stops=stops,
    )


def weight_files(path: Path) -> list[Path]:
    """Return the files of weights. ConfigError: there are none."""
    if path.suffix == ".gguf" and path.is_file():
        return [path]
    files = sorted(path.glob("*.safetensors"))
    if not (path / "config.json").is_file() or not files:
        raise ConfigError(
            f"Expected model:{path} to name a folder with config.json and *.safetensors, or a file *.gguf: nothing is "
            "loaded from elsewhere."
        )
    return files


def _stops(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the tokens that end a text by the model's own settings. ConfigError: it names none."""
    found: set[int] = set()
    own = network.generation_config.eos_token_id
    for given in (own, network.config.get_text_config().eos_token_id, tokenizer.eos_token_id):
        found.update(given if isinstance(given, list) else [] if given is None else [given])
    if not found:
        raise ConfigError("Expected the language model to name a token that ends a text, found none.")
    return frozenset(int(token) for token in found)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the library's progress bars and advice within the context."""
    from transformers.utils import logging as transformers_logging  # noqa: PLC0415 (an extra)

    shown, level = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers_logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if shown:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
