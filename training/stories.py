"""Stories as text for training/train_builtin_model.py: read, retold with other people and things, filtered.

Needs the standard library alone; `python3 -m doctest training/stories.py` runs the examples.

    stories.py others TEXT SEED VARIANT    the stories of TEXT that are not held back with SEED, as they are
                                           (VARIANT 0) or retold with other people and things
"""
import contextlib
import glob
import hashlib
import os
import random
import re
import sys
from collections import Counter

HELD_BACK = 60  # stories that are not trained on: they measure progress
SHORTEST = 200  # bytes of a story that a model wrote
PIP_INSTALL = "python3 -m venv v && v/bin/pip install torch transformers 'sentencepiece>=0.2.3' safetensors numpy"

OTHER_THINGS = 0.5  # share of the things that are exchanged in a retold story


def tidy(story):
    r"""One story in plain ASCII, a blank line between its paragraphs; None where that cannot be.

    >>> tidy(" \u201cHi,\u201d  said Tom. \n Sue\u2019s dog ran.")
    '"Hi," said Tom.\n\nSue\'s dog ran.'
    >>> tidy("caf\u00e9") is None
    True
    """
    for fancy, plain in (("\u201c", '"'), ("\u201d", '"'), ("\u2018", "'"), ("\u2019", "'"),
                         ("\u2013", "-"), ("\u2014", "-"), ("\u2026", "...")):
        story = story.replace(fancy, plain)
    story = re.sub(r"[ \t]*\n\s*", "\n\n", re.sub(r"[ \t]+", " ", story).strip())
    plain = story.isascii() and story.replace("\n", "").isprintable()
    return story if plain else None


def stop(code, message):
    print(f"{os.path.basename(sys.argv[0])}: {message}", file=sys.stderr)
    sys.exit(code)


@contextlib.contextmanager
def packages(install):
    """Around imports: where a package is missing, one line says how to install it.

    >>> with contextlib.redirect_stderr(sys.stdout), contextlib.suppress(SystemExit):
    ...     with packages("pip install no-such-package"):
    ...         import no_such_package
    doctest.py: No module named 'no_such_package': pip install no-such-package
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        stop(4, f"{missing}: {install}")


def matching(pattern):
    """The files that a pattern names; a file with brackets in its name is itself, no pattern.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(prefix="a [b]") as file:
    ...     matching(file.name) == [file.name]
    True
    """
    return [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))


def read_stories(pattern):
    text = "".join(open(path, encoding="utf-8", errors="replace").read() for path in matching(pattern))
    stories = map(tidy, re.split(r"<\|endoftext\|>|<\|cut\|>", text))
    return [story for story in stories if story]


def hold_back(stories, seed):
    """The stories held back, and the others, in an order that the seed decides."""
    stories = list(stories)
    random.Random(seed).shuffle(stories)
    return stories[:HELD_BACK], stories[HELD_BACK:]


def not_held_back(path, seed):
    """Those of a file that are trained on; ends the program where there are none."""
    try:
        open(path, encoding="utf-8").close()
    except OSError as error:
        stop(4, f"cannot read {path}: {error.strerror}: give a text of stories, each followed by <|endoftext|>")
    _, stories = hold_back(read_stories(path), seed)
    return stories or stop(3, f"{path} has no more stories than the {HELD_BACK} that are held back: give a longer text")


def digest(stories):
    """Tells texts apart."""
    return hashlib.sha256("\0".join(stories).encode()).hexdigest()


def words(story):
    return re.findall(r"[A-Za-z]+", story)


def all_words(stories):
    return {word for story in stories for word in words(story)}


# Things of one line can replace each other: the story still makes sense.
THINGS = """\
dog cat puppy kitten rabbit bunny fox squirrel bear lion tiger monkey elephant giraffe zebra horse pony \
cow pig sheep lamb goat turtle frog hedgehog raccoon panda hippo dinosaur hamster
bird butterfly bee owl parrot robin crow bug ladybug dragonfly
whale dolphin shark crab octopus
doll robot puzzle kite ball balloon truck car train plane wagon
key coin necklace shell stone rock feather button marble gem jewel whistle bell penny pebble
spoon fork cup bowl plate mug
apple banana pear peach cookie cake cupcake pie sandwich muffin carrot tomato lemon cherry melon
soup rice pasta cheese jam honey bread
hat dress shirt scarf coat jacket sweater skirt crown
red blue green yellow purple pink brown white black
park beach zoo farm forest garden lake playground meadow library museum market
table chair bed couch shelf sofa desk bench
jar box basket bag bucket sack chest drawer
rose tulip daisy sunflower
castle house cave tower hut cottage cabin
river pond stream pool
bike scooter tricycle
king prince wizard knight pirate
queen princess witch fairy mermaid
farmer baker teacher doctor barber sailor
guitar piano violin flute trumpet drum
hill mountain rock
fence wall
kitchen bedroom bathroom attic garage closet
book letter picture map card"""
# A story that has one of these words keeps its animal.
SOUNDS = re.compile(r"\b(?:bark|meow|woof|purr|moo|oink|roar|neigh|baa|hop|croak|quack|trunk)")


def plural(noun):
    """
    >>> plural("bunny"), plural("fox"), plural("toy"), plural("tomato")
    ('bunnies', 'foxes', 'toys', 'tomatoes')
    """
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh", "tomato")) else "s")


class Others:
    """Exchanges the people and things of a story for others.

    A model that reads a story twenty times memorises who and what is in it. If the names and toys are others
    each time, only the story itself tells which they are, and the model learns to look that up. Names,
    and the pronoun of each, are found in the stories; things are those above.

    >>> others = Others(8 * ["One day Tom met his dog.", "One day Sam met his dog.", "So Sue lost her hat."])
    >>> sorted(others.members["he"]), sorted(others.members["she"])
    (['Sam', 'Tom'], ['Sue'])
    >>> told = {others.other("Tom had an apple. Apples are good.", random.Random(i)) for i in range(99)}
    >>> "Sam had a pie. Pies are good." in told, "Sam had an apple. Apples are good." in told
    (True, True)
    >>> any("an p" in story or "Tom had" in story for story in told)
    False
    >>> {others.other("Sam had a dog. It barked.", random.Random(i)) for i in range(99)}
    {'Tom had a dog. It barked.'}
    """

    def __init__(self, stories):
        small = Counter(word for story in stories for word in re.findall(r"\b[a-z]+", story))
        names = Counter(name for story in stories  # capitalised inside a sentence too
                        for name in re.findall(r"(?<=[a-z,] )[A-Z][a-z]+\b", story))
        names = {name: n for name, n in names.items() if n >= 8 and small[name.lower()] < 0.05 * n}
        said = {name: Counter() for name in names}
        for sentence in (part for story in stories for part in re.split(r"(?<=[.!?])\s", story)):
            found = [word for word in re.findall(r"[A-Z][a-z]+", sentence) if word in names]
            pronoun = re.search(r"\b(?:he|his|him|(she|her))\b", sentence.partition(found[0])[2]) \
                if len(set(found)) == 1 else None
            if pronoun:
                said[found[0]]["she" if pronoun[1] else "he"] += 1
        self.group, self.members = {}, {}
        for name, count in said.items():
            for pronoun in ("he", "she"):
                if count.total() >= 4 and count[pronoun] > 0.6 * count.total():
                    self.group[name] = pronoun
                    self.members.setdefault(pronoun, {})[name] = names[name] ** 0.5
        self.forms = {}  # of things: spelling -> (thing, whether plural)
        for line in THINGS.splitlines():
            for noun in line.split():
                self.group[noun] = line
                self.members.setdefault(line, {})[noun] = (1 + small[noun]) ** 0.5
                self.forms[noun], self.forms[plural(noun)] = (noun, False), (noun, True)

    def choose(self, found, share, generator):
        """A replacement for a share of what was found, each a different one."""
        to = {}
        for old in sorted(found):
            members = self.members[self.group[old]]
            free = [new for new in members if new not in found and new not in to.values()]
            if free and generator.random() < share:
                to[old] = generator.choices(free, [members[new] for new in free])[0]
        return to

    def other(self, story, generator):
        """The story with other people and things: pronouns stay right, and two people stay two."""
        words_in_it = set(words(story))
        names = {word for word in words_in_it if self.group.get(word) in ("he", "she")}
        things = {self.forms[word][0] for word in words_in_it if word in self.forms}
        if SOUNDS.search(story):
            things -= set(THINGS.split("\n", 1)[0].split())
        to = self.choose(names, 1, generator) | self.choose(things, OTHER_THINGS, generator)

        def replace(match):
            article, word = match[1] or "", match[2]
            if word in names:
                return article + to.get(word, word)
            thing, many = self.forms.get(word.lower(), (None, False))
            if thing not in to:
                return match[0]
            new = plural(to[thing]) if many else to[thing]
            if article.lower() in ("a ", "an "):
                article = article[0] + ("n " if new[0] in "aeiou" else " ")
            return article + (new.capitalize() if word[0].isupper() else new)
        return re.sub(r"\b([Aa]n? )?([A-Za-z]+)\b", replace, story)


# "blue blue", "Tom and Tom", "the hole in the hole"
STUTTER = re.compile(r"\b([A-Z][a-z]+) and \1\b|\b(\w{3,}) \2\b"
                     r"|\b(\w{3,}) (?:in|on|of|with|into|from) (?:the|a|his|her) \3\b")
# "Thank you, Tim," said Tim.   Tim smiled and said, "Thank you, Tim."
TO_ONESELF = re.compile(r'"[^"]*\b([A-Z][a-z]+)[!.,?]*" (?:said|asked|replied) \1\b'
                        r'|\b([A-Z][a-z]+) (?:said|asked|replied|smiled and said),? "[^"]*\b\2\b')


def stutters(story):
    """Whether a word is repeated at once: "blue blue".

    >>> stutters("Tom saw Tom and Tom."), stutters("Tom and Sue saw a blue, blue sky.")
    (True, False)
    """
    return bool(STUTTER.search(story))


def repeats(story):
    """Whether a sentence occurs twice, or more than a twentieth of all groups of four words do.

    >>> repeats("She liked the robot. She liked the robot."), repeats("She liked the robot. It liked her.")
    (True, False)
    >>> repeats("Tom and Sue saw a blue bird, then Tom and Sue saw a red bird.")
    True
    """
    sentences = [part for part in re.split(r"(?<=[.!?])\s+", story.lower()) if len(part) > 12]
    said = words(story.lower())
    fours = list(zip(said, said[1:], said[2:], said[3:]))
    return len(set(sentences)) < len(sentences) or len(set(fours)) < 0.95 * len(fours)


def keep_clean(told):
    """Those stories of a model that do not repeat themselves.

    Refused is what is rare in real stories: a word repeated at once, a person who addresses himself, a sentence
    or most of one that occurs twice.

    >>> story = ("Tom had a kite. He took it to the park, and the wind was strong that day. The kite flew "
    ...          "higher than the trees. Then it fell down by a pond. Sue found it there and gave it "
    ...          "back to him. Tom thanked Sue for the kite, and they ran home.")
    >>> worse = [story.replace(*change) for change in (
    ...     ("the kite, and", "the kite kite, and"), ("by a", "by a pond in the"),
    ...     ("Then it", "Tom had a kite. Then it"), ("Then", '"Thank you, Tom," said Tom. Then'))]
    >>> [clean == story for clean in keep_clean([story] + worse)]
    [True]
    """
    def clean(story):
        return (len(story) >= SHORTEST and not stutters(story) and not TO_ONESELF.search(story)
                and not repeats(story))
    return [story for story in told if clean(story)]


def keep_good(told, known, others):
    """Those that are clean, have only known words and stay with their people and things.

    No new person appears in the last third, and at least half of the things of the second half are in the first.

    >>> story = ("Tom had a kite. He took it to the park, and the wind was strong that day. The kite flew "
    ...          "higher than the trees. Then it fell down by a pond. Sue found it there and gave it "
    ...          "back to him. Tom thanked Sue for the kite, and they ran home.")
    >>> others = Others(8 * ["So Tom lost his hat.", "So Tim lost his."])
    >>> known = set(words(story)) | {"Tim", "hat"}
    >>> worse = [story.replace(*change) for change in (
    ...     ("wind", "wimd"), ("Tom thanked", "Tim thanked"), ("for the kite", "for the hat"))]
    >>> [good == story for good in keep_good([story] + worse, known, others)]
    [True]
    """
    def people(text):
        return {word for word in words(text) if others.group.get(word) in ("he", "she")}

    def things(text):
        return [others.forms[word][0] for word in words(text) if word in others.forms]

    def good(story):
        if any(word not in known for word in words(story)):
            return False
        middle, late = len(story) // 2, 2 * len(story) // 3
        early, later = set(things(story[:middle])), things(story[middle:])
        return (people(story[late:]) <= people(story[:late])
                and 2 * sum(thing in early for thing in later) >= len(later))
    return [story for story in keep_clean(told) if good(story)]


def print_others(text, seed, variant):
    stories = not_held_back(text, int(seed))
    others, generator = Others(stories), random.Random(int(variant))
    for story in stories:
        print(others.other(story, generator) if int(variant) else story, end="<|endoftext|>\n")


def main():
    if len(sys.argv) != 5 or sys.argv[1] != "others":
        sys.exit(__doc__)
    print_others(*sys.argv[2:])


if __name__ == "__main__":
    main()
