#!/usr/bin/env python3
"""How long masks take: the table of docs/grammar.md, a row for each grammar.

    tests/programs/mask_times.py TOKENIZER [--keep DIRECTORY] [--program build/cpu-release/tests/mask_time]

TOKENIZER is a file that ./run reads: for the page, Qwen 3's tokenizer.json. Each grammar and a text
that it allows are made here, always the same, and given to mask_time (make programs): the thread's
own processor time, of each mask the least of five runs. --keep leaves them in a directory, for
mask_time itself. Exit code 1 where a text is not allowed.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../../scripts")
from common import end_with, need_files  # noqa: E402

WORDS = ("the of and to in is was for that with language model token grammar mask string count repeat letter number "
         "sampling vocabulary internationalization representation straightforward a i we go cat dog house tree river "
         "mountain").split()
ACCENTED = "élève forêt garçon naïve être là le château hôtel".split()
CHAR = 'char ::= [^"\\\\\\x7F\\x00-\\x1F] | "\\\\" (["\\\\bfnrt] | "u" [0-9a-fA-F]{4})'
JSON = r'''root   ::= value
value  ::= object | array | string | number | ("true" | "false" | "null") space
object ::= "{" space (string ":" space value ("," space string ":" space value)*)? "}" space
array  ::= "[" space (value ("," space value)*)? "]" space
string ::= "\"" char* "\"" space
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})? space
space  ::= (" " | "\n" " "{0,20})?
'''
STRING = {"type": "string"}
RESULT = re.compile(r"new states : (\d+) masks; first [\d.]+ us; then median ([\d.]+), p99 ([\d.]+), largest ([\d.]+), "
                    r"mean [\d.]+ us; (\d+) over 50 us")


class Texts:
    """Words and numbers that are the same in every version of Python."""

    def __init__(self):
        self.random = random.Random(7)

    def number(self, low, high):
        return low + int(self.random.random() * (high - low + 1))

    def choose(self, among):
        return among[self.number(0, len(among) - 1)]

    def words(self, count, length=None):
        return " ".join(self.choose(WORDS) for _ in range(count))[:length]


def schema(properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


def any_value(t, depth):
    kind = t.number(0, 5) if depth else t.number(3, 5)
    if kind < 2:
        return {f"{t.choose(WORDS)}{i}": any_value(t, depth - 1) for i in range(t.number(2, 5))}
    if kind == 2:
        return [any_value(t, depth - 1) for _ in range(t.number(2, 4))]
    return [t.words(5), t.number(0, 1000), t.choose([True, False, None])][kind - 3]


def person(t):
    many = {"type": "array", "minItems": 5, "maxItems": 50, "items": {"type": "integer", "minimum": 0, "maximum": 1000}}
    name = "[A-Z][a-z]{2,20}"
    wanted = schema({"id": STRING | {"format": "uuid"}, "name": STRING | {"minLength": 3, "maxLength": 40},
                     "bio": STRING | {"minLength": 20, "maxLength": 1000},
                     "tags": {"type": "array", "minItems": 3, "maxItems": 10, "items": STRING | {"minLength": 2, "maxLength": 20}},
                     "scores": many, "full": STRING | {"pattern": f"^{name}( {name}){{1,3}}$"},
                     "date": STRING | {"format": "date-time"}})
    value = {"id": "123e4567-e89b-12d3-a456-426614174000", "name": "Ann of the River", "bio": t.words(150, 900),
             "tags": ["music", "books", "sports", "internationalization", "tree"],
             "scores": [t.number(0, 1000) for _ in range(40)], "full": "Ann Mary River", "date": "2024-05-06T07:08:09Z"}
    return wanted, value


def items(t):
    wanted = schema({"k": STRING | {"minLength": 1, "maxLength": 30}, "v": {"type": "number"},
                     "l": {"type": "array", "minItems": 2, "maxItems": 4, "items": STRING | {"maxLength": 12}}})
    value = [{"k": t.words(3, 30), "v": t.number(0, 10000) / 100, "l": [t.words(1, 12) for _ in range(3)]} for _ in range(40)]
    return {"type": "array", "minItems": 20, "maxItems": 100, "items": wanted}, value


def two_hundred(t):
    wanted, value = {}, {}
    for i in range(200):
        wanted[f"field_{i}"], value[f"field_{i}"] = [
            (STRING | {"minLength": 2, "maxLength": 50 + i}, t.words(4)),
            ({"type": "array", "minItems": 2, "maxItems": 9, "items": STRING | {"maxLength": 10 + i}},
             [t.words(1, 10) for _ in range(3)]),
            ({"type": "integer", "minimum": i, "maximum": 100 * i}, 7 * i),
            (schema({"x": {"type": "number"}, "note": STRING | {"minLength": 1, "maxLength": 200}}),
             {"x": t.number(0, 99) / 4, "note": t.words(5)})][i % 4]
    return schema(wanted), value


def nested_words(t, depth):
    """Two of the level below, and a blank."""
    if not depth:
        return t.choose([word for word in WORDS if 2 <= len(word) <= 9])
    return nested_words(t, depth - 1) + nested_words(t, depth - 1) + " "


# Statements and expressions; {s} is where white space may be before a token, {e} where behind one.
LANGUAGE = r'''root ::= {e} statement+
statement ::= {s} (name {e} {s} "=" {e} or {s} ";" {e} | "if" {e} {s} "(" {e} or {s} ")" {e} block ({s} "else" {e} block)?
                  | "return" {e} or {s} ";" {e} | or {s} ";" {e})
block ::= {s} "{{" {e} statement* {s} "}}" {e}
or ::= and ({s} "||" {e} and)*
and ::= equal ({s} "&&" {e} equal)*
equal ::= less ({s} ("==" | "!=") {e} less)*
less ::= sum ({s} ("<" | ">" | "<=" | ">=") {e} sum)*
sum ::= product ({s} [+-] {e} product)*
product ::= unary ({s} [*/%] {e} unary)*
unary ::= {s} [!-] {e} unary | postfix
postfix ::= atom ({s} "(" {e} (or ({s} "," {e} or)*)? {s} ")" {e} | {s} "[" {e} or {s} "]" {e} | {s} "." {e} {s} name {e})*
atom ::= {s} (name | number | string) {e} | {s} "(" {e} or {s} ")" {e}
name ::= [a-zA-Z_] [a-zA-Z0-9_]*
number ::= [0-9]+ ("." [0-9]+)?
string ::= "\"" [^"\n]* "\""
space ::= ([ \t\n] | "//" [^\n]* "\n")*
'''


def language(t, before, behind):
    """The grammar without names of rules for white space where there is none, and a program."""
    grammar = re.sub(r"  +(?=\S)", " ", LANGUAGE.format(s="space" if before else "", e="space" if behind else ""))
    program = "// sums\n"
    for _ in range(20):
        a, b, c = (t.choose(["count", "total", "i", "items", "x1"]) for _ in range(3))
        program += t.choose([f"{a} = {b} + {c} * ({t.number(1, 99)} - {a}.size);\n", f'print("the {b}", {c}[{a}], -{b} / 2.5);\n',
                             f"if ({a} < {b} && !done({c}) || {b} == 3) {{\n    {a} = {b} % {c};\n}} else {{ return {c}; }}\n"])
    return grammar, program


def read(name):
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def gbnf(t):
    """(the grammar, a text of it)"""
    yield '[a-z ]{200,400} "."', t.words(400, 350) + "."
    yield '.{100,} "END"', t.words(60) + "END"
    yield f'"[" "\\"" char{{10,200}} "\\"" "]"\n{CHAR}', f'["{t.words(100, 180)}"]'
    yield "([a-zà-ÿ]{2,20} [ ,.]{1,3}){5,60}", "".join(t.choose(ACCENTED) + " " for _ in range(40))
    yield '([^\\n]{50,400} "\\n\\n"){2,5}', "".join(t.words(100, 300) + "\n\n" for _ in range(4))
    yield ('row{3,30}\nrow ::= cell ("," cell){3} "\\n"\ncell ::= [a-zA-Z0-9 ]{1,30}',
           "".join(",".join(t.words(2, 30) for _ in range(4)) + "\n" for _ in range(20)))
    yield 'sentence{3,8}\nsentence ::= [A-Z] [a-z ,]{10,120} ". "', "".join(f"The {t.words(8)}. " for _ in range(8))
    yield '(word " "?){20,100} "."\nword ::= [a-z]+', t.words(60) + "."


def inputs(t):
    """(the row's title, the grammar or schema, the text)"""
    yield "JSON, with objects, arrays, strings and numbers as rules", JSON + CHAR + "\n", \
        json.dumps({f"{t.choose(WORDS)}{i}": any_value(t, 3) for i in range(40)}, indent=2)
    for grammar, text in gbnf(t):
        yield ", ".join(f"`{line}`" for line in grammar.split("\n")).replace(f", `{CHAR}`", ""), f"root ::= {grammar}\n", text
    for title, make in (("a schema of seven properties: lengths, items, a pattern, formats", person),
                        ("a schema: 20 to 100 objects with a string, a number and 2 to 4 strings", items),
                        ("a schema of 200 properties, 150 of them with lengths", two_hundred)):
        wanted, value = make(t)
        yield title, json.dumps(wanted), json.dumps(value)
    levels = 30
    yield f"`[a-z]` in {levels} repetitions {{2,3}}, one around the other", \
        f"root ::= {'(' * levels}[a-z]{'){2,3}' * levels}\n", t.words(60).replace(" ", "")[:100]
    rules = [f'r{i} ::= r{i + 1}{{2,5}} " " | "x" r{i}\n' for i in range(40)]
    yield '41 rules: `r0 ::= r1{2,5} " " \\| "x" r0`, `r1 ::= r2{2,5} " " \\| "x" r1`, ...', \
        "root ::= r0{2,5}\n" + "".join(rules) + "r40 ::= [a-z]{2,9}\n", nested_words(t, 6)
    yield "a language of statements and ten levels of expressions, white space behind each token", *language(t, False, True)
    yield "the same, white space before and behind each token", *language(t, True, True)
    yield "C without its preprocessor, where a type may be any name (`tests/programs/grammars`)", \
        *(read(f"grammars/c.{ending}") for ending in ("gbnf", "txt"))


def row(title, output):
    prepared, new = re.search(r"prepared: ([\d.]+) ms", output), RESULT.search(output)
    if not prepared or not new:
        sys.exit(f"mask_times.py: {title}: {output}")
    return "| " + " | ".join([title, prepared[1], *new.groups()]) + " |"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tokenizer")
    p.add_argument("--keep", metavar="DIRECTORY")
    p.add_argument("--program", default="build/cpu-release/tests/mask_time")
    args = p.parse_args()
    need_files("make programs", args.program)
    print("| grammar | prepared, ms | masks | median, us | p99 | largest | over 50 us |\n| " + " | ".join(["---"] * 7) + " |")
    with tempfile.TemporaryDirectory() as temporary:
        directory = args.keep or temporary
        os.makedirs(directory, exist_ok=True)
        for i, (title, grammar, text) in enumerate(inputs(Texts())):
            paths = [f"{directory}/{i:02}.{'json' if grammar.startswith('{') else 'gbnf'}", f"{directory}/{i:02}.txt"]
            for path, content in zip(paths, (grammar, text)):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            result = subprocess.run([args.program, args.tokenizer, *paths], capture_output=True, text=True, check=False)
            print(row(title, result.stdout + result.stderr), flush=True)


if __name__ == "__main__":
    end_with(main)
