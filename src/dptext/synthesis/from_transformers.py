"""The writer `model:PATH`: any causal language model that transformers loads from this machine, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, get_args

from dptext import _validate
from dptext.errors import ConfigError
from dptext.language.torch_model import Precision, TorchModel, load_torch_model, weight_files
from dptext.language.writing import Drafts, OnWritten
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.synthesis.asking import TEMPLATES, Template, answer_line, question
from dptext.synthesis.from_model import FromLanguage
from dptext.synthesis.word_shifts import Steered
from dptext.synthesis.word_targets import WordTargets
from dptext.synthesis.writer import LineWriter, one_line
from dptext.types import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class FromTransformers(FromLanguage):
    """Settings of the writer `model:PATH`, besides those of `FromLanguage`.

    Attributes:
        model: a folder with config.json and *.safetensors, or a file *.gguf.
        options: number of tokens among which one is chosen.
        device: "auto" takes a GPU where there is one; else "cpu", "cuda", or another device of torch.
        precision: "auto" takes bfloat16 on a GPU that has it, else float32.
        batch: number of texts at once; 0 takes 64 on a CPU and 256 on a GPU. A batch that does not fit is halved.
        template: "lines" shows examples as lines; "chat" asks by the model's own chat template.
    """

    takes: ClassVar[str] = "PATH"
    means: ClassVar[tuple[str, ...]] = ("device", "precision", "batch")

    options: int = 512
    device: str = "auto"
    precision: Precision = "auto"
    batch: int = 0
    template: Template = "lines"

    def __post_init__(self) -> None:
        FromLanguage.__post_init__(self)
        _validate.within(2, 4096, options=self.options)
        _validate.not_negative(batch=self.batch)
        for name, known in (("precision", get_args(Precision)), ("template", TEMPLATES)):
            if getattr(self, name) not in known:
                raise ConfigError(f"Expected {name} to be one of {', '.join(known)}, found {getattr(self, name)!r}.")

    def require_place(self) -> None:
        """Raise ConfigError if no model is there."""
        weight_files(Path(self.model).expanduser())

    def opened(self, by: WordTargets) -> Steered:
        """Load the model. ConfigError, MissingExtraError: see `load_torch_model` and `LineWriter.of`."""
        model = load_torch_model(self.model, device=self.device, precision=self.precision)
        steered = Steered.of(by, model, TorchChat if self.template == "chat" else TorchLines, self.options)
        return replace(steered, writers=steered.writers.each(partial(replace, batch=self.batch)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TorchLines(LineWriter):
    """A line writer whose model torch computes."""

    model: TorchModel
    batch: int = 0

    def asked(self, label: int) -> tuple[Sequence[int], frozenset[int]]:
        """Return the tokens of the prompt of a label, and those that end a text."""
        return [*self.model.start, *self.prompt(label)], self.model.line_ends

    def shifted(
        self, label: int, n: int, shift: Floats, randomness: Randomness, on_progress: OnWritten | None = None
    ) -> Drafts:
        """Write `n` texts from public examples, with log-probabilities moved by `shift` `(size,)`."""
        prompt, ends = self.asked(label)
        (seed,) = uniform_below(1 << 32, 1, randomness).tolist()
        return self.model.write(
            prompt, n, shift=shift, ends=ends, most=self.tokens, least=self.least, temperature=self.temperature,
            options=self.options, seed=seed, batch=self.batch, on_progress=on_progress,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TorchChat(TorchLines):
    """A writer that asks a chat model by its own template."""

    def asked(self, label: int) -> tuple[Sequence[int], frozenset[int]]:
        """Return the tokens of the question for a label, and those that end the answer."""
        return self.model.asked(question(self.shown, self.names[label], length=self.length)), self.model.stops

    def line(self, tokens: Sequence[int]) -> str:
        """Return the text in an answer."""
        return one_line(answer_line(self.model.text(tokens), whole=self.length is not None))
