#!/usr/bin/env python3
"""Checks that what the pages name exists: relative links, headings behind #, and paths in `code`.

    tests/programs/check_docs.py [PAGE.md..]      all pages that git knows, without arguments

Exit code 1 where one does not. A path is a word with a slash whose first part is a folder of this
repository; what the build or a script makes (build/, models/) is not looked for.
"""
import glob
import os
import re
import subprocess
import sys

os.chdir(os.path.dirname(os.path.abspath(__file__)) + "/../..")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"(?<![\w./-])([a-z]\w*/[\w./*-]*\w[/*]?)")
MADE = ("build", "models", "story-model", "text", "out", "v")


def without_urls(text):
    return re.sub(r"https?://\S+", "", text)


def anchors(path):
    """Headings as GitHub turns them into anchors."""
    with open(path) as file:
        headings = re.findall(r"^#+ (.*)$", file.read(), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def dead_links(page, text):
    for target in LINK.findall(text):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(path):
            yield f"{page}: no {target}"
        elif anchor and anchor not in anchors(path):
            yield f"{page}: no heading for {target}"


def dead_paths(page, text, folders):
    for path in PATH.findall(without_urls(LINK.sub("", text))):
        if path.split("/")[0] in folders and not glob.glob(path):
            yield f"{page}: no {path}"


def files():
    """The files of the repository; without git all that are here."""
    try:
        listed = subprocess.run(["git", "ls-files"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()
    except FileNotFoundError:
        listed = []
    return listed or [path[2:] for path in glob.glob("./**/*", recursive=True) if os.path.isfile(path)]


def main():
    here = files()
    pages = sys.argv[1:] or [f for f in here if f.endswith(".md") and f.split("/")[0] not in MADE]
    folders = {f.split("/")[0] for f in here if "/" in f} - set(MADE)
    dead = []
    for page in pages:
        with open(page) as file:
            text = file.read()
        dead += [*dead_links(page, text), *dead_paths(page, text, folders)]
    print("\n".join(dead) if dead else f"{len(pages)} pages: every link and path exists")
    sys.exit(1 if dead else 0)


if __name__ == "__main__":
    main()
