#!/usr/bin/env python3
"""A line of wide characters on two rows of a terminal, changed in its middle: what the screen shows of it.

    tests/programs/check_wide_line.py RUN MODEL
"""
import importlib.machinery
import importlib.util
import os
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
LOADER = importlib.machinery.SourceFileLoader("record_chat", HERE + "/../../scripts/record_chat")
record_chat = importlib.util.module_from_spec(importlib.util.spec_from_loader("record_chat", LOADER))
LOADER.exec_module(record_chat)

TEXT = "第一行文字" * 4 + "第一行"
HOME, DELETE, RIGHT, ERASE = "\x01", "\x04", "\x1b[C", "\x7f"
CHANGES = [([HOME, DELETE, DELETE], TEXT[2:]), (["x", "日"], "x日" + TEXT[2:]),
           ([RIGHT, RIGHT, ERASE], "x日" + TEXT[2] + TEXT[4:])]


def shown(terminal):
    lines = terminal.lines()
    first = max((i for i, line in enumerate(lines) if line.startswith("> ")), default=0)
    return "".join([lines[first][2:], *lines[first + 1:]])


def main():
    run, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as state:
        command = [run, "chat", model, "--template", "llama2", "-q", "--color", "never"]
        terminal = record_chat.Terminal(command, 40, environment={"XDG_STATE_HOME": state, "LC_ALL": "C.UTF-8"})
        terminal.wait(record_chat.READY, 0)
        terminal.type([TEXT], record_chat.ECHO)
        for keys, wanted in [([], TEXT), *CHANGES]:
            terminal.type(keys, record_chat.ECHO)
            if shown(terminal) != wanted:
                sys.exit(f"shown {shown(terminal)}, wanted {wanted}:\n" + "\n".join(terminal.lines()))
        terminal.close()


main()
