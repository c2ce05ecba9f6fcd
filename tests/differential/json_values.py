"""JSON that may be wrong (keys twice, numbers in any spelling), random changes to it, and numbers that
matter to readers.
"""
import copy
import json

SHARED = "../shared/data/"


class Raw(str):
    """Goes into the text as it is."""


class Pairs(list):
    """An object, as a list of [key, value]."""

    def get(self, key, default=None):
        return next((value for name, value in self if name == key), default)

    def put(self, key, value):
        for pair in self:
            if pair[0] == key:
                pair[1] = value
                return
        self.append([key, value])


def parse(text):
    return json.loads(text, object_pairs_hook=lambda pairs: Pairs(list(pair) for pair in pairs))


QUOTE = json.JSONEncoder(ensure_ascii=False).encode


def text_of(value):
    kind = type(value)
    if kind is str:
        return QUOTE(value)
    if kind is int:
        return str(value)
    if kind is Pairs:
        return "{" + ",".join([text_of(k) + ":" + text_of(v) for k, v in value]) + "}"
    if kind is list:
        return "[" + ",".join(map(text_of, value)) + "]"
    return str(value) if kind is Raw else QUOTE(value)


def encoded(value):
    return text_of(value).encode("utf-8", "surrogatepass")


VALUES = [0, 1, -1, 2, 3, 4, 7, 8, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**61, 2**62,
          2**63 - 1, 2**63, 2**64 - 1, 2**64]
ODD = [None, True, False, "", "a", " ", "\u2581", "<unk>", [], Pairs(), [1], [[]], Pairs([["a", 1]]), 1.5] + [
    Raw(t) for t in ("1.0", "1e2", "-0", "01", "+1", "1e999", "NaN", "0x1", "1E0", "-1.0", '"\\u0061"', '"\\u0000"',
                     '"\\ud800"', '"\\ud83d\\ude00"', '"\\x"', "nul", "'a'", "/**/1", "", "{", "]")]
LETTERS = ["a", " ", "\n", "\x00", "\x1b", "\u00e9", "e\u0301", "\u2581", "\u0120", "\u4e2d", "\U0001f600", "\ufeff",
           "\ud800", '"', "\\", "/", "<", "0", "\u0100"]


def changed_text(r, text):
    """A string with a letter more, less or another, or with its halves exchanged."""
    at = r.randrange(len(text) + 1)
    kind = r.randrange(4)
    if kind == 0:
        return text[:at] + r.choice(LETTERS) + text[at:]
    if kind == 1:
        return text[:at] + text[at + 1:]
    if kind == 2:
        return text[:at] + r.choice(LETTERS) + text[at + 1:]
    return text[at:] + text[:at]


def walk(r, root):
    """(container, index) of some value below `root`; near the root as likely as deep down."""
    here = None
    value = root
    while isinstance(value, list) and value and (here is None or r.random() < 0.8):
        i = r.randrange(len(value))
        here = (value, i)
        value = value[i][1] if isinstance(value, Pairs) else value[i]
    return here


def value_at(place):
    container, i = place
    return container[i][1] if isinstance(container, Pairs) else container[i]


def put_at(place, value):
    container, i = place
    if isinstance(container, Pairs):
        container[i] = [container[i][0], value]
    else:
        container[i] = value


def change_value(r, place, root):
    old = value_at(place)
    kind = r.randrange(5)
    if kind == 0:
        put_at(place, copy.deepcopy(r.choice(ODD)))
    elif kind == 1:
        put_at(place, copy.deepcopy(value_at(walk(r, root))))
    elif isinstance(old, bool):
        put_at(place, not old)
    elif isinstance(old, int):
        put_at(place, r.choice(VALUES) if kind == 2 else old + r.randrange(-3, 4))
    elif isinstance(old, str) and not isinstance(old, Raw):
        put_at(place, changed_text(r, old))
    else:
        put_at(place, copy.deepcopy(r.choice(ODD)))


def change_entry(r, place, root):
    container, i = place
    kind = r.randrange(5)
    if kind == 0:
        del container[i]
    elif kind == 1:
        container.insert(r.randrange(len(container) + 1), copy.deepcopy(container[i]))
    elif kind == 2:
        j = r.randrange(len(container))
        container[i], container[j] = container[j], container[i]
    elif isinstance(container, Pairs):
        other = r.choice(container)[0] if kind == 3 else changed_text(r, str(container[i][0]))
        container[i] = [other, container[i][1]]
    else:
        container.insert(i, copy.deepcopy(value_at(walk(r, root))))


def change_json(r, root):
    place = walk(r, root)
    if place:
        r.choice([change_value, change_entry])(r, place, root)
