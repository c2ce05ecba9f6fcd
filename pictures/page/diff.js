"use strict";
// Two traces of the same tokens: where they differ first, and by how much from there on.
const diffEntries = () => core.diff.entries;

addView({
    id: "diff",
    title: "Where two traces differ",
    says: "Stages in the order of computation, with the largest difference of each on a logarithmic scale; an empty column is bit for bit the same. " +
        "The first stage that differs is marked: what comes before it is the same.",
    present: () => Boolean(core.diff && core.diff.entries),
    needs: () => [],

    build(body) {
        const { a, b, first } = core.diff;
        this.first = diffEntries().findIndex((entry) => entry.id === first);
        const names = el("p", { class: "facts" }, "A ", el("code", null, a && a.name), ", B ", el("code", null, b && b.name), ". ",
            first == null ? "No stage differs." : el("b", null, `The first difference is in ${first}.`));
        this.canvas = el("canvas", { role: "img", "aria-label": "largest difference of each stage" });
        this.table = el("div", { class: "scroll tall" });
        this.only = choice("stages", [["different", "stages that differ"], ["all", "all stages"]], "different", (key) => { this.all = key === "all"; this.list(); });
        body.append(names, el("div", { class: "scroll" }, this.canvas), el("div", { class: "controls" }, this.only), this.table);
        onPointer(this.canvas, (x, y, event) => this.hover(x, event), hideTip, (x) => { const entry = this.entryAt(x); if (entry) this.open(entry); });
        this.list();
    },

    open(entry) { openTensor(entry.id, entry.row, entry.column); },

    list() {
        const entries = diffEntries().filter((entry) => this.all || fromJson(entry.maxAbs) !== 0);
        const number = (x) => (x == null ? "" : short(fromJson(x), 4));
        const rows = entries.map((entry) => [
            el("button", { type: "button", class: "plain" + (entry.id === core.diff.first ? " first" : ""), onclick: () => this.open(entry) }, (entry.id === core.diff.first ? "▸ " : "") + entry.id),
            number(entry.maxAbs), number(entry.maxRel), entry.cosine == null ? "" : String(fromJson(entry.cosine).toFixed(8)), entry.row == null ? "" : `[${entry.row}, ${entry.column}]`,
            entry.a == null ? "" : exact(fromJson(entry.a)), entry.b == null ? "" : exact(fromJson(entry.b))]);
        this.table.replaceChildren(table("stages with their differences", ["stage", "max |A − B|", "relative", "cosine", "at", "A", "B"], rows, ["", "n", "n", "n", "", "n", "n"]));
    },

    entryAt(x) { return diffEntries()[Math.floor(x / this.step)]; },

    hover(x, event) {
        const entry = this.entryAt(x);
        if (!entry) return hideTip();
        const same = fromJson(entry.maxAbs) === 0;
        showTip(event, entry.id, same ? "the same bits" : `max |A − B| ${short(fromJson(entry.maxAbs))}`);
    },

    // NaN against a number has no size: its column is full, in the colour of NaN.
    draw() {
        const entries = diffEntries(), height = 120, sizes = entries.map((entry) => fromJson(entry.maxAbs));
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
