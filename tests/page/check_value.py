#!/usr/bin/env python3
"""Opens a page of `view` in Chromium and evaluates a JavaScript expression in it, once all of its
blocks are decoded and all of its views are built.

    tests/page/check_value.py PAGE.html EXPRESSION WANTED [TEXT]

Exit code 1 where the JSON of the value (a promise is waited for) is not WANTED, or the page has
written a message; 77 without a Chromium. In the expression TEXT is what the file of this name holds.
"""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, need_browser  # noqa: E402

LOAD = "loadBlocks(missingBlocks([...document.querySelectorAll('[id^=b-]')].map(block => block.id.slice(2)))).then(() => 0)"


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    need_browser()
    path, expression, wanted = sys.argv[1:4]
    text = ""
    if len(sys.argv) == 5:
        with open(sys.argv[4], encoding="utf-8") as file:
            text = file.read()
    with Browser() as browser:
        browser.open(path)
        browser.wait_for("views.every(view => view.section || !view.present())")
        browser.run(LOAD)
        got = browser.run(f"(async TEXT => JSON.stringify(await ({expression})))({json.dumps(text)})")
        messages = browser.messages
    print(*messages, sep="\n", end="\n" if messages else "")
    if got != wanted:
        print(f"got {got}\nnot {wanted}")
    sys.exit(bool(messages) or got != wanted)


if __name__ == "__main__":
    main()
