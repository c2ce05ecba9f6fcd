"use strict";
// Small tools of all views: elements, canvases, numbers as text, the tip beside the pointer.

function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
        if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
        else if (value === true) node.setAttribute(name, "");
        else if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.flat(Infinity).filter((child) => child != null));
    return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// ---- numbers ----

const minus = (text) => text.replace(/^-/, "−");

// The shortest decimal number that is this float32 and no other.
function exact(x) {
    if (!Number.isFinite(x)) return Number.isNaN(x) ? "NaN" : x > 0 ? "+∞" : "−∞";
    for (let digits = 6; digits < 9; digits++) {
        const text = Number(x.toPrecision(digits));
        if (Math.fround(text) === Math.fround(x)) return minus(String(text));
    }
    return minus(String(Number(x.toPrecision(9))));
}
// Of 8 bits, or computed here in another order than the program's.
const about = (x, digits = 2) => (Number.isFinite(x) ? "≈ " + minus(String(Number(x.toPrecision(digits)))) : exact(x));
function short(x, digits = 4) {
    if (!Number.isFinite(x)) return exact(x);
    const small = x !== 0 && Math.abs(x) < 1e-4;
    return minus(small ? x.toExponential(digits - 1) : String(Number(x.toPrecision(digits))));
}
function percent(p) {
    if (p >= 0.1) return (100 * p).toFixed(1) + " %";
    if (p >= 0.0001) return (100 * p).toPrecision(2) + " %";
    return p === 0 ? "0" : minus(p.toExponential(0));
}
// For lengths in drawings: what is not finite is drawn as nothing, and named where it is a number.
const finite = (x) => (Number.isFinite(x) ? x : 0);
const bits = (x) => (x == null ? "" : x.toFixed(1));
const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");

// ---- tokens ----

const VISIBLE = { "\n": "↵", "\t": "⇥", "\r": "␍" };
// Controls, among them those of the direction of text: what is_active_character
// (commands/shared/output.h) has, but "\r".
const ACTIVE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const pieceOf = (id) => (core.pieces && core.pieces[id] !== undefined ? core.pieces[id].replace(ACTIVE, "·") : "#" + id);
const onOneLine = (text) => text.replace(/[\n\t\r]/g, (c) => VISIBLE[c]);
const cut = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
// A token with its own direction: two that are written from right to left would otherwise be one
// run with what stands between them, the second to the left of the first.
const isolated = (text) => `\u2068${text}\u2069`;
// In lists a leading space is part of the name; beside other tokens it is only in the way.
const tokenName = (id, most = Infinity) => isolated(cut(onOneLine(pieceOf(id)).replace(/ /g, "␣") || "∅", most));
function tokenLabel(t, most = Infinity) {
    const text = onOneLine(pieceOf(core.ids[t])).trim();
    return text ? isolated(cut(text, most)) : tokenName(core.ids[t], most);
}

// ---- canvases ----

// A larger canvas stays empty in one browser or another: Chromium has 65,535 pixels a side, Firefox 32,767,
// Safari on iOS 16,777,216 in all.
const MOST_ALONG = 16000, MOST_PIXELS = 16e6;

// Sets the size in CSS pixels; the context draws in them, at the screen's resolution or as near to
// it as a canvas may be large.
function fitCanvas(canvas, width, height) {
    const ratio = Math.min(window.devicePixelRatio || 1, MOST_ALONG / Math.max(width, height), Math.sqrt(MOST_PIXELS / (width * height)));
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.imageSmoothingEnabled = false;
    return context;
}

// A canvas with one pixel a cell; colorAt(row, column) is a packed colour.
function pixels(rows, columns, colorAt) {
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    const words = new Uint32Array(image.data.buffer);
    for (let r = 0, i = 0; r < rows; r++) for (let c = 0; c < columns; c++) words[i++] = colorAt(r, c);
    context.putImageData(image, 0, 0);
    return canvas;
}

// Calls over(x, y) in the canvas' CSS pixels and leave() behind it; click(x, y) where it is given.
// A finger that taps does not move, and leaves before its click: that one calls over too.
function onPointer(canvas, over, leave, click) {
    const at = (event, f) => {
        const box = canvas.getBoundingClientRect();
        f(event.clientX - box.left, event.clientY - box.top, event);
    };
    canvas.addEventListener("pointermove", (event) => at(event, over));
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("click", (event) => {
        at(event, over);
        if (!click) return;
        at(event, click);
        // Arrows go on from what was chosen; in the box, which a click focuses, they would scroll it.
        const box = canvas.closest(".scroll");
        if (box && box === document.activeElement) box.blur();
    });
}

// ---- the tip ----

const tip = el("div", { id: "tip", role: "tooltip" });

// Lines of text beside the pointer. Moved by transform alone, which needs no layout.
function showTip(event, ...lines) {
    tip.textContent = lines.join("\n");
    tip.style.opacity = 1;
    const right = event.clientX > window.innerWidth * 0.6, low = event.clientY > window.innerHeight * 0.7;
    const x = event.clientX + (right ? -14 : 14), y = event.clientY + (low ? -14 : 14);
    tip.style.transform = `translate(${x}px,${y}px) translate(${right ? "-100%" : "0"},${low ? "-100%" : "0"})`;
}
const hideTip = () => { tip.style.opacity = 0; };

// ---- controls ----

// One of several: buttons in a group. `options` is [[value, label], ..]; pick(value) is called.
function choice(label, options, value, pick) {
    const group = el("div", { class: "choice", role: "group", "aria-label": label });
    const press = (now) => {
        for (const button of group.children) button.setAttribute("aria-pressed", button.dataset.value === String(now));
    };
    for (const [key, text] of options) {
        const click = () => { press(key); pick(key); };
        group.append(el("button", { type: "button", "data-value": key, onclick: click }, text));
    }
    press(value);
    group.press = press;
    return group;
}

// Replaces the children; the focus stays at the control with the same data-value.
function refill(node, ...children) {
    const focused = node.contains(document.activeElement) ? document.activeElement.dataset.value : undefined;
    node.replaceChildren(...children);
    const now = [...node.querySelectorAll("[data-value]")].find((control) => control.dataset.value === focused);
    if (now) now.focus({ preventScroll: true });
}

// A table: head is a list of words, rows lists of cells. Classes of columns: "n" is a number.
function table(label, head, rows, classes = []) {
    const row = (cells, tag) => el("tr", null, cells.map((cell, i) => el(tag, { class: classes[i] }, cell)));
    return el("table", { "aria-label": label },
        head ? el("thead", null, row(head, "th")) : null, el("tbody", null, rows.map((cells) => row(cells, "td"))));
}
