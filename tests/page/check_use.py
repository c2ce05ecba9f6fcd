#!/usr/bin/env python3
"""Opens a page of `view` in Chromium and uses it as its readers may: with a keyboard, on a touch
screen, with text that is written from right to left, with matrices larger than a canvas may be.

    tests/page/check_use.py PAGE.html        a page of `view MODEL`

Prints a line for each check that fails. Exit code 1 where a check fails, 77 without a Chromium.
Python's standard library only.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, check, end_checks, need_browser  # noqa: E402

def view(name):
    return f"views.find(v => v.id === '{name}')"


def show(browser, name):
    browser.run(f"(document.getElementById('{name}').scrollIntoView(), 0)")
    browser.settle()
    browser.wait_for("views.every(view => !view.near || !view.stale)")


# ---- large pictures ----

def check_large(browser):
    """The logits of a vocabulary of 256,000 tokens, the last row and column above zero."""
    color = browser.run("""(() => {
        const rows = 2, columns = 256000, values = new Float32Array(rows * columns).fill(-1);
        values[rows * columns - 1] = 1;
        const picture = new MatrixPicture("large", () => {});
        document.body.append(picture.scroll, picture.grid);
        picture.show({ values, rows, columns, exact: true, rowName: () => "", columnName: () => "" }, 0, 0);
        const ratio = picture.canvas.width / parseFloat(picture.canvas.style.width);
        const pixel = el("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
        const at = (row, column) => {
            const [x, y] = picture.originOf(row, column);
            pixel.clearRect(0, 0, 1, 1);
            pixel.drawImage(picture.canvas, Math.floor((x + picture.cellWidth / 2) * ratio), Math.floor((y + picture.cellHeight / 2) * ratio), 1, 1, 0, 0, 1, 1);
            return [...pixel.getImageData(0, 0, 1, 1).data];
        };
        const colors = [at(1, 0), at(0, columns - 2), at(rows - 1, columns - 1)];
        picture.scroll.remove();
        picture.grid.remove();
        return colors;
    })()""")
    first, before, last = color
    check(all(c[2] > c[0] and c[3] == 255 for c in (first, before)), "numbers below zero among 256,000 columns have the colours", first, before)
    check(last[0] > last[2] and last[3] == 255, "one above zero in the last of 256,000 columns has the colour", last)
    for width, height in ((8074, 8074), (40000, 20), (30, 70000), (300, 200)):
        size = browser.run(f"(c => {{ fitCanvas(c, {width}, {height}); return [c.width, c.height]; }})(document.createElement('canvas'))")
        check(max(size) <= 16384 and size[0] * size[1] <= 1 << 24, f"a canvas of {width} x {height} takes", size)
    check(size == [300, 200], "a small canvas takes", size)


# ---- fields ----

def check_fields(browser):
    """A fraction typed in chooses the nearest cell."""
    show(browser, "tensor")
    browser.run("(([r, c]) => { r.value = '1.2'; c.value = '2.7'; c.dispatchEvent(new Event('change')); })([...document.querySelectorAll('#tensor input')])")
    browser.wait_for(f"!{view('tensor')}.stale")
    chosen = browser.run("[chosen.position, chosen.cell]")
    check(chosen == [browser.run(f"positionOfRow({view('tensor')}.current(), 1)"), 3], "row 1.2 and column 2.7 chose", chosen)
    shown = browser.run("[...document.querySelectorAll('#tensor input')].map(input => input.value)")
    check(shown == ["1", "3"], "after fractions the fields have", shown)
    browser.run("(choose({position: 1, cell: 3}), 0)")


# ---- text from right to left ----

# The middle of the first character of each of the words in the text of an element.
PLACES = """((node, words) => words.map((word) => {
    const text = document.createTreeWalker(node, NodeFilter.SHOW_TEXT).nextNode(), range = document.createRange(), at = text.data.indexOf(word);
    if (at < 0) return null;
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    const box = range.getBoundingClientRect();
    return (box.left + box.right) / 2;
}))"""


def check_right_to_left(browser):
    """Tokens in Hebrew and Arabic stand where they belong; what changes the direction is shown as a dot."""
    browser.run("(core.pieces[core.ids[5]] = ' אבג', core.pieces[core.ids[2]] = 'مرح', core.pieces[core.ids[3]] = 'a\\u202e\\u0085\\u2069b\\n', redraw(), choose({position: 5}), 0)")
    show(browser, "head")
    left, top, cell = browser.run(f"(v => [v.left, v.top, v.cell])({view('head')})")
    browser.move(*browser.place("#head canvas", left + 2.5 * cell, top + 5.5 * cell))
    browser.settle(0)
    words = ["5 ", "אבג", "→", "2 ", "مرح"]
    places = browser.run(f"{PLACES}(document.getElementById('tip'), {words})")
    check(None not in places and places == sorted(places), "in the tip", browser.run("document.getElementById('tip').textContent"), "words stand at", places)
    for selector in ("#bar b", "#head table th:nth-child(2)", "#head svg text.here", "#tensor h3 ~ div h3"):
        shown = browser.run(f"document.querySelector({selector!r}).textContent")
        check("\u2068אבג\u2069" in shown.replace("␣", ""), "not apart from its surroundings:", selector, ascii(shown))
    shown = browser.run("[tokenLabel(3), tokenName(core.ids[3]), pageHead().querySelector('h1').textContent.slice(0, 200)]")
    check(shown[:2] == ["\u2068a···b↵\u2069"] * 2, "controls of the direction are shown as", ascii(shown))
    check("a···b" in shown[2] and not set(shown[2]) & set("\u202e\u0085\u2069"), "the heading has", ascii(shown[2]))


# ---- keyboard ----

def check_arrows(browser):
    """Arrows scroll a box that has the focus by keyboard; behind a click they choose."""
    show(browser, "lens")
    browser.run("(choose({position: 3}), document.querySelector('#lens .scroll').style.width = '200px', document.querySelector('#lens .scroll').focus(), 0)")
    browser.run("(document.querySelector('#lens .scroll').scrollLeft = 0)")
    # Smoothly; a key that comes before the browser has drawn the box of this width scrolls nothing.
    browser.wait_for("document.querySelector('#lens .scroll').scrollLeft > 0", lambda: browser.key("ArrowRight"))
    check(browser.run("chosen.position") == 3, "an arrow in a box that scrolls chose position", browser.run("chosen.position"))
    browser.run("(document.querySelector('#lens .scroll').style.width = '', document.activeElement.blur(), 0)")
    left, top, width, height = browser.run(f"(v => [v.left, v.top, v.columnWidth, v.rowHeight])({view('lens')})")
    browser.click(*browser.place("#lens canvas", left + 2.5 * width, top + 1.5 * height))
    browser.key("ArrowRight")
    check(browser.run("chosen.position") == 3, "an arrow behind a click on position 2 chose", browser.run("chosen.position"))


def check_focus(browser):
    """A button that was pressed still has the focus, although all of its group are made anew."""
    for selector in ("#logit .choice button:nth-of-type(2)", "#tensor .panel tr:nth-child(3) button", "#tensor .chips button:nth-of-type(3)"):
        show(browser, selector[1:].split()[0])
        browser.run(f"(b => {{ b.focus(); b.click(); }})(document.querySelector('{selector}'))")
        browser.settle()
        check(browser.run(f"document.activeElement === document.querySelector('{selector}')"), "a press takes the focus away from", selector)
        check(browser.run(f"document.querySelector('{selector}').getAttribute('aria-pressed')") in ("true", None), "not pressed:", selector)
    name = browser.run("(choose({layer: chosen.layer ? 0 : 1}), document.querySelector('#tensor .chips button:nth-of-type(3)').textContent)")
    check(browser.run("document.activeElement.textContent") == name, "in another layer the focus is no longer at the stage", name)
    browser.run("(document.activeElement.blur(), 0)")


# ---- touch ----

def check_touch(browser):
    """A still tap shows the number of a weight and of a part; the next tap elsewhere hides it."""
    browser.send("Emulation.setTouchEmulationEnabled", enabled=True)
    tip = "(t => t.style.opacity === '1' ? t.textContent : '')(document.getElementById('tip'))"
    for name, place, wanted in (("head", "[v.left + 1.5 * v.cell, v.top + 4.5 * v.cell]", "4 “"),
                                ("logit", "[v.left + 0.5 * v.step, v.top + 1.5 * v.rowHeight]", "layer 0, ")):
        show(browser, name)
        x, y = browser.run(f"(v => {place})({view(name)})")
        browser.tap(*browser.place(f"#{name} canvas", x, y))
        browser.wait_for(f"{tip}.startsWith({wanted!r})")
        browser.tap(*browser.place(f"#{name} .says"))
        browser.wait_for(f"{tip} === ''")
    browser.send("Emulation.setTouchEmulationEnabled", enabled=False)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    need_browser()
    with Browser() as browser:
        browser.open(sys.argv[1])
        browser.wait_for("views.every(view => view.section || !view.present())")
        check_large(browser)
        check_fields(browser)
        check_right_to_left(browser)
        check_arrows(browser)
        check_focus(browser)
        check_touch(browser)
    end_checks(browser)


if __name__ == "__main__":
    main()
