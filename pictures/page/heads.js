"use strict";
// All attention heads as small pictures, and one of them large.
const HEAD_STATS = { entropy: 0, share: 1, first: 2, distance: 3 };
const headStat = (layer, head, t, name) => numbers("headStat")[((layer * core.heads + head) * tokens + t) * 4 + HEAD_STATS[name]];

// As `attention --entropy`: over the rows that have the number, NaN where none has. The first token
// has nothing else to look at.
function headMean(layer, head, name) {
    let total = 0, count = 0;
    for (let t = name === "first" ? 1 : 0; t < tokens; t++) {
        const x = headStat(layer, head, t, name);
        if (Number.isFinite(x)) { total += x; count++; }
    }
    return count ? total / count : NaN;
}
const orDash = (x, text) => (Number.isFinite(x) ? text(x) : "–");

// The place of a head among all by that mean; 1 is the largest.
function rankOfHead(layer, head, name) {
    const own = headMean(layer, head, name);
    let rank = 1;
    for (let l = 0; l < core.layers; l++) for (let h = 0; h < core.heads; h++) if (headMean(l, h, name) > own) rank++;
    return rank;
}

const layersWithAttention = () => Array.from({ length: core.layers }, (_, l) => l).filter((l) => hasBlock("A" + l));
const LARGEST_SPRITE = 64; // cells of a small picture along its side; more tokens share a cell

// A picture of a head with one pixel a cell: the root of the largest weight that falls into it,
// since with the weights themselves all but the first token would look empty.
function headPixels(layer, head) {
    const side = Math.min(tokens, LARGEST_SPRITE), per = tokens / side, weight = headWeight(layer, head);
    const largest = new Float32Array(side * side);
    for (let i = 0; i < tokens; i++) {
        for (let j = 0, row = Math.floor(i / per) * side; j <= i; j++) {
            const at = row + Math.floor(j / per);
            largest[at] = Math.max(largest[at], weight(i, j));
        }
    }
    const colors = ramp("heat").words, nan = packedHex(NAN_COLOR);
    return pixels(side, side, (r, c) => {
        const x = largest[r * side + c];
        return c > r ? 0 : Number.isNaN(x) ? nan : colors[shade(Math.sqrt(x))];
    });
}

const HEAD_ORDERS = {
    model: ["as in the model", null],
    entropy: ["entropy", "widest first"],
    first: ["first token", "most weight on the first token first"],
    distance: ["distance", "farthest back first"],
};

addView({
    id: "heads",
    follows: ["layer", "head"],
    title: "Attention heads",
    says: "Every head of every layer: a row for each token, a column for each token it attends to, stronger for a larger weight (by " +
        "its square root). Entropy is how widely a head looks; weight on the first token is often a head at rest.",
    present: () => core.heads > 0 && core.attention && layersWithAttention().length > 0,
    needs: () => ["headStat"],
    order: "model",

    build(body) {
        const orders = Object.entries(HEAD_ORDERS).map(([key, [label]]) => [key, label]);
        const sorts = hasBlock("headStat") ? choice("sort heads by", orders, "model", (key) => { this.order = key; this.draw(); }) : null;
        this.scale = el("span", { class: "scales" });
        this.note = el("span", { class: "soft" });
        this.canvas = el("canvas", { role: "img", "aria-label": "all attention heads; arrow keys and h choose one" });
        this.mark = el("div", { class: "mark" });
        body.append(el("div", { class: "controls" }, sorts, this.scale, this.note),
            el("div", { class: "scroll" }, el("div", { class: "stack" }, this.canvas, this.mark)));
        onPointer(this.canvas, (x, y, event) => this.hover(x, y, event), hideTip, (x, y) => {
            const cell = this.headAt(x, y);
            if (cell) choose({ layer: cell[0], head: cell[1] });
        });
        this.sprites = new Map();
    },

    // [layer, head] in the order of drawing, and how many stand in a row.
    arrange(room) {
        const layers = layersWithAttention(), heads = core.heads, list = [];
        this.left = this.order === "model" ? 26 : 2;
        const free = room - this.left;
        this.turned = this.order === "model" && free / layers.length < 24; // narrow: a row for each layer
        for (const l of layers) for (let h = 0; h < heads; h++) list.push([l, h]);
        if (this.order !== "model") {
            const key = new Map(list.map((x) => [x, headMean(...x, this.order)]));
            const size = (x) => (Number.isNaN(key.get(x)) ? -1 : key.get(x)); // those without a mean come last
            list.sort((a, b) => size(b) - size(a));
        }
        const across = this.order === "model" ? (this.turned ? heads : layers.length) : Math.max(4, Math.floor(free / 46));
        this.tile = Math.max(20, Math.min(76, Math.floor(free / across)));
        this.across = across;
        this.top = this.order === "model" ? 16 : 2;
        this.tall = this.tile + (this.order === "model" ? 0 : 13); // room for the name below
        this.list = list;
        this.rows = this.order === "model" ? (this.turned ? layers.length : heads) : Math.ceil(list.length / across);
    },

    // Column and row of the k-th in the list.
    placeOf(k) {
        if (this.order !== "model") return [k % this.across, Math.floor(k / this.across)];
        const layer = Math.floor(k / core.heads), head = k % core.heads;
        return this.turned ? [head, layer] : [layer, head];
    },

    headAt(x, y) {
        const c = Math.floor((x - this.left) / this.tile), r = Math.floor((y - this.top) / this.tall);
        if (c < 0 || r < 0 || c >= this.across || r >= this.rows) return null;
        if (this.order !== "model") return this.list[r * this.across + c] || null;
        return this.list[this.turned ? r * core.heads + c : c * core.heads + r] || null;
    },

    hover(x, y, event) {
        const cell = this.headAt(x, y);
        if (!cell) return hideTip();
        const lines = [`layer ${cell[0]}, head ${cell[1]}`];
        const mean = (name, text) => orDash(headMean(...cell, name), text), decimals = (x) => x.toFixed(2);
        if (hasBlock("headStat")) lines.push(`entropy ${mean("entropy", decimals)} bits (${mean("share", percent)} of the most)`,
            `on the first token ${mean("first", percent)}`, `mean distance ${mean("distance", decimals)} tokens`);
        showTip(event, ...lines);
    },

    draw() {
        const room = roomIn(this.section.lastChild), key = [room, themeName(), this.order].join();
        if (this.drawn !== key) {
            this.drawn = key;
            this.arrange(room);
            this.drawFrame();
            this.drawTiles();
        }
        this.placeMark();
    },

    drawFrame() {
        this.context = fitCanvas(this.canvas, this.left + this.across * this.tile + 2, this.top + this.rows * this.tall + 2);
        this.context.font = "10px system-ui, sans-serif";
        this.context.fillStyle = cssColor("soft");
        this.context.textAlign = "center";
        this.context.textBaseline = "middle";
        this.scale.replaceChildren(legend("heat", "weight 0", "1"));
        const said = this.order === "model" ? (this.turned ? "a row for each layer, a column for each head" : "a column for each layer, a row for each head")
            : HEAD_ORDERS[this.order][1] + "; a name is layer.head";
        this.note.textContent = said;
        if (this.order !== "model") return;
        const columns = this.turned ? [...Array(core.heads).keys()] : layersWithAttention();
        const rows = this.turned ? layersWithAttention() : [...Array(core.heads).keys()];
        columns.forEach((name, c) => this.context.fillText(name, this.left + (c + 0.45) * this.tile, 7));
        rows.forEach((name, r) => this.context.fillText(name, this.left / 2 - 2, this.top + (r + 0.45) * this.tile));
    },

    // Layer after layer, as their weights are decoded; another order or theme ends an older drawing.
    async drawTiles() {
        const key = this.drawn, byLayer = new Map();
        this.list.forEach((cell, k) => byLayer.set(cell[0], [...(byLayer.get(cell[0]) || []), k]));
        for (const [layer, places] of byLayer) {
            const missing = missingBlocks(["A" + layer]);
            if (missing.length) await loadBlocks(missing);
            if (this.drawn !== key) return;
            for (const k of places) this.drawTile(k);
        }
    },

    drawTile(k) {
        const [layer, head] = this.list[k], [c, r] = this.placeOf(k), name = `${themeName()} ${layer}.${head}`;
        if (!this.sprites.has(name)) this.sprites.set(name, headPixels(layer, head));
        const x = this.left + c * this.tile, y = this.top + r * this.tall, side = this.tile - 4;
        this.context.imageSmoothingEnabled = tokens > side;
        this.context.drawImage(this.sprites.get(name), x, y, side, side);
        if (this.order !== "model") this.context.fillText(`${layer}.${head}`, x + side / 2, y + side + 6);
    },

    placeMark() {
        const k = this.list.findIndex(([l, h]) => l === chosen.layer && h === chosen.head);
        this.mark.hidden = k < 0;
        if (k < 0) return;
        const [c, r] = this.placeOf(k);
        this.mark.style.width = this.mark.style.height = this.tile + "px";
        this.mark.style.transform = `translate(${this.left + c * this.tile - 2}px,${this.top + r * this.tall - 2}px)`;
    },
});
