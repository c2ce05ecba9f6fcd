#!/usr/bin/env python3
"""Checks that one thing has one name in pages, help, messages and comments: prints where not.

    tests/programs/check_words.py

Exit code 1 where one has another name. OTHER_NAMES are patterns of text, broken over lines or not, with the name to use.
The man page's heading EXIT STATUS stays, as man pages have it.
"""
import re
import sys

from check_docs import MADE, files

GAP = rb'(?:\s|\\n|["/#*])+'  # between words: the end of a line, of a string or comment too
OTHER_NAMES = {rb"[Ee]xit" + GAP + rb"[s]tatus": "exit code"}


def main():
    found = []
    for path in files():
        if path.split("/")[0] in MADE:
            continue
        with open(path, "rb") as file:
            text = file.read()
        for pattern, name in OTHER_NAMES.items():
            for at in re.finditer(pattern, text):
                line = text.count(b"\n", 0, at.start()) + 1
                found.append(f"{path}:{line}: {at[0].decode()!r} is called {name}")
    print("\n".join(found) if found else "one name each")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
