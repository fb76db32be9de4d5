"""Data files for the jobs that random_jobs.py draws, in the formats of docs/jobs.md, and their readers for
torch_jobs.py. Written from the formats' specifications, independently of acan's code."""
import gzip
import json
import pathlib
import struct

import_error = None
try:
    import numpy
except ImportError as error:  # random_jobs.py can write files without it
    numpy, import_error = None, error

NPY_CODES = {"|u1": "B", "|i1": "b", "<u2": "H", "<i4": "i", "<u4": "I", "<i8": "q", "<f4": "f"}
IDX_TYPES = {"B": 0x08, "i": 0x0C, "f": 0x0D}
SPACE = "\u2581"  # SentencePiece's replacement for a space


def npy(kind, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\1\0v\0" + header.encode() + struct.pack(f"<{len(values)}{NPY_CODES[kind]}", *values)


def idx(code, shape, values, zipped):
    head = struct.pack(f">BBBB{len(shape)}I", 0, 0, IDX_TYPES[code], len(shape), *shape)
    content = head + struct.pack(f">{len(values)}{code}", *values)
    return gzip.compress(content) if zipped else content


def csv(rows, columns, values):
    lines = [",".join(repr(value) for value in values[i * columns:(i + 1) * columns]) for i in range(rows)]
    return ("\n".join(lines) + "\n").encode()


# ---- SentencePiece -------------------------------------------------------------------------------

def varint(value):
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, value):
    """A field of a protobuf message: bytes, an integer, or a float."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def sentencepiece_model(pieces, kind):
    """A message of sentencepiece_model.proto. `pieces` are (text, score) and follow <unk>, <s> and </s>; `kind` is
    1 for unigram, 4 for characters. Only spaces are normalized."""
    model = b""
    for text, score, of in [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)] + [
            (text, score, 1) for text, score in pieces]:
        model += field(1, field(1, text.encode()) + field(2, score) + field(3, of))
    trainer = field(3, kind) + field(4, len(pieces) + 3)
    normalizer = field(1, b"identity") + field(3, 0) + field(4, 0) + field(5, 1)
    return model + field(2, trainer) + field(3, normalizer)


def draw_sentencepiece(random, text, most):
    """A model for a text, with a limited number of tokens: (content, pieces or None). The pieces are returned for
    models of characters, whose tokens are unambiguous; only acan reads other models."""
    letters = sorted({SPACE if each == " " else each for each in text})
    random.shuffle(letters)
    if len(letters) + 3 > most:
        letters = letters[:most - 3]  # all others are <unk>
    if random.random() < 0.5:
        pieces = [(each, -1.0 - i / 64) for i, each in enumerate(letters)]
        return sentencepiece_model(pieces, 4), letters
    longer = {text[i:i + n].replace(" ", SPACE) for i in range(0, len(text), 7) for n in (2, 3)}
    longer = sorted(longer - set(letters))[:max(0, most - 3 - len(letters))]
    pieces = [(each, -random.uniform(1, 12)) for each in letters + longer]
    return sentencepiece_model(pieces, 1), None


def character_tokens(text, pieces):
    """The tokens of a text by a model of characters. Adjacent unknown characters become one <unk>."""
    numbers = {each: i + 3 for i, each in enumerate(pieces)}
    tokens = []
    for each in text:
        token = numbers.get(SPACE if each == " " else each, 0)
        if token or not tokens or tokens[-1]:
            tokens.append(token)
    return tokens


# ---- safetensors ---------------------------------------------------------------------------------

def with_states(content, chosen, value):
    """A file like the safetensors file `content` that also has optimizer state, as a snapshot does: two matrices of
    `value` for each float32 tensor whose name is `chosen`."""
    begin = 8 + int.from_bytes(content[:8], "little")
    header, values, end = json.loads(content[8:begin]), [content[begin:]], len(content) - begin
    names = [name for name, tensor in header.items() if tensor.get("dtype") == "F32" and chosen(name)]
    for name in names:
        first, last = header[name]["data_offsets"]
        for suffix in (".state0", ".state1"):
            header[name + suffix] = {**header[name], "data_offsets": [end, end + last - first]}
            values.append(struct.pack("<f", value) * ((last - first) // 4))
            end += last - first
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(values)


# ---- readers -------------------------------------------------------------------------------------

def load_array(path):
    """Loads a file of numbers as a NumPy array."""
    if numpy is None:
        raise import_error
    content = pathlib.Path(path).read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if content[:6] == b"\x93NUMPY":
        return numpy.load(path)
    if content[:2] == b"\0\0":
        kinds = {0x08: "u1", 0x0C: ">i4", 0x0D: ">f4"}
        shape = struct.unpack_from(f">{content[3]}I", content, 4)
        values = numpy.frombuffer(content, kinds[content[2]], offset=4 + 4 * content[3])
        return values.reshape(shape).astype(values.dtype.newbyteorder("="))
    rows = [[float(each) for each in line.split(",")] for line in content.decode().splitlines()]
    return numpy.array(rows, dtype=numpy.float32)
