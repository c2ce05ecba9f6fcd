"""The readers of untrusted files: the source of each, and the test programs that read its format.

Used by scripts/mutation, scripts/coverage and scripts/messages. The tests make their files themselves, so that both
show the same in a plain clone.
"""
import glob
import hashlib
import re
import subprocess

# reader: (sources, programs of tests/)
READERS = {
    "gguf": (["weights/gguf/gguf.c", "weights/gguf/values.c", "weights/gguf/config.c", "weights/gguf/families.c",
              "weights/gguf/vocabulary.c"],
             ["test_gguf", "test_gguf_families", "test_gguf_files", "test_gguf_hostile", "test_gguf_weights",
              "test_no_memory"]),
    "safetensors": (["weights/hf/safetensors.c", "weights/hf/safetensors_json.c"],
                    ["test_safetensors", "test_hf_checkpoint", "test_no_memory"]),
    "hf_config": (["weights/hf/config.c", "weights/hf/families.c", "weights/hf/keys.c", "weights/hf/positions.c"],
                  ["test_hf_config", "test_hf_families", "test_hf_checkpoint", "test_no_memory"]),
    "hf_directory": (["weights/hf/checkpoint.c"], ["test_hf_checkpoint", "test_hf_shards", "test_no_memory"]),
    "llama2c": (["weights/llama2c/llama2c.c"], ["test_llama2c", "test_no_memory"]),
    "plan": (["weights/plan.c", "weights/config.c"],
             ["test_plan", "test_config", "test_rope_divisors", "test_gguf_hostile", "test_safetensors",
              "test_llama2c", "test_no_memory"]),
    "tokenizer_bin": (["tokenizer/files/tokenizer_bin.c"], ["test_tokenizer_bin", "test_no_memory"]),
    "tokenizer_model": (["tokenizer/sentencepiece/" + name + ".c" for name in ("model_file", "charsmap", "normalizer", "unigram",
                                                                             "sentencepiece")] + ["tokenizer/bpe/piece_trie.c"],
                        ["test_sentencepiece", "test_charsmap", "test_unigram", "test_no_memory"]),
    "tokenizer_json": (["tokenizer/files/tokenizer_json.c", "tokenizer/files/json_pipeline.c",
                        "tokenizer/files/json_vocabulary.c", "tokenizer/files/tiktoken.c"],
                       ["test_tokenizer_json", "test_tokenizer_files", "test_byte_bpe",
                        "test_no_memory"]),
    "json": (["base/json.c"], ["test_json", "test_hf_config", "test_no_memory"]),
    "bytes": (["base/bytes.c", "base/file_reader.c"],
              ["test_bytes", "test_file_reader", "test_llama2c", "test_cut_files", "test_gguf_hostile", "test_no_memory"]),
}


def sources(reader):
    return READERS[reader][0]


def test_source(program):
    (path,) = glob.glob(f"tests/*/{program}.c")
    return path


def tests(reader):
    """(program, "suite/name") of every test of the reader, in the order of the files."""
    for program in READERS[reader][1]:
        with open(test_source(program), encoding="utf-8") as file:
            for suite, name in re.findall(r"^Test\((\w+),\s*(\w+)", file.read(), re.M):
                yield program, f"{suite}/{name}"


def source_hash(reader):
    """The beginning of the SHA-256 over the reader and its tests: figures hold for this state."""
    whole = hashlib.sha256()
    for path in [*sources(reader), *map(test_source, READERS[reader][1])]:
        with open(path, "rb") as file:
            whole.update(path.encode() + b"\0" + file.read() + b"\0")
    return whole.hexdigest()[:12]


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")


def holder(lines, number):
    """The function around a line."""
    for line in reversed(lines[:number]):
        found = re.match(r"[A-Za-z_].*?(\w+)\(", line)
        if found:
            return found[1]
    return "-"


def make(switches, *targets, dry=False):
    """Builds; with dry, returns the commands that would run and builds nothing."""
    command = ["nice", "-n", "19", "make", "--no-print-directory", "BACKEND=reference", "PLAIN=1", *switches]
    if dry:
        return subprocess.run([*command, "-n", "V=1", *targets], check=True, capture_output=True, text=True).stdout
    subprocess.run([*command, "-j2", *targets], check=True, stdout=subprocess.DEVNULL)
    return ""
