"""Whisper as CTranslate2 keeps it, written as whisper.cpp reads it: `ggml.convert(FOLDER, FILE)`.

No package registry has models in whisper.cpp's own format; with this, its compiled server is tested
with the very weights that faster-whisper is tested with. Both keep them as 16-bit floats, so
nothing is lost. Sources: CTranslate2's `model_spec.py` for the one format, whisper.cpp's
`convert-pt-to-ggml.py` and the loader in `whisper.cpp` for the other.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Tensors = Mapping[str, Array]

MAGIC: Final = 0x67676D6C
HALF: Final = 1
"""The type of weights that are 16-bit floats."""

DTYPES: Final = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
ENGLISH_WORDS, ALL_WORDS = 50_256, 50_257
"""Tokens that are text; of an English model, and of one for many languages."""

ALL_VOCABULARY: Final = 51_865
RATE, WINDOW = 16_000, 400


def convert(folder: Path, target: Path) -> None:
    """Write the model of a CTranslate2 folder (`model.bin`, `tokenizer.json`) to a file."""
    weights = read_ctranslate2(folder / "model.bin")
    shape = Shape(weights)
    with target.open("wb") as out:
        _integers(out, MAGIC, *shape.header())
        mels = mel_filters(shape.mels)
        _integers(out, *mels.shape)
        out.write(mels.tobytes())
        words = vocabulary(folder / "tokenizer.json", shape.words)
        _integers(out, len(words))
        for word in words:
            _integers(out, len(word))
            out.write(word)
        for name, tensor in tensors(weights, shape):
            _tensor(out, name, tensor)


def read_ctranslate2(file: Path) -> dict[str, Array]:
    """Every variable by its name."""
    with file.open("rb") as source:

        def number(kind: str) -> int:
            [value] = struct.unpack(f"<{kind}", source.read(struct.calcsize(kind)))
            return int(value)

        def text() -> str:
            return source.read(number("H"))[:-1].decode()

        version, spec, _ = number("I"), text(), number("I")
        if version < 4 or spec != "WhisperSpec":
            raise ValueError(f"{file} is {spec}, version {version}: no Whisper that can be read.")
        found: dict[str, Array] = {}
        for _ in range(number("I")):
            name = text()
            dimensions = [number("I") for _ in range(number("B"))]
            kind = DTYPES[number("B")]
            found[name] = np.frombuffer(source.read(number("I")), kind).reshape(dimensions)
        for _ in range(number("I")):
            alias, name = text(), text()
            found[alias] = found[name]
    if any(name.endswith("weight_scale") for name in found):
        raise ValueError(f"{file} has weights of 8 bits; those of 16 bits are needed.")
    return found


class Shape:
    """How large the model is; all of it stands in its weights."""

    def __init__(self, weights: Tensors) -> None:
        self.vocabulary, self.width = weights["decoder/embeddings/weight"].shape
        self.text_context = len(weights["decoder/position_encodings/encodings"])
        self.audio_context = len(weights["encoder/position_encodings/encodings"])
        self.mels = weights["encoder/conv1/weight"].shape[1]
        self.encoder_heads = int(weights["encoder/num_heads"])
        self.decoder_heads = int(weights["decoder/num_heads"])
        self.encoder_layers = _layers(weights, "encoder")
        self.decoder_layers = _layers(weights, "decoder")
        self.words = ALL_WORDS if self.vocabulary >= ALL_VOCABULARY else ENGLISH_WORDS

    def header(self) -> tuple[int, ...]:
        """In the order of whisper.cpp's `whisper_hparams`."""
        audio = (self.audio_context, self.width, self.encoder_heads, self.encoder_layers)
        text = (self.text_context, self.width, self.decoder_heads, self.decoder_layers)
        return (self.vocabulary, *audio, *text, self.mels, HALF)


def _layers(weights: Tensors, side: str) -> int:
    return len({name.split("/")[1] for name in weights if name.startswith(f"{side}/layer_")} - {
        "layer_norm"
    })  # fmt: skip


def tensors(weights: Tensors, shape: Shape) -> Iterator[tuple[str, Array]]:
    """Each tensor by the name that whisper.cpp has for it."""
    yield "encoder.positional_embedding", weights["encoder/position_encodings/encodings"]
    yield "decoder.positional_embedding", weights["decoder/position_encodings/encodings"]
    yield "decoder.token_embedding.weight", weights["decoder/embeddings/weight"]
    for conv in ("conv1", "conv2"):
        yield f"encoder.{conv}.weight", weights[f"encoder/{conv}/weight"]
        yield f"encoder.{conv}.bias", weights[f"encoder/{conv}/bias"].reshape(-1, 1)
    for number in range(shape.encoder_layers):
        yield from _block(weights, f"encoder.blocks.{number}", f"encoder/layer_{number}")
    for number in range(shape.decoder_layers):
        name, source = f"decoder.blocks.{number}", f"decoder/layer_{number}"
        yield from _block(weights, name, source)
        yield from _cross_attention(weights, name, f"{source}/attention", shape.width)
    yield from _norm(weights, "encoder.ln_post", "encoder")
    yield from _norm(weights, "decoder.ln", "decoder")


def _block(weights: Tensors, name: str, source: str) -> Iterator[tuple[str, Array]]:
    own = f"{source}/self_attention"
    weight, bias = weights[f"{own}/linear_0/weight"], weights[f"{own}/linear_0/bias"]
    query, key, value = np.split(weight, 3)
    query_bias, _, value_bias = np.split(bias, 3)  # Whisper's keys have none.
    yield from _norm(weights, f"{name}.attn_ln", own)
    yield f"{name}.attn.query.weight", query
    yield f"{name}.attn.query.bias", query_bias
    yield f"{name}.attn.key.weight", key
    yield f"{name}.attn.value.weight", value
    yield f"{name}.attn.value.bias", value_bias
    yield from _linear(weights, f"{name}.attn.out", f"{own}/linear_1")
    yield from _norm(weights, f"{name}.mlp_ln", f"{source}/ffn")
    yield from _linear(weights, f"{name}.mlp.0", f"{source}/ffn/linear_0")
    yield from _linear(weights, f"{name}.mlp.2", f"{source}/ffn/linear_1")


def _cross_attention(
    weights: Tensors, name: str, source: str, width: int
) -> Iterator[tuple[str, Array]]:
    both, bias = weights[f"{source}/linear_1/weight"], weights[f"{source}/linear_1/bias"]
    yield from _norm(weights, f"{name}.cross_attn_ln", source)
    yield from _linear(weights, f"{name}.cross_attn.query", f"{source}/linear_0")
    yield f"{name}.cross_attn.key.weight", both[:width]
    yield f"{name}.cross_attn.value.weight", both[width:]
    yield f"{name}.cross_attn.value.bias", bias[width:]
    yield from _linear(weights, f"{name}.cross_attn.out", f"{source}/linear_2")


def _linear(weights: Tensors, name: str, source: str) -> Iterator[tuple[str, Array]]:
    yield f"{name}.weight", weights[f"{source}/weight"]
    yield f"{name}.bias", weights[f"{source}/bias"]


def _norm(weights: Tensors, name: str, source: str) -> Iterator[tuple[str, Array]]:
    yield f"{name}.weight", weights[f"{source}/layer_norm/gamma"]
    yield f"{name}.bias", weights[f"{source}/layer_norm/beta"]


def mel_filters(bands: int) -> Array:
    """Slaney's mel scale, linear below 1000 Hz and logarithmic above, each band of area one.

    Bands times frequencies of a window. Source: Slaney, "Auditory Toolbox" (1998), as librosa's
    `filters.mel` has it, which Whisper was trained with.
    """
    linear, knee, step = 200 / 3, 1000.0, np.log(6.4) / 27

    def to_mel(hertz: float) -> float:
        if hertz < knee:
            return hertz / linear
        return float(knee / linear + np.log(hertz / knee) / step)

    def to_hertz(mel: Array) -> Array:
        high = knee * np.exp(step * (mel - knee / linear))
        return np.asarray(np.where(mel < knee / linear, mel * linear, high))

    frequencies = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    edges = to_hertz(np.linspace(to_mel(0.0), to_mel(RATE / 2), bands + 2))
    widths = np.diff(edges)
    ramps = edges[:, None] - frequencies[None]
    rising, falling = -ramps[:-2] / widths[:-1, None], ramps[2:] / widths[1:, None]
    filters = np.maximum(0, np.minimum(rising, falling))
    return (filters * (2 / (edges[2:] - edges[:-2]))[:, None]).astype(np.float32)


def vocabulary(file: Path, words: int) -> list[bytes]:
    """The bytes of each token that is text.

    A tokenizer of GPT-2 writes each byte as a letter that can be seen: those that can be seen
    already are themselves, the others follow from 256 on.
    """
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    byte_of = {chr(byte): byte for byte in seen}
    byte_of |= {chr(256 + number): byte for number, byte in enumerate(hidden)}
    known = json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"]
    letters = {number: token for token, number in known.items()}
    return [_bytes(letters.get(number, ""), byte_of) for number in range(words)]


def _bytes(token: str, byte_of: Mapping[str, int]) -> bytes:
    if all(letter in byte_of for letter in token):
        return bytes(byte_of[letter] for letter in token)
    return token.encode()


def _tensor(out: BinaryIO, name: str, tensor: Array) -> None:
    """Matrices as they are, what is added (biases, positions) as 32-bit floats."""
    added = name.endswith(("positional_embedding", "bias")) or tensor.ndim == 1
    data = np.ascontiguousarray(tensor, np.float32 if added else np.float16)
    _integers(out, data.ndim, len(name.encode()), 0 if added else HALF)
    _integers(out, *reversed(data.shape))
    out.write(name.encode())
    out.write(data.tobytes())


def _integers(out: BinaryIO, *numbers: int) -> None:
    out.write(struct.pack(f"<{len(numbers)}i", *numbers))
