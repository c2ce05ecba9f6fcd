#!/usr/bin/env python3
"""Opens a page of `view` in Chromium, from file:// and without a network, and uses it as a reader
would: clicks, hovers, keys, sliders. What it shows is compared with a trace of the same run.

    tests/page/check_page.py PAGE.html TRACE.safetensors     a page of `view MODEL`
    tests/page/check_page.py --trace PAGE.html TRACE         of `view TRACE`
    tests/page/check_page.py --diff PAGE.html TRACE ID       of `view A B`, which first differ at ID

Prints a line for each check that fails, and the times of first paint, hovers and changes of the
layer, which are not checked. Exit code 1 where a check fails, 77 without a Chromium. Python's
standard library only. TRACE has the exact stages and the attention weights of the run.
"""
import array
import json
import math
import os
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, check, end_checks, need_browser  # noqa: E402

SPECIAL = {"NaN": math.nan, "+∞": math.inf, "−∞": -math.inf}


def near(got, wanted, tolerance):
    return abs(got - wanted) <= tolerance * max(1.0, abs(wanted))


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def number(text):
    """A number as the page writes it: "−1.25", "≈ 3.1", "12.5 %", "NaN"."""
    text = text.strip().removeprefix("≈ ")
    if text in SPECIAL:
        return SPECIAL[text]
    share = text.endswith("%")
    return float(text.replace("−", "-").replace("\u202f", "").rstrip(" %")) / (100 if share else 1)


class Trace:
    """The float32 tensors of a safetensors file, as flat arrays."""

    def __init__(self, path):
        with open(path, "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            self.header = json.loads(file.read(size))
            data = file.read()
        self.header.pop("__metadata__", None)
        self.tensors = {}
        for name, entry in self.header.items():
            begin, end = entry["data_offsets"]
            if entry["dtype"] == "F32":
                self.tensors[name] = array.array("f", data[begin:end])
            else:
                self.ids = list(array.array("q", data[begin:end]))
        # With a soft cap the trace has the logits before it too, and that is what parts add up to.
        self.uncapped = "lm_head" if "lm_head" in self.tensors else None
        self.logits = next((name for name in ("logits", self.uncapped) if name in self.tensors), None)

    def row(self, name, t):
        width = self.header[name]["shape"][-1]
        return self.tensors[name][t * width:(t + 1) * width]


def log_sum_exp(logits):
    most = max(logits)
    return most + math.log(math.fsum(math.exp(x - most) for x in logits))


class Page:
    def __init__(self, browser, trace):
        self.browser, self.trace = browser, trace
        self.core = browser.run("({...core, pieces: null, weights: null})")
        self.stages = {stage["id"]: stage for stage in self.core.get("stages") or []}
        self.layers, self.tokens = self.core["layers"], len(self.core["ids"])

    def run(self, expression):
        return self.browser.run(expression)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def choose(self, **change):
        self.run(f"(choose({json.dumps(change)}), 0)")
        self.drawn()

    def drawn(self):
        self.browser.wait_for("views.every(view => !view.near || !view.stale)")

    def show(self, view):
        self.run(f"(document.getElementById('{view}').scrollIntoView(), 0)")
        self.browser.settle()
        self.drawn()

    def tip_at(self, selector, x, y):
        """The lines of the tip with the mouse at (x, y) of an element."""
        self.browser.move(*self.browser.place(selector, x, y))
        self.browser.settle(0)
        return self.text("#tip").split("\n") if self.run("document.getElementById('tip').style.opacity") == "1" else []

    def click(self, selector, x=None, y=None):
        self.browser.click(*self.browser.place(selector, x, y))
        self.browser.settle(0)
        self.drawn()

    def bar(self):
        return self.run("({position: chosen.position, layer: chosen.layer, head: chosen.head})")


# ---- what can be chosen ----

def check_tokens(page):
    page.show("tokens")
    for t in (0, page.tokens // 2, page.tokens - 1):
        page.click(f"#tokens .token:nth-of-type({t + 1})")
        check(page.bar()["position"] == t, "a click on token", t, "chose", page.bar()["position"])
        check(f" is token {t} " in page.text("#tokens .facts"), "the sentence below the tokens:", page.text("#tokens .facts"))
    if not page.core.get("surprise") or not page.trace.logits:
        return
    for t in range(1, page.tokens):
        row = page.trace.row(page.trace.logits, t - 1)
        wanted = (log_sum_exp(row) - row[page.core["ids"][t]]) / math.log(2)
        shown = number(page.text(f"#tokens .token:nth-of-type({t + 1}) small"))
        check(near(shown, wanted, 0.051), f"surprise of token {t}: {shown}, of the trace {wanted}")


def check_keys(page):
    page.choose(position=1, layer=0, head=0)
    many = page.layers > 1
    for key, name, wanted in (("ArrowRight", "position", 2), ("ArrowLeft", "position", 1), ("ArrowDown", "layer", int(many)),
                              ("ArrowUp", "layer", 0), ("l", "layer", int(many)), ("L", "layer", 0)):
        page.browser.key(key, shift=key == "L")
        check(page.bar()[name] == wanted, "key", key, "leads to", page.bar())
    if page.core.get("heads", 0) > 1:
        page.browser.key("h")
        check(page.bar()["head"] == 1, "key h leads to", page.bar())
        page.browser.key("H", shift=True)
        check(page.bar()["head"] == 0, "key H leads to", page.bar())
    page.browser.key("?")
    check(page.run("document.querySelector('dialog').open"), "? does not open the help")
    page.browser.key("Escape")
    check(not page.run("document.querySelector('dialog').open"), "Escape does not close the help")
    before = page.run("themeName()")
    page.browser.key("t")
    check(page.run("themeName()") != before, "t does not change the theme")
    page.browser.key("t")


# ---- the sampler, against the rule on all logits ----

def cut(weights, rule):
    """(ids that stay, p of each) by the rule of kernels.h; weights is [(weight, id)] in order."""
    left = weights[:rule["topK"]] if rule["topK"] else list(weights)
    if rule["topP"] < 1:
        wanted, held, kept = float32(rule["topP"]) * sum(w for w, _ in left), 0, 0
        while kept < len(left) and (kept == 0 or held < wanted):
            held += left[kept][0]
            kept += 1
        left = left[:kept]
    if rule["minP"] > 0:
        left = left[:1] + [x for x in left[1:] if x[0] >= float32(rule["minP"]) * 2 ** 40]
    total = sum(w for w, _ in left)
    return {i: w / total for w, i in left}


RULES = [(20, 0, 100, 0), (16, 12, 95, 10), (8, 0, 60, 0), (40, 5, 100, 0), (20, 0, 100, 20), (30, 16, 40, 4), (0, 0, 100, 0),
         *[(20, 0, share, 0) for share in range(3, 100, 8)]]


def check_sampler(page):
    """Each of RULES is what the sliders stand at: temperature in steps of 0.05, index into TOP_K, percent, 200ths."""
    page.show("sampler")
    top_k = page.run("TOP_K")
    for t in (0, page.tokens - 1):
        page.choose(position=t)
        row = page.trace.row(page.trace.logits, t)
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))
        for temperature, k, p, m in RULES:
            k = min(k, len(top_k) - 1)
            for name, value in (("temperature", temperature), ("topK", k), ("topP", p), ("minP", m)):
                page.run(f"(i => {{ i.value = {value}; i.dispatchEvent(new Event('input')); }})(document.querySelector('[data-name={name}]'))")
            scale = float32(temperature * 0.05)
            weights = [(math.floor(float32(math.exp((row[i] - row[order[0]]) / scale)) * 2 ** 40), i) for i in order] if temperature else [(1, order[0])]
            wanted = cut(weights, {"topK": top_k[k], "topP": p / 100, "minP": m / 200})
            shown = page.run(f"(s => s.by.map((by, i) => [candidateId({t}, i), s.p[i], by]))(sampled({t}, views.find(v => v.id === 'sampler').rule))")
            for i, probability, by in shown:
                check((by == "") == (i in wanted), f"position {t}, rule {temperature, k, p, m}: token {i} is cut by {by or 'nothing'}")
                check(near(probability, wanted.get(i, 0.0), 2e-4), f"position {t}, rule {temperature, k, p, m}: p of {i} is {probability}, not {wanted.get(i, 0)}")
            first = number(page.text("#sampler .bar .value"))
            check(near(first, wanted[order[0]], 6e-4), f"position {t}: the first bar says {first}, not {wanted[order[0]]}")
    page.run("(document.querySelector('#sampler .sliders button').click(), 0)")
    before = page.run("views.find(v => v.id === 'sampler').rule.step")
    page.browser.click(*page.browser.place("[data-name=temperature]"))
    page.browser.key("ArrowRight")
    check(page.run("document.activeElement.dataset.name") == "temperature", "a click on the slider does not focus it")
    check(page.run("views.find(v => v.id === 'sampler').rule.step") != before, "the slider of the temperature does not act")
    page.run("(document.activeElement.blur(), document.querySelector('#sampler .sliders button').click(), 0)")


# ---- lens, heads, layers ----

def check_lens(page):
    """The last row is the model's own distribution; every row says where it is."""
    page.show("lens")
    rows = len(page.core["lens"]["depths"])
    place = "(v => [v.left, v.top, v.columnWidth, v.rowHeight])(views.find(v => v.id === 'lens'))"
    left, top, width, height = page.run(place)
    for t in (0, page.tokens - 1):
        for r in (0, rows // 2, rows - 1):
            page.browser.move(*page.browser.place("#lens canvas", left + (t + 0.5) * width, top + (r + 0.5) * height))
            page.browser.settle(0)
            half = page.core["lens"]["depths"][r].split(".")
            wanted = half[0] if len(half) == 1 else f"layer {half[0]}, after {'FFN' if half[1] == 'ffn' else 'attention'}"
            check(page.text("#lens .panel h3") == wanted, f"the panel says {page.text('#lens .panel h3')}, not {wanted}")
            check(f"position {t}," in page.text("#lens .panel p"), "the panel is at", page.text("#lens .panel p"))
            shown = number(page.text("#lens .panel .value"))
            check(near(shown, page.run(f"lensP({r}, {t}, 0)"), 6e-4), "the panel's first probability", shown)
        row = page.trace.row(page.trace.logits, t)
        total = log_sum_exp(row)
        for k in range(page.core["lens"]["top"]):
            i, p = page.run(f"[lensId({rows - 1}, {t}, {k}), lensP({rows - 1}, {t}, {k})]")
            check(near(p, math.exp(row[i] - total), 1e-3), f"lens at the end, position {t}, token {i}: {p}, not {math.exp(row[i] - total)}")
    for r, layer in ((1, 0), (2, 0), (rows - 2, page.layers - 1)):
        page.click("#lens canvas", left + 1.5 * width, top + (r + 0.5) * height)
        check(page.bar()["position"] == 1 and page.bar()["layer"] == layer, f"a click on row {r} of the lens chose", page.bar())


def check_heads(page):
    page.show("heads")
    for layer, head in ((0, 0), (page.layers - 1, page.core["heads"] - 1)):
        x, y = page.run("(v => { const k = v.list.findIndex(([l, h]) => l === %d && h === %d), [c, r] = v.placeOf(k);"
                        " return [v.left + (c + 0.4) * v.tile, v.top + (r + 0.4) * v.tall]; })(views.find(v => v.id === 'heads'))" % (layer, head))
        check(page.tip_at("#heads canvas", x, y)[:1] == [f"layer {layer}, head {head}"], "tip over head", layer, head, page.text("#tip"))
        page.click("#heads canvas", x, y)
        check((page.bar()["layer"], page.bar()["head"]) == (layer, head), "a click on a head chose", page.bar())
    if page.run("hasBlock('headStat')"):
        for order in ("entropy", "first", "distance"):
            page.click(f"#heads [data-value={order}]")
            means = page.run(f"views.find(v => v.id === 'heads').list.map(x => headMean(...x, '{order}'))")
            check(means == sorted(means, reverse=True), "heads are not sorted by", order)
        page.click("#heads [data-value=model]")


def check_head(page):
    """Weights are those of the trace; the softmax of the scaled scores are the weights."""
    page.show("head")
    heads, n = page.core["heads"], page.tokens
    name = next((name for name in page.trace.tensors if name.endswith(".attn_weights")), None)
    for layer, head in ((0, 0), (page.layers // 2, heads - 1), (page.layers - 1, 0)):
        page.choose(layer=layer, head=head)
        page.click("#head [data-value=weights]")
        left, top, cell = page.run("(v => [v.left, v.top, v.cell])(views.find(v => v.id === 'head'))")
        for i, j in ((n - 1, 0), (n - 1, n - 1), (n // 2, 1)):
            lines = page.tip_at("#head canvas", left + (j + 0.5) * cell, top + (i + 0.5) * cell)
            if len(lines) != 2 or not lines[0].startswith(f"{i} “"):
                check(False, "no tip over the weight", i, j, lines)
                continue
            wanted = page.trace.tensors[name.replace(".0.", f".{layer}.")][(head * n + i) * n + j]
            shown = number(lines[1].split(" ", 1)[1])
            exact = not lines[1].startswith("softmax ≈")
            check(shown == float32(wanted) or (float32(shown) == wanted if exact else near(shown, wanted, 0.003)), f"weight {layer}.{head} [{i}, {j}]: {shown}, of the trace {wanted}")
        check_scores(page, layer, head)


def check_scores(page, layer, head):
    if not page.run(f"hasScaled({layer})"):
        return
    n = page.tokens
    page.click("#head [data-value=scaled]")
    values = page.run("Array.from(views.find(v => v.id === 'head').values, x => Number.isFinite(x) ? x : -1e30)")
    row = values[(n - 1) * n // 2:]
    total = log_sum_exp(row)
    tolerance = 2e-3 if page.run(f"hasExactQK({layer}) || fromWeights({layer})") else 0.5
    for j in range(n):
        wanted = page.run(f"headWeight({layer}, {head})({n - 1}, {j})")
        check(near(math.exp(row[j] - total), wanted, tolerance), f"softmax of the scores of {layer}.{head}: {math.exp(row[j] - total)}, the weight is {wanted}")
    page.click("#head [data-value=raw]")


def check_layer(page):
    page.show("layer")
    layer = page.layers // 2
    page.choose(layer=layer, position=page.tokens - 1)
    x = page.run("(e => { const b = e.getBoundingClientRect(); return b.width; })(document.querySelectorAll('#layer .hit')[0])")
    page.click(f"#layer .hit:nth-of-type({page.run('[...document.querySelectorAll(`#layer svg > rect`)].findIndex(e => e === document.querySelector(`#layer .hit`)) + 1')})", x / 2, 40)
    check(page.bar()["layer"] == 0, "a click on the first layer chose", page.bar())
    page.choose(layer=layer)
    for box in page.run("[...document.querySelectorAll('#layer [data-stage]')].map(e => e.dataset.stage)"):
        page.run(f"(document.querySelector('#layer [data-stage=\"{box}\"]').dispatchEvent(new MouseEvent('click', {{bubbles: true}})), 0)")
        page.browser.settle(0)
        page.drawn()
        check(page.run("views.find(v => v.id === 'tensor').current().id") == box, "the box", box, "opens another stage")
        page.choose(layer=layer)
    check_flow(page)


def rms(row):
    return math.sqrt(math.fsum(x * x for x in row) / len(row))


def check_flow(page):
    for layer in range(page.layers):
        for stage, name in (("att_out", "att"), ("ffn_out", "ffn"), ("layer_out", "out"), ("att_residual", "mid")):
            tensor = page.stages.get(f"{layer}.{stage}", {}).get("name")
            if tensor not in page.trace.tensors:
                continue
            wanted, shown = rms(page.trace.row(tensor, page.tokens - 1)), page.run(f"flowOf({layer}, {page.tokens - 1}, '{name}')")
            check(near(shown, wanted, 1e-4), f"rms of {layer}.{stage}: {shown}, of the trace {wanted}")


def check_logit(page):
    """The parts add up to the logit, before a soft cap."""
    page.show("logit")
    for t in (0, page.tokens - 1):
        page.choose(position=t)
        token, total = page.core["attribution"]["targets"][t][0], page.run("views.find(v => v.id === 'logit').total")
        logit = page.trace.row(page.trace.uncapped, t)[token]
        check(near(total, logit, 1e-3), f"parts of the logit at {t} add up to {total}, the logit is {logit}")


# ---- every number ----

def check_cell(page, stage, row, column):
    page.choose(position=page.tokens - stage["rows"] + row, layer=max(stage["layer"], 0), stage=stage["stage"] or stage["id"], cell=column)
    x, y, w, h = page.run(f"(p => [...p.originOf({row}, {column}), p.cellWidth, p.cellHeight])(views.find(v => v.id === 'tensor').picture)")
    lines = page.tip_at("#tensor canvas", x + w / 2, y + h / 2)
    where, wanted = f"{stage['id']}[{row}, {column}]", page.trace.row(stage["name"], row)[column]
    if not lines or not lines[0].startswith(f"[{row}, {column}]"):
        return check(False, "no tip over", where, lines)
    for text in (lines[-1], page.text("#tensor td .here")):
        shown = number(text)
        if text.startswith("≈"):
            most = max(map(abs, page.trace.row(stage["name"], row)))
            computed = stage["coding"] == "heads" and not page.run(f"attentionWeights({stage['layer']}) instanceof Uint8Array")
            check(abs(shown - wanted) <= (0.005 * abs(wanted) + 0.002 * most if computed else 0.05 * abs(wanted) + 0.02 * most), f"{where} is about {wanted}, the page says {text}")
        else:
            check(float32(shown) == wanted or (shown != shown and wanted != wanted), f"{where} is {wanted}, the page says {text}")


def check_tensors(page):
    page.show("tensor")
    layers = {0, page.layers // 2, page.layers - 1, (page.core.get("open") or {}).get("layer", 0), -1}
    for stage in page.stages.values():
        if stage["layer"] not in layers or stage["name"] not in page.trace.tensors:
            continue
        width = math.prod(stage["shape"])
        for row, column in ((0, 0), (stage["rows"] - 1, width - 1), (stage["rows"] // 2, (width * 7) // 11)):
            check_cell(page, stage, row, column)
        for row, column, value in stage.get("extremes", [])[:2]:
            wanted = page.trace.row(stage["name"], row)[column]
            value = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.get(value, value)
            check(float32(value) == wanted or (value != value and wanted != wanted), f"extreme of {stage['id']}: {value}, of the trace {wanted}")
    check_fields(page)


def check_fields(page):
    """A row and a column typed in choose that cell."""
    page.run("(([r, c]) => { r.value = 1; c.value = 3; c.dispatchEvent(new Event('change')); })([...document.querySelectorAll('#tensor input')])")
    page.drawn()
    check(page.run("chosen.cell") == 3, "a column typed in chose", page.run("chosen.cell"))


def check_weights(page):
    page.show("weights")
    count = page.run("core.weights.length")
    for index in {0, 1, count - 1}:
        page.run(f"(s => {{ s.value = {index}; s.dispatchEvent(new Event('change')); }})(document.querySelector('#weights select'))")
        page.browser.wait_for("!missingBlocks(views.find(v => v.id === 'weights').needs()).length && !document.querySelector('#weights .facts').textContent.startsWith('?')")
        page.browser.settle()
        check(page.run(f"views.find(v => v.id === 'weights').values.length === core.weights[{index}].shape.reduce((a, b) => a * b)"), "weights of tensor", index)
        check(page.run("views.find(v => v.id === 'weights').values.every(Number.isFinite)"), "a weight is not finite in tensor", index)


# ---- two traces ----

def check_diff(page, first):
    page.show("diff")
    check(page.core["diff"]["first"] == first, "the first difference is in", page.core["diff"]["first"], "not", first)
    check(first in page.text("#diff .facts"), "the sentence of the first difference:", page.text("#diff .facts"))
    check(first in page.text("#diff table .first"), "the table marks", page.text("#diff table .first"))
    entry = next(e for e in page.core["diff"]["entries"] if e["id"] == first)
    page.click("#diff table .first")
    chosen = page.run("[views.find(v => v.id === 'tensor').current().id, chosen.cell]")
    check(chosen == [first, entry["column"]], "a click on the first difference opens", chosen)


def check_special(page):
    """A NaN in a stage is counted and marked."""
    stage = next((s for s in page.stages.values() if s.get("stats", [0] * 4)[3]), None)
    if stage is None:
        return
    values = page.trace.tensors[stage["name"]]
    at = next(i for i, x in enumerate(values) if x != x)
    width = page.trace.header[stage["name"]]["shape"][-1]
    check_cell(page, stage, at // width, at % width)
    check("NaN" in page.text("#tensor .alarm"), "the facts of", stage["id"], "do not say that it has a NaN")
    check(page.run("views.find(v => v.id === 'tensor').picture.special") > 0, "no ring marks the NaN of", stage["id"])


# ---- all ----

def print_times(page):
    paint = page.run("performance.getEntriesByType('paint').map(e => e.startTime).pop()")
    hover = page.run("(() => { const v = views.find(v => v.id === 'tensor'), from = performance.now(); let n = 0; if (!v.section) return 0;"
                     " for (let x = 2; x < 300; x += 3) { v.picture.hover(x, 3, {clientX: x, clientY: 9}); n++; } hideTip(); return (performance.now() - from) / n; })()")
    change = page.run("(async () => { let total = 0; for (let l = 0; l < core.layers; l++) { const from = performance.now(); choose({layer: l});"
                      " total += performance.now() - from; await new Promise(requestAnimationFrame); } return total / core.layers; })()")
    print(f"first paint {paint:.0f} ms, hover {hover:.2f} ms, layer change {change:.1f} ms")


CHECKS = {"tokens": check_tokens, "sampler": check_sampler, "lens": check_lens, "heads": check_heads, "head": check_head,
          "layer": check_layer, "logit": check_logit, "tensor": check_tensors, "weights": check_weights}
NEEDS_LOGITS = ("sampler", "lens", "logit")


def check_page(browser, path, trace, first):
    browser.open(path)
    browser.wait_for("views.every(view => view.section || !view.present())")
    page = Page(browser, trace)
    views = page.run("views.filter(view => view.section).map(view => view.id)")
    print("views:", " ".join(views))
    check(page.core["ids"] == trace.ids, "the page has ids", page.core["ids"], "the trace", trace.ids)
    for name in views:
        if name in CHECKS and (name not in NEEDS_LOGITS or trace.logits):
            CHECKS[name](page)
    check_keys(page)
    check_special(page)
    if first:
        check_diff(page, first)
    print_times(page)
    return views


def check_windows(browser, path):
    """No sideways scrolling in a narrow window, no message in the dark."""
    for width, dark in ((420, True), (1400, True), (1000, False), (420, False)):
        browser.open(path, width=width, height=20000, dark=dark)
        browser.wait_for("views.every(view => !view.section || (view.near && !view.stale))")
        wide = browser.run("document.documentElement.scrollWidth")
        check(wide <= width, f"at {width} pixels the page is {wide} wide")
        check(browser.run("themeName()") == ("dark" if dark else "light"), "the theme is not the system's")


def main():
    arguments = sys.argv[1:]
    kind = arguments.pop(0)[2:] if arguments and arguments[0].startswith("--") else "model"
    if len(arguments) != (3 if kind == "diff" else 2):
        sys.exit(__doc__)
    need_browser()
    trace = Trace(arguments[1])
    with Browser() as browser:
        views = check_page(browser, arguments[0], trace, arguments[2] if kind == "diff" else None)
        wanted = {"model": "tokens sampler lens heads head layer logit tensor", "trace": "tokens tensor", "diff": "tokens diff tensor"}[kind].split()
        check(all(view in views for view in wanted), "the page has the views", *views, "and not all of", *wanted)
        check_windows(browser, arguments[0])
    end_checks(browser)


if __name__ == "__main__":
    main()
