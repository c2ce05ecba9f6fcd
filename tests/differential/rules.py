"""The differences that are known: who alone refuses a file, with which words, and why limpid is as it is.

A rule whose `holds` is given is only believed where the file has what the message says, as Python's own
json reads it.
"""
import collections
import json
import re
import struct

from gguf_files import byte_letters

Rule = collections.namedtuple("Rule", "name kind side words reason holds", defaults=(None,))
LIMPID, PEER, CONTENTS = "limpid alone refuses", "the package alone refuses", "the contents differ"
TEXT = "the decoded text differs"
ENDLESS, DIES = "limpid refuses, the package does not end", "limpid refuses, the package aborts"


# ---- what a file has ----

def twice(data):
    """The keys that occur twice in one object, and what the text says without them."""
    found = []

    def pairs(items):
        found.extend(k for k, n in collections.Counter(k for k, _ in items).items() if n > 1)
        return dict(items)

    return found, json.loads(data, object_pairs_hook=pairs)


def header(data):
    return data[8:8 + struct.unpack("<Q", data[:8])[0]]


def entries(data):
    return [e for name, e in json.loads(header(data)).items() if name != "__metadata__"]


def ids_are_not_in_order(data):
    """Whether tokens have other ids than 0 .. n - 1 once each, or added ones others than the next."""
    root = json.loads(data)
    vocab, marks = root["model"]["vocab"], root.get("added_tokens") or []
    new = [t["id"] for t in marks if t["content"] not in vocab]
    return (sorted(vocab.values()) != list(range(len(vocab))) or new != list(range(len(vocab), len(vocab) + len(new)))
            or any(vocab.get(t["content"], t["id"]) != t["id"] for t in marks))


def lengths_are_said(data):
    root = json.loads(data)
    return root.get("truncation") is not None or root.get("padding") is not None


def readable(data):
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def prefix_hides_control(data):
    root = json.loads(data)
    return "Prepend" in json.dumps(root.get("normalizer")) and any(
        t["normalized"] and t["special"] for t in root["added_tokens"])


def pieces(root, part, kind):
    """The steps of this type in a part of a tokenizer.json."""
    found, todo = [], [root.get(part)]
    while todo:
        value = todo.pop()
        found += [value] if isinstance(value, dict) and value.get("type") == kind else []
        todo += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return found


def decodes_otherwise(data):
    """Whether the decoder is no inverse of what the tokenizer does."""
    root = json.loads(data)
    if pieces(root, "pre_tokenizer", "ByteLevel"):
        return not pieces(root, "decoder", "ByteLevel")
    spaces = pieces(root, "decoder", "Metaspace") or pieces(root, "decoder", "Replace")
    kinds = [step.get("type") for step in root["decoder"].get("decoders", [])] if root.get("decoder") else []
    return not spaces or kinds[:3] != ["Replace", "ByteFallback", "Fuse"]


def strips_without_prefix(data):
    root = json.loads(data)
    escaped = pieces(root, "normalizer", "Replace") or pieces(root, "pre_tokenizer", "Metaspace")
    return bool(pieces(root, "decoder", "Strip")) and not escaped


def added_letters_are_bytes(data):
    root = json.loads(data)
    return bool(pieces(root, "decoder", "ByteLevel")) and any(not t["content"].isascii() for t in root["added_tokens"])


def bytes_are_missing(data):
    model = json.loads(data)["model"]
    return model["byte_fallback"] and any(f"<0x{b:02X}>" not in model["vocab"] for b in range(256))


def letters_are_missing(data):
    root = json.loads(data)
    return bool(pieces(root, "pre_tokenizer", "ByteLevel")) and not set(byte_letters().values()) <= set(root["model"]["vocab"])


def in_two_rounds(data):
    marks = json.loads(data)["added_tokens"]
    return any(t["normalized"] for t in marks) and not all(t["normalized"] for t in marks)


def spaces_are_taken(data):
    marks = json.loads(data)["added_tokens"]
    return any(t["lstrip"] or t["rstrip"] for t in marks) and any(t["content"] != t["content"].strip() for t in marks)


# ---- the rules ----

SAFETENSORS = [
    ("a fourth key of a tensor", LIMPID, r"wanted dtype, shape and data_offsets, got an object of \d",
     "Passed over by the package. A key that one reader follows and another does not makes two models of one file.",
     lambda d: any(set(e) - {"dtype", "shape", "data_offsets"} for e in entries(d))),
    ("a name or key twice", LIMPID, r"appears twice|duplicate object key|\"__metadata__\" twice|^header: tensor",
     "The format forbids it, the package takes the last and does not look at the others.", lambda d: bool(twice(header(d))[0])),
    ("more than four dimensions", LIMPID, r"\d+ dimensions \(at most 4\)",
     "No tensor of a language model has more; limpid has room for four.", lambda d: any(len(e["shape"]) > 4 for e in entries(d))),
    ("NUL in a text", LIMPID, r"\\u0000 is not allowed|NUL byte in object key",
     "A name with a NUL is two names to programs in C.", lambda d: b"\\u0000" in header(d)),
    ("__metadata__ is null", LIMPID, r"\"__metadata__\": wanted an object, got null",
     "The format wants an object of texts.", lambda d: json.loads(header(d))["__metadata__"] is None),
    ("2^63 or more", LIMPID, r"too big integer",
     "limpid's JSON has integers of 63 bits. Only an empty tensor can have such a dimension beside its 0.",
     lambda d: bool(re.search(rb"\d{19}", header(d)))),
]

GGUF = [
    ("length of a name", LIMPID, r"(key|tensor name) of \d+ bytes, wanted 1 to",
     "Keys have 1 to 1024 bytes, names 1 to 63, as in ggml; the package takes any length."),
    ("a byte in a name", LIMPID, r"(key|tensor name) \".*\" holds byte 0x",
     "Names are printable ASCII without '/', since they are shown and compared."),
    ("a bool that is neither 0 nor 1", LIMPID, r"bool of value \d+", "The format says 0 or 1; the package takes any byte."),
    ("alignment", LIMPID, r"general\.alignment\": got \d+",
     "A power of two from 8 to 65536. The format wants a multiple of 8; the package takes any power of two."),
    ("number of dimensions", LIMPID, r"has \d+ dimensions, wanted 1 to 4", "ggml has four dimensions; the package reads any number."),
    ("a dimension of 0", LIMPID, r"dimension \d is 0", "An empty tensor has no use in a model; the package takes it."),
    ("shape of quantised rows", LIMPID, r"its size overflows|rows of \d+ elements",
     "The package rounds the bytes of a tensor down to whole blocks, and products of dimensions wrap at 2^64."),
    ("type of a tensor", LIMPID, r"type \w+ is not supported", "Integers, IQ, TQ and FP4 types: limpid has no unpacking for them."),
    ("place of a tensor", LIMPID, r"offset \d+ is not a multiple of|is not inside the file|overlap at offset",
     "The package looks at no offset but to read there: two tensors may share their bytes or lie anywhere."),
    ("bytes of no tensor", LIMPID, r"gap of \d+ bytes|bytes follow the last tensor",
     "limpid wants every byte to be some tensor's or padding, so that no second file hides; the package does not look."),
    ("no language model that limpid knows", LIMPID, r"general\.architecture\".*(missing|wanted string)|unsupported architecture|no tensors",
     "limpid reads the tensors of the families that it knows; the package needs no architecture."),
    ("an empty array", LIMPID, r"array of (arrays|an unknown type)",
     "Of an array without elements the package does not look at the type; arrays of arrays the format does not have."),
    ("a key cut short", LIMPID, r"truncated|elements in \d+ bytes|keys in \d+ bytes|tensors in \d+ bytes",
     "At the end of the file the package takes fewer bytes than a length says."),
    ("counted past the end", ENDLESS, r"", "The package walks an array element by element, also past the end of the "
     "file, and does not come back within a tenth of a second of computing. limpid compares the count with the bytes that are left."),
    ("a key called GGUF.version", PEER, r"KeyError: 'Duplicate GGUF\.(version|tensor_count|kv_count)",
     "The package keeps the header's numbers under these names among the keys."),
]

TOKENIZER = [
    ("a key twice", LIMPID, r"duplicate object key|have the same text",
     "The package takes the last.", None),
    ("ids that are not 0 .. n - 1 in their order", LIMPID,
     r"ids have a gap|no token has id|id \d+: both|has id -?\d+ in the vocabulary|the next behind the vocabulary|"
     r"added_tokens: id of .* is outside",
     "Two tokens of one id, ids without a token, added tokens with other ids than the package numbers them by: it ignores those. "
     "A row of the model would belong to two tokens, or to none.", ids_are_not_in_order),
    ("NUL in a text", LIMPID, r"\\u0000 is not allowed|NUL byte in object key", "A text of limpid's JSON ends at a NUL.",
     lambda d: b"\\u0000" in d),
    ("a key without a value", LIMPID, r"':' expected near",
     "No JSON. The package does not read the value of a key that it does not know, and goes on behind the key.",
     lambda d: not readable(d)),
    ("a step that limpid does not have", LIMPID,
     r"(normalizer|pre_tokenizer|decoder|post_processor): (type|pattern|Replace|Prepend|Split|ByteLevel option|Metaspace|Strip|"
     r"prepend_scheme|a step without|a Sequence without|more than|\"|ByteLevel is not)",
     "limpid follows the steps of published language models and refuses others by name, since to leave one out changes ids."),
    ("steps that do not go together", LIMPID,
     r"ByteLevel after a step that replaces|patterns or NFC without ByteLevel|Metaspace after Prepend|Prepend without a Replace|"
     r"neither ByteLevel nor byte_fallback|and no token for byte|Prepend twice|\"normalized\" with this normalizer",
     "No published tokenizer has them, and limpid's two algorithms do not: byte-level BPE, and BPE with byte fallback and spaces "
     "as U+2581."),
    ("a model that limpid does not have", LIMPID, r"model: (type|continuing_subword_prefix|wanted \"vocab\"|\"|unk_token \".*\" is no token)",
     "BPE without prefix, suffix and dropout. An unk_token that is no token the package refuses with the first character that needs it."),
    ("a merge twice", LIMPID, r"an earlier merge has the same pair", "The package takes the later rank. Which was meant, nobody can say."),
    ("a letter outside the byte alphabet", LIMPID, r"has a character outside the byte alphabet",
     "Such a token of a byte-level vocabulary stands for no bytes; the package decodes it as its own letters."),
    ("an added token without a text", LIMPID, r"its text is empty", "It would be found everywhere; the package passes over it."),
    ("a prefix inside words", DIES, r"continuing_subword_prefix",
     "The package cuts the prefix's number of bytes off a token, also in the middle of a character, and panics with what is left.",
     lambda d: bool(json.loads(d)["model"]["continuing_subword_prefix"])),
    ("truncation and padding", PEER, r"",
     "Lengths of texts are the caller's business: limpid does not read these two, the package checks them.", lengths_are_said),
    ("fields without a part in the ids", PEER, r"missing field|invalid type|invalid value|invalid length|untagged enum|unknown variant",
     "The package wants every field of a step or token that it knows, of its type. limpid looks at those that it follows; one "
     "that is absent or null has its default.", readable),
    ("control tokens with \"normalized\" behind a prefix", CONTENTS, r"",
     "The package puts U+2581 before the token's text too, and so finds it at the beginning of a text only. Old files of Llama "
     "have that; limpid finds the tokens as they are written.", prefix_hides_control),
    ("a decoder of another kind", TEXT, r"", "limpid decodes by the inverse of how it encodes, whatever the decoder of the file is. "
     "The ids are equal.", decodes_otherwise),
    ("Strip where spaces are bytes", TEXT, r"", "The decoder drops the first space of a text, which a prefix has put there. Where "
     "nothing puts one, the package drops a space of the text itself; limpid drops that of a U+2581 alone.", strips_without_prefix),
    ("added tokens beyond ASCII", TEXT, r"", "The package's ByteLevel decoder takes the letters of an added token for bytes too: "
     "\u00e9 becomes the byte 0xE9. limpid gives their text.", added_letters_are_bytes),
    ("an unknown character before bytes", CONTENTS, r"", "Where a byte has no token of its own, a character becomes unk_token. The "
     "package puts that behind the byte tokens of the characters that follow. limpid keeps the order. Published vocabularies have "
     "all 256.", bytes_are_missing),
    ("text that is no UTF-8", TEXT, r"", "Where a byte has no token, half a character may be left. limpid decodes the bytes that there "
     "are, the package U+FFFD in their place.", letters_are_missing),
    ("white space taken twice", CONTENTS, r"", "White space that lstrip or rstrip takes is part of one token; the package finds "
     "another added token inside it all the same.", spaces_are_taken),
    ("\"normalized\" tokens beside others", CONTENTS, r"", "The package looks for those without \"normalized\" in the whole text first. "
     "limpid takes what comes first in the text, which is another where two overlap.", in_two_rounds),
]

RULES = {kind: [Rule(row[0], kind, row[1], row[2], row[3], row[4] if len(row) > 4 else None) for row in rows]
         for kind, rows in (("safetensors", SAFETENSORS), ("gguf", GGUF), ("tokenizer", TOKENIZER))}


def rule_of(kind, side, message, data):
    """The first rule that fits; None: there is none."""
    for rule in RULES[kind]:
        if rule.side == side and re.search(rule.words, message):
            try:
                if not rule.holds or rule.holds(data):
                    return rule
            except (ValueError, KeyError, TypeError, AttributeError):
                pass
    return None
