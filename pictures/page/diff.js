"use strict";
// Two traces of the same tokens: where they differ first, and by how much from there on.
const diffEntries = () => core.diff.entries;

// A difference with a NaN or infinity has no size: its column is full, and whether the bits are the
// same is not known.
const isSized = (entry) => entry.verdict !== "not finite";
const sizeOf = (entry) => (isSized(entry) ? fromJson(entry.maxAbs) ?? 0 : Infinity);
const differs = (entry) => isSized(entry) && sizeOf(entry) !== 0;
const DIFF_SHOWN = {
    over: ["beyond the tolerance", (entry) => entry.verdict !== "within"],
    different: ["not the same bits, or not finite", (entry) => sizeOf(entry) !== 0],
    all: ["all", () => true],
};

addView({
    id: "diff",
    follows: [],
    title: "Where two traces differ",
    says: "Stages in the order of computation, with the largest difference of each on a logarithmic scale; no column: the same bits. Orange " +
        "is the first stage that is off by more than its tolerance. A click opens the stage at the number that differs most.",
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
        const { a, b, first } = core.diff, bit = diffEntries().find(differs);
        const unsized = diffEntries().filter((entry) => !isSized(entry)).length;
        const words = [first == null ? "No stage is off by more than its tolerance." : el("b", null, `The first stage off by more than its tolerance is ${first}.`),
            bit ? ` The first that is not the same bit for bit is ${bit.id}.` : unsized ? "" : " All bits are the same.",
            unsized ? ` Stages with a number that is not finite in A or in B: ${unsized}.` : ""];
        return el("p", { class: "facts" }, "A: ", el("code", null, a && a.name), " B: ", el("code", null, b && b.name), el("br"), words);
    },

    // Attention weights are no stage: they open in the view of a head.
    open(entry) {
        if (stageById.has(entry.id)) return openTensor(entry.id, entry.row ?? undefined, entry.column ?? undefined);
        const layer = /layers?\.(\d+)\./.exec(entry.id);
        if (layer) choose({ layer: Number(layer[1]) });
        const head = document.getElementById("head");
        if (head) head.scrollIntoView({ behavior: calm.matches ? "auto" : "smooth" });
    },

    list() {
        const entries = diffEntries().filter(DIFF_SHOWN[this.shown][1]), placed = entries.some((entry) => entry.row != null);
        const number = (x) => (x == null ? "" : short(fromJson(x), 4));
        const stage = (entry) => el("button", { type: "button", class: "plain" + (entry.id === core.diff.first ? " first" : ""), onclick: () => this.open(entry) },
            (entry.id === core.diff.first ? "▸ " : "") + entry.id);
        const where = (entry) => (entry.row == null ? ["", "", ""] : [`[${entry.row}, ${entry.column}]`, exact(fromJson(entry.a)), exact(fromJson(entry.b))]);
        const rows = entries.map((entry) => [stage(entry), entry.verdict || "", number(entry.maxAbs), number(entry.allowed), number(entry.maxRel),
            entry.cosine == null ? "" : Number(fromJson(entry.cosine)).toFixed(8), ...(placed ? where(entry) : [])]);
        this.table.replaceChildren(table("stages with their differences", ["stage", "verdict", "max |A − B|", "allowed", "relative", "cosine", ...(placed ? ["at", "A", "B"] : [])],
            rows, ["", "", "n", "n", "n", "n", "", "n", "n"]));
    },

    entryAt(x) { return diffEntries()[Math.floor(x / this.step)]; },

    hover(x, event) {
        const entry = this.entryAt(x);
        if (!entry) return hideTip();
        showTip(event, entry.id, differs(entry) ? `max |A − B| ${short(sizeOf(entry))}` : isSized(entry) ? "the same bits" : "a number that is not finite", entry.verdict || "");
    },

    // What is not finite has a full column, in the colour of NaN.
    draw() {
        const entries = diffEntries(), height = 120, sizes = entries.map(sizeOf);
        this.step = Math.max(3, Math.min(16, roomIn(this.section.lastChild) / entries.length));
        const context = fitCanvas(this.canvas, this.step * entries.length, height + 16);
        const finite = sizes.filter((x) => x > 0 && Number.isFinite(x)).map(Math.log10);
        const low = Math.floor(Math.min(0, ...finite)) - 1, high = Math.ceil(Math.max(low + 1, ...finite));
        sizes.forEach((size, i) => {
            const whole = !Number.isFinite(size), tall = whole ? height : size > 0 ? Math.max(2, ((Math.log10(size) - low) / (high - low)) * height) : 0;
            context.fillStyle = whole ? NAN_COLOR : i === this.first ? cssColor("warm") : cssColor("accent");
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
