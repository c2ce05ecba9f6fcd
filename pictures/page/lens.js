"use strict";
// The logit lens: what the model would predict if it stopped after each half of each layer.
const lensRows = () => core.lens.depths.length;
const lensTop = () => core.lens.top;

const lensId = (r, t, k) => numbers("lensIds", Uint32Array)[(r * tokens + t) * lensTop() + k];
const lensP = (r, t, k) => numbers("lensP")[(r * tokens + t) * lensTop() + k];
const LENS_STATS = { entropy: 0, kl: 1, winnerP: 2, rank: 3 };
const lensStat = (r, t, name) => numbers("lensStat")[(r * tokens + t) * 4 + LENS_STATS[name]];
const winnerOf = (t) => lensId(lensRows() - 1, t, 0);

// "3.attention" -> [3, "after attention"]
function depthWords(r) {
    const [layer, half] = core.lens.depths[r].split(".");
    if (half === undefined) return ["", layer];
    return [layer, half === "attention" ? "after attention" : "after FFN"];
}
const depthName = (r) => { const [l, half] = depthWords(r); return l === "" ? half : `layer ${l}, ${half}`; };
const layerOfDepth = (r) => (r === 0 ? 0 : Math.floor((r - 1) / 2));

// The first row from which the token that wins in the end leads without a break.
function decidesAt(t) {
    let r = lensRows() - 1;
    while (r > 0 && lensId(r - 1, t, 0) === winnerOf(t)) r--;
    return r;
}

// What a cell's shade means: 0 .. 1 from the numbers of the cell.
const LENS_SHADES = {
    probability: (r, t) => lensP(r, t, 0),
    entropy: (r, t) => 1 - lensStat(r, t, "entropy") / Math.log2(core.vocab),
    divergence: (r, t) => 1 - lensStat(r, t, "kl") / 20,
    rank: (r, t) => 1 - Math.log2(lensStat(r, t, "rank")) / Math.log2(core.vocab),
};
const LENS_SCALES = {
    probability: ["p of the likeliest: 0", "1"],
    entropy: ["even over all tokens", "one token"],
    divergence: ["20 bits from the final distribution", "0"],
    rank: ["winner ranks last", "first"],
};

addView({
    id: "lens",
    follows: ["position", "layer", "half"],
    title: "Logit lens",
    says: "The residual stream after each half of each layer, through the final norm and head: the likeliest token there. Orange: " +
        "already the token that wins in the end. A line marks where it leads for good.",
    present: () => Boolean(core.lens) && hasBlock("lensIds"),
    needs: () => ["lensIds", "lensP", "lensStat"],
    left: 54, top: 22, rowHeight: 13, shading: "probability",

    build(body) {
        const options = [["probability", "probability"], ["entropy", "entropy"], ["divergence", "KL"], ["rank", "rank of the winner"]];
        this.scale = el("span", { class: "scales" });
        this.canvas = el("canvas", { role: "img", "aria-label": "grid of the likeliest token, a row for each half-layer, a column for each position" });
        this.mark = el("div", { class: "mark" });
        this.scroll = el("div", { class: "scroll", tabindex: 0 }, el("div", { class: "stack" }, this.canvas, this.mark));
        this.panel = el("div", { class: "panel" });
        body.append(el("div", { class: "controls" },
            choice("shade", options, this.shading, (value) => { this.shading = value; this.draw(); }), this.scale),
            el("div", { class: "split lens" }, this.scroll, this.panel));
        onPointer(this.canvas, (x, y) => this.hover(x, y), () => this.showCell(...this.chosenCell()),
            (x, y) => { const cell = this.cellAt(x, y); if (cell) choose({ position: cell[1], layer: layerOfDepth(cell[0]), half: cell[0] }); });
        this.fillPanel();
    },

    cellAt(x, y) {
        const r = Math.floor((y - this.top) / this.rowHeight), t = Math.floor((x - this.left) / this.columnWidth);
        return r >= 0 && r < lensRows() && t >= 0 && t < tokens ? [r, t] : null;
    },

    // The row of the chosen half-layer: that of the last click, while the layer is still the same.
    chosenCell() {
        const half = chosen.half !== undefined && layerOfDepth(chosen.half) === chosen.layer ? chosen.half : 2 * chosen.layer + 2;
        return [Math.min(half, lensRows() - 1), chosen.position];
    },

    hover(x, y) {
        const cell = this.cellAt(x, y);
        if (cell && String(cell) !== this.shown) this.showCell(...cell);
    },

    draw() {
        const room = roomIn(this.scroll);
        this.columnWidth = Math.max(tokens > 96 ? 14 : 46, Math.min(86, (room - this.left - 2) / tokens));
        const key = [room, themeName(), this.shading].join();
        if (this.drawn !== key) this.drawGrid();
        this.drawn = key;
        this.placeMark();
        this.showCell(...this.chosenCell());
    },

    drawGrid() {
        const width = this.left + tokens * this.columnWidth + 1, height = this.top + lensRows() * this.rowHeight + 1;
        const context = fitCanvas(this.canvas, width, height);
        context.font = "11px system-ui, sans-serif";
        context.textBaseline = "middle";
        for (let t = 0; t < tokens; t++) this.drawColumn(context, t);
        context.fillStyle = cssColor("soft");
        context.font = "11px system-ui, sans-serif";
        context.textAlign = "right";
        context.fillText("embed.", this.left - 6, this.top + this.rowHeight / 2);
        for (let r = 1; r < lensRows(); r += 2)
            context.fillText(depthWords(r)[0], this.left - 6, this.top + (r + 1) * this.rowHeight);
        this.scale.replaceChildren(legend("other", ...LENS_SCALES[this.shading]), legend("winner", "", "the winner leads"));
    },

    drawColumn(context, t) {
        const x = this.left + t * this.columnWidth, w = this.columnWidth - 1, last = decidesAt(t);
        const label = tokenLabel(t, Math.max(1, Math.floor(w / 6.2)));
        const text = (r, bold) => {
            context.font = (bold ? "600 " : "") + "11px system-ui, sans-serif";
            context.fillText(tokenName(lensId(r, t, 0), Math.max(1, Math.floor(w / 6.9))), x + 3, this.top + (r + 0.5) * this.rowHeight + 0.5);
        };
        context.textAlign = "left";
        context.fillStyle = cssColor("soft");
        context.font = "11px system-ui, sans-serif";
        if (w > 20) context.fillText(label, x + 3, this.top / 2);
        for (let r = 0; r < lensRows(); r++) {
            const wins = lensId(r, t, 0) === winnerOf(t);
            const colors = ramp(wins ? "winner" : "other"), i = shade(LENS_SHADES[this.shading](r, t) || 0);
            context.fillStyle = colors.css[i];
            context.fillRect(x, this.top + r * this.rowHeight, w, this.rowHeight - (r % 2 ? 0 : 1));
            context.fillStyle = inkOn(colors, i);
            // A token that stays the likeliest is written once.
            if (w > 20 && (r === 0 || lensId(r - 1, t, 0) !== lensId(r, t, 0))) text(r, wins);
        }
        context.fillStyle = cssColor("warm");
        context.fillRect(x, this.top + last * this.rowHeight - 1, w, 2);
    },

    placeMark() {
        const [r, t] = this.chosenCell();
        this.mark.style.width = this.columnWidth + "px";
        this.mark.style.height = this.rowHeight + 2 + "px";
        const x = this.left + t * this.columnWidth, box = this.scroll;
        if (x < box.scrollLeft || x + this.columnWidth > box.scrollLeft + box.clientWidth) box.scrollLeft = x - box.clientWidth / 2;
        this.mark.style.transform = `translate(${x - 1}px,${this.top + r * this.rowHeight - 1}px)`;
    },

    // Elements are made once and only filled on a hover.
    fillPanel() {
        this.where = el("h3");
        this.at = el("p", { class: "soft" });
        this.lines = Array.from({ length: lensTop() }, () => {
            const line = { name: el("span", { class: "name" }), bar: el("i"), value: el("span", { class: "value" }) };
            line.node = el("div", { class: "bar" }, line.name, el("span", { class: "track" }, line.bar), line.value);
            return line;
        });
        const facts = ["token that wins in the end", "its rank here", "its probability here", "entropy", "KL(final ‖ here)", "it leads for good from"];
        this.facts = facts.map(() => el("dd"));
        this.panel.append(this.where, this.at, el("div", { class: "bars small" }, this.lines.map((line) => line.node)),
            el("dl", null, facts.map((name, i) => [el("dt", null, name), this.facts[i]])));
    },

    showCell(r, t) {
        this.shown = String([r, t]);
        this.where.textContent = depthName(r);
        this.at.textContent = `position ${t}, “${tokenName(core.ids[t])}”`;
        this.lines.forEach((line, k) => {
            const id = lensId(r, t, k), p = lensP(r, t, k);
            line.name.textContent = tokenName(id);
            line.node.classList.toggle("next", id === winnerOf(t));
            line.bar.style.transform = `scaleX(${p})`;
            line.value.textContent = percent(p);
        });
        const texts = [tokenName(winnerOf(t)), String(lensStat(r, t, "rank")), percent(lensStat(r, t, "winnerP")),
            `${lensStat(r, t, "entropy").toFixed(2)} bits`, `${lensStat(r, t, "kl").toFixed(2)} bits`, depthName(decidesAt(t))];
        texts.forEach((text, i) => { this.facts[i].textContent = text; });
    },
});
