"use strict";
// Two traces of the same tokens: where they differ first, and by how much from there on.
const diffEntries = () => core.diff.entries;

// A difference with a NaN or infinity, of two shapes, or of numbers that are not compared has no size:
// its column is full.
const isSized = (entry) => entry.verdict === "within" || entry.verdict === "over";
const sizeOf = (entry) => (isSized(entry) ? fromJson(entry.maxAbs) : Infinity);
const differs = (entry) => entry.sameBits === false;
const DIFF_SHOWN = {
    over: ["beyond the tolerance", (entry) => ["over", "not finite", "other shape"].includes(entry.verdict)],
    different: ["not known to be the same bits", (entry) => !entry.sameBits],
    all: ["all", () => true],
};
const UNSIZED = {
    "not finite": "a number that is not finite in A or in B",
    "other shape": "another shape in B than in A",
    "not compared": "not compared: not floating-point numbers of at most 32 bits",
};

// What is known of the difference, in words.
function differenceOf(entry) {
    if (!isSized(entry)) return UNSIZED[entry.verdict];
    if (sizeOf(entry)) return `max |A − B| ${short(sizeOf(entry))}`;
    return entry.sameBits ? "the same bits" : "equal values of other bits: 0 and −0, or another type";
}

addView({
    id: "diff",
    follows: [],
    title: "Where two traces differ",
    says: "Stages in the order of computation, with the largest difference of each on a logarithmic scale. Without a column the bits are " +
        "the same; a full column has no size (not finite, another shape, not compared). Orange is the first stage that is off by more than its tolerance. A click opens the stage; if it is beyond the " +
        "tolerance, at its first such number (one that is not finite comes first).",
    present: () => Boolean(core.diff && core.diff.entries),
    needs: () => [],

    build(body) {
        this.first = diffEntries().findIndex((entry) => entry.id === core.diff.first);
        this.canvas = el("canvas", { role: "img", "aria-label": "largest difference of each stage" });
        this.table = el("div", { class: "scroll tall" });
        this.shown = this.first >= 0 ? "over" : diffEntries().some(DIFF_SHOWN.different[1]) ? "different" : "all";
        const options = Object.entries(DIFF_SHOWN).map(([key, [label, keep]]) => [key, `${label}: ${diffEntries().filter(keep).length}`]);
        const only = choice("stages in the table", options, this.shown, (key) => { this.shown = key; this.list(); });
        body.append(this.summary(), el("div", { class: "scroll" }, this.canvas), el("div", { class: "controls" }, only), this.table);
        onPointer(this.canvas, (x, y, event) => this.hover(x, event), hideTip, (x) => { const entry = this.entryAt(x); if (entry) this.open(entry); });
        this.list();
    },

    summary() {
        const { a, b, first, onlyA, onlyB } = core.diff, entries = diffEntries(), bit = entries.find(differs);
        const same = !onlyA && !onlyB && entries.every((entry) => entry.verdict === "within" && entry.sameBits);
        const count = (verdict) => entries.filter((entry) => entry.verdict === verdict).length;
        const counts = [...Object.keys(UNSIZED).map((verdict) => [UNSIZED[verdict], count(verdict)]), ["only in A", onlyA], ["only in B", onlyB]];
        const words = [first == null ? "No stage is off by more than its tolerance." : el("b", null, `The first stage off by more than its tolerance is ${first}.`),
            bit ? ` The first that is not the same bit for bit is ${bit.id}.` : same ? " All bits are the same." : "",
            counts.map(([what, n]) => (n ? ` ${n} ${n > 1 ? "tensors" : "tensor"}: ${what}.` : ""))];
        return el("p", { class: "facts" }, "A: ", el("code", null, a && a.name), " B: ", el("code", null, b && b.name), el("br"), words);
    },

    // In the view that shows such a tensor: attention weights and logits are no stages.
    open(entry) {
        const { id, layer, head, row, column } = entry;
        hideTip(); // a finger leaves it where it was
        if (entry.view === "tensor") return openTensor(id, row, column);
        const section = document.getElementById(entry.view);
        if (!section) return;
        choose({ position: row ?? chosen.position, ...(entry.view === "head" ? { layer, head: head ?? chosen.head } : {}) });
        section.scrollIntoView({ behavior: calm.matches ? "auto" : "smooth" });
    },

    list() {
        const entries = diffEntries().filter(DIFF_SHOWN[this.shown][1]), placed = entries.some((entry) => entry.row != null);
        const number = (x) => (x == null ? "" : short(fromJson(x), 4));
        const stage = (entry) => el("button", { type: "button", class: "plain" + (entry.id === core.diff.first ? " first" : ""), disabled: !entry.view,
            onclick: () => this.open(entry) }, (entry.id === core.diff.first ? "▸ " : "") + entry.id);
        const place = (entry) => (entry.head == null ? "" : `head ${entry.head} `) + `[${entry.row}, ${entry.column}]`;
        const where = (entry) => (entry.row == null ? ["", "", ""] : [place(entry), exact(fromJson(entry.a)), exact(fromJson(entry.b))]);
        const rows = entries.map((entry) => [stage(entry), entry.verdict || "", number(entry.maxAbs), number(entry.allowed), number(entry.maxRel),
            entry.cosine == null ? "" : Number(fromJson(entry.cosine)).toFixed(8), ...(placed ? where(entry) : [])]);
        this.table.replaceChildren(table("stages with their differences", ["stage", "verdict", "max |A − B|", "allowed", "relative", "cosine", ...(placed ? ["at", "A", "B"] : [])],
            rows, ["", "", "n", "n", "n", "n", "", "n", "n"]));
    },

    entryAt(x) { return diffEntries()[Math.floor(x / this.step)]; },

    hover(x, event) {
        const entry = this.entryAt(x);
        if (!entry) return hideTip();
        showTip(event, entry.id, differenceOf(entry), entry.verdict);
    },

    // What has no size has a full column: what is not finite in the colour of NaN. Equal values of other
    // bits have the lowest one.
    draw() {
        const entries = diffEntries(), height = 120, sizes = entries.map(sizeOf);
        this.step = Math.max(3, Math.min(16, roomIn(this.section.lastChild) / entries.length));
        const context = fitCanvas(this.canvas, this.step * entries.length, height + 16);
        const finite = sizes.filter((x) => x > 0 && Number.isFinite(x)).map(Math.log10);
        const low = Math.floor(Math.min(0, ...finite)) - 1, high = Math.ceil(Math.max(low + 1, ...finite));
        sizes.forEach((size, i) => {
            const whole = !Number.isFinite(size), least = differs(entries[i]) ? 2 : 0;
            const tall = whole ? height : size > 0 ? Math.max(least, ((Math.log10(size) - low) / (high - low)) * height) : least;
            context.fillStyle = entries[i].verdict === "not finite" ? NAN_COLOR : i === this.first ? cssColor("warm") : cssColor(whole ? "soft" : "accent");
            context.fillRect(i * this.step, height - tall, this.step - 1, tall);
        });
        context.fillStyle = cssColor("line");
        context.fillRect(0, height, this.step * entries.length, 1);
        if (this.first < 0) return;
        context.fillStyle = cssColor("warm");
        context.font = "11px system-ui, sans-serif";
        const right = this.first * this.step > (this.step * entries.length) / 2;
        context.textAlign = right ? "right" : "left";
        context.fillText(right ? "first difference ▲" : "▲ first difference", this.first * this.step + (right ? this.step : 0), height + 13);
    },
});
