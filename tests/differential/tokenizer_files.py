"""Small files tokenizer.json of the kinds that limpid reads, and changes to them."""
import copy
import json
import os

from gguf_files import byte_letters
from json_values import SHARED, Pairs, change_json, changed_text, parse, text_of

LLAMA3 = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
          "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")


def words_of(pieces, merges):
    """`pieces` and what the merges make of them, in this order."""
    vocab = list(dict.fromkeys(pieces))
    for left, right in merges:
        if left + right not in vocab:
            vocab.append(left + right)
    return vocab


def added(vocab, *entries):
    out, n = [], len(vocab)
    for content, special, *flags in entries:
        if content not in vocab:
            n += 1
        out.append(Pairs([["id", vocab.index(content) if content in vocab else n - 1], ["content", content],
                          ["single_word", "single_word" in flags], ["lstrip", "lstrip" in flags],
                          ["rstrip", "rstrip" in flags], ["normalized", "normalized" in flags], ["special", special]]))
    return out


def tokenizer(vocab, merges, added_tokens, normalizer, pre, post, decoder, **model):
    fields = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
              "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, **model}
    return parse(text_of(Pairs([
        ["version", "1.0"], ["truncation", None], ["padding", None], ["added_tokens", added_tokens],
        ["normalizer", normalizer], ["pre_tokenizer", pre], ["post_processor", post], ["decoder", decoder],
        ["model", Pairs([*map(list, fields.items()), ["vocab", Pairs([w, i] for i, w in enumerate(vocab))],
                         ["merges", merges]])]])))


def step(kind, **fields):
    return Pairs([["type", kind], *map(list, fields.items())])


BYTE_LEVEL = step("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
BYTE_LEVEL_ONLY = step("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)
SPLIT = step("Split", pattern=Pairs([["Regex", LLAMA3]]), behavior="Isolated", invert=False)
PREPEND = step("Prepend", prepend="\u2581")
SPACES = step("Replace", pattern=Pairs([["String", " "]]), content="\u2581")
GEMMA_DECODER = step("Sequence", decoders=[step("Replace", pattern=Pairs([["String", "\u2581"]]), content=" "),
                                           step("ByteFallback"), step("Fuse")])
LLAMA_DECODER = step("Sequence", decoders=[*GEMMA_DECODER.get("decoders"), step("Strip", content=" ", start=1, stop=0)])
PARTS = {
    "normalizer": [None, step("NFC"), step("NFD"), step("Lowercase"), SPACES, PREPEND,
                   step("Sequence", normalizers=[PREPEND, SPACES]), step("Sequence", normalizers=[SPACES, PREPEND]),
                   step("Sequence", normalizers=[]), step("Sequence", normalizers=[step("NFC")])],
    "pre_tokenizer": [None, BYTE_LEVEL, BYTE_LEVEL_ONLY, step("Sequence", pretokenizers=[SPLIT, BYTE_LEVEL_ONLY]),
                      step("Sequence", pretokenizers=[step("Digits", individual_digits=True), BYTE_LEVEL]),
                      step("Sequence", pretokenizers=[step("Digits", individual_digits=False), BYTE_LEVEL]),
                      step("Split", pattern=Pairs([["String", " "]]), behavior="MergedWithPrevious", invert=False),
                      step("Metaspace", replacement="\u2581", prepend_scheme="first", split=False),
                      step("Metaspace", replacement="\u2581", prepend_scheme="always", split=False),
                      step("Metaspace", replacement="\u2581", prepend_scheme="never", split=False),
                      step("Metaspace", replacement="\u2581", prepend_scheme="always", split=True),
                      step("Whitespace"), step("ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True)],
    "post_processor": [None, step("ByteLevel", add_prefix_space=True, trim_offsets=False, use_regex=True)],
    "decoder": [None, BYTE_LEVEL, GEMMA_DECODER, LLAMA_DECODER, step("Fuse")],
}


def tokenizer_bases():
    letters = list(byte_letters().values())
    merges = [tuple(m.split()) for m in ("\u0120 t", "h e", "\u0120t he", "i n", "e r", "\u0120 a", "a n", "l l", "1 2",
                                         "\u0120a n", "\u010a \u010a", "\u0120 \u0120", "o n", "\u0120t h", "\u00c3 \u00a9")]
    words = words_of(letters, merges)
    marks = [("<|endoftext|>", True), ("<|im_start|>", True)]
    spm_merges = [tuple(m.replace("_", "\u2581").split()) for m in (
        "_ t", "h e", "_t he", "i n", "e r", "_ a", "a n", "l l", "1 2", "_a n", "_ _", "o n", "\u00e9 \u00e9")]
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + list(
        "\u2581abcdefghijklmnopqrstuvwxyzTH12.,!\u00e9\u4e2d")
    spm = words_of(pieces, spm_merges)
    ends = added(spm, ("<unk>", True), ("<s>", True), ("</s>", True))
    more = added(words, *marks, ("  ", False), ("er", False, "normalized"), ("an", False, "single_word", "lstrip"))
    sequence, byte = step("Sequence", pretokenizers=[SPLIT, BYTE_LEVEL_ONLY]), BYTE_LEVEL
    spm_model = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    return [
        tokenizer(words, [" ".join(m) for m in merges], added(words, *marks), None, byte, byte, byte),
        tokenizer(words, [list(m) for m in merges], more, step("NFC"), sequence, None, byte),
        tokenizer(words, [list(m) for m in merges], added(words, *marks), None, sequence, byte, byte, ignore_merges=True),
        tokenizer(spm, [list(m) for m in spm_merges], ends, SPACES, PARTS["pre_tokenizer"][6], None, GEMMA_DECODER,
                  **spm_model),
        tokenizer(spm, [" ".join(m) for m in spm_merges], ends, step("Sequence", normalizers=[PREPEND, SPACES]), None, None,
                  LLAMA_DECODER, **spm_model),
        tokenizer(spm, [list(m) for m in spm_merges], ends, None, PARTS["pre_tokenizer"][7], None, LLAMA_DECODER, **spm_model),
    ] + [cut_tokenizer(SHARED + f"tokenizers/{name}/tokenizer.json") for name in ("llama3", "qwen3")
         if os.path.exists(SHARED + f"tokenizers/{name}")]


def cut_tokenizer(path):
    """The first 300 tokens, the merges that make them, four added tokens."""
    with open(path, "rb") as file:
        whole = json.load(file)
    vocab = [w for w, i in sorted(whole["model"]["vocab"].items(), key=lambda item: item[1]) if i < 300]
    known = set(vocab)
    merges = [m.split(" ") if isinstance(m, str) else m for m in whole["model"]["merges"][:2000]]
    whole["model"]["merges"] = [m for m in merges if m[0] in known and m[1] in known and "".join(m) in known]
    whole["model"]["vocab"] = {w: i for i, w in enumerate(vocab)}
    whole["added_tokens"] = [{**t, "id": 300 + i} for i, t in enumerate(whole["added_tokens"][:4])]
    return parse(json.dumps(whole))


def change_tokenizer(r, root):
    model, marks = root.get("model"), root.get("added_tokens")
    vocab, merges = (model.get("vocab"), model.get("merges")) if isinstance(model, Pairs) else (None, None)
    if not all(isinstance(x, list) and x for x in (vocab, merges, marks)) or not isinstance(marks[-1], Pairs):
        return change_json(r, root)
    kind, i, j = r.randrange(11), r.randrange(len(vocab)), r.randrange(len(merges))
    if kind in (0, 1):
        part = r.choice(list(PARTS))
        root.put(part, copy.deepcopy(r.choice(PARTS[part])))
    elif kind == 2:
        model.put(*r.choice([("ignore_merges", True), ("byte_fallback", False), ("byte_fallback", True), ("fuse_unk", True),
                             ("unk_token", r.choice([None, "<unk>", "a", "zz"])), ("dropout", r.choice([0.0, 0.1])),
                             ("continuing_subword_prefix", r.choice(["", "##"])), ("end_of_word_suffix", "</w>")]))
    elif kind == 3:
        other = r.randrange(len(vocab))
        vocab[i][1], vocab[other][1] = vocab[other][1], vocab[i][1]
    elif kind == 4:
        vocab[i] = [changed_text(r, str(vocab[i][0])), vocab[i][1]]
    elif kind == 5:
        other = r.randrange(len(merges))
        merges[j], merges[other] = merges[other], merges[j]
    elif kind == 6:
        merges.insert(j, copy.deepcopy(r.choice([merges[-1 - j], ["a", "a"], "a a", ["\u2581", "\u2581"], "a", "a  b", ["a"]])))
    elif kind == 7:
        del merges[j]
    elif kind == 8:  # an added token more
        entry = copy.deepcopy(marks[-1])
        entry.put("id", len(vocab) + len(marks) if r.random() < 0.2 else marks[-1].get("id") + 1
                  if isinstance(marks[-1].get("id"), int) else 0)
        entry.put("content", r.choice(["<x>", "the", " an", "\u2581an", "\u0120an", "A", "\u00e9", "e\u0301", "", "<|endoftext|>"]))
        marks.append(entry)
    elif kind == 9:
        mark = r.choice(marks)
        if isinstance(mark, Pairs):
            flag = r.choice(["single_word", "lstrip", "rstrip", "normalized", "special"])
            mark.put(flag, not mark.get(flag))
    else:
        del vocab[i]
    return None
