"use strict";
// From the embedding to the logits: the residual stream and what each half of each layer adds.
const FLOW = { in: 0, att: 1, mid: 2, ffn: 3, out: 4, attCos: 5, ffnCos: 6 };
const flowOf = (layer, t, name) => numbers("flow")[(layer * tokens + t) * 7 + FLOW[name]];
const degrees = (cosine) => Math.round((Math.acos(Math.max(-1, Math.min(1, cosine))) * 180) / Math.PI) + "°";

// The stage with which a layer begins: what the layer before left.
const streamBefore = (layer) => (layer === 0 ? "embedding" : `${layer - 1}.layer_out`);

// ---- all layers ----

const DEPTH = { height: 132, left: 44, right: 8, top: 10, bottom: 20 };

// The three sizes of each layer on a logarithmic axis: between layers they differ by factors.
function depthChart(width, t, pick) {
    const sizes = [];
    for (let l = 0; l < core.layers; l++) sizes.push(["out", "att", "ffn"].map((name) => flowOf(l, t, name)));
    const positive = [...sizes.flat(), flowOf(0, t, "in")].filter((x) => x > 0 && Number.isFinite(x));
    const high = Math.ceil(Math.log10(Math.max(...positive, 1e-30)) + 1e-9);
    const low = Math.max(high - 5, Math.floor(Math.log10(Math.min(...positive, 1e30))));
    const y = (x) => DEPTH.top + ((high - Math.log10(Math.max(finite(x), 10 ** low))) / Math.max(1, high - low)) * (DEPTH.height - DEPTH.top - DEPTH.bottom);
    const step = (width - DEPTH.left - DEPTH.right) / core.layers, x = (l) => DEPTH.left + l * step, floor = y(10 ** low);
    const nodes = [];
    for (let e = low; e <= high; e++) {
        nodes.push(svg("line", { x1: DEPTH.left, x2: width - DEPTH.right, y1: y(10 ** e), y2: y(10 ** e), class: "grid" }));
        nodes.push(svg("text", { x: DEPTH.left - 6, y: y(10 ** e) + 4, "text-anchor": "end" }, short(10 ** e)));
    }
    const area = sizes.map((s, l) => `${x(l)},${y(flowOf(l, t, "in"))} ${x(l + 1)},${y(s[0])}`).join(" ");
    nodes.push(svg("polygon", { class: "stream", points: `${x(0)},${floor} ${area} ${x(core.layers)},${floor}` }));
    const thick = Math.max(1.5, Math.min(16, step / 3.4)), every = Math.ceil(18 / step);
    sizes.forEach(([, att, ffn], l) => {
        if (!sizes[l].every(Number.isFinite)) nodes.push(svg("rect", { class: "special", x: x(l), width: step, y: DEPTH.top, height: floor - DEPTH.top }));
        nodes.push(svg("rect", { class: "att", x: x(l) + step / 2 - thick - 0.5, width: thick, y: y(att), height: Math.max(0, floor - y(att)) }));
        nodes.push(svg("rect", { class: "ffn", x: x(l) + step / 2 + 0.5, width: thick, y: y(ffn), height: Math.max(0, floor - y(ffn)) }));
        if (l % every === 0) nodes.push(svg("text", { x: x(l) + step / 2, y: DEPTH.height - 5, "text-anchor": "middle", class: l === chosen.layer ? "here" : "" }, l));
        nodes.push(svg("rect", { class: "hit" + (l === chosen.layer ? " here" : ""), x: x(l), width: step, y: DEPTH.top, height: floor - DEPTH.top, onclick: () => pick(l),
            onpointermove: (event) => showTip(event, `layer ${l}, rms`, `stream leaves with ${short(sizes[l][0])}`, `attention adds ${short(att)}`, `FFN adds ${short(ffn)}`), onpointerleave: hideTip }));
    });
    return svg("svg", { width, height: DEPTH.height, viewBox: `0 0 ${width} ${DEPTH.height}`, role: "img", "aria-label": "rms of the stream and of both branches, layer by layer" }, nodes);
}

// ---- one half of a layer ----

const HALF = { height: 300, stream: 252, box: 24, band: 46 };

// A named box. It opens its stage in the view of tensors; a stage that the page does not have for
// this layer is grey, one that the model does not have is left out.
function stageBox(x, y, width, label, id, extra) {
    const known = stageById.has(id), name = id.split(".").pop();
    if (!known && !core.stages.some((stage) => stage.stage === name)) return null;
    const open = () => openTensor(id);
    const key = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } };
    const attributes = known ? { class: "box", role: "button", tabindex: 0, "data-stage": id, "aria-label": `${label}: show its numbers`, onclick: open, onkeydown: key }
        : { class: "box missing" };
    return svg("g", attributes, svg("title", null, known ? id : `${id}: not stored for this layer (view --layers)`),
        svg("rect", { x, y, width, height: HALF.box, rx: 5 }), svg("text", { x: x + width / 2, y: y + 16, "text-anchor": "middle" }, label), extra || null);
}

// The stream from left to right; at `join` it takes in the branch and its size changes.
function streamBand(width, before, after, join, unit) {
    const a = Math.max(1, finite(before) * unit) / 2, b = Math.max(1, finite(after) * unit) / 2, y = HALF.stream;
    return svg("path", { class: "stream", d: `M0,${y - a}H${join - 20}C${join},${y - a} ${join},${y - b} ${join + 20},${y - b}H${width}V${y + b}H${join + 20}C${join},${y + b} ${join},${y + a} ${join - 20},${y + a}H0Z` });
}

// A branch: along `y` from x, then down into the stream. Round joins hold for any width.
function branchPath(kind, x, y, join, size, unit, words) {
    const width = Math.max(1.2, finite(size) * unit), middle = join + 8, right = x + (middle - x) / 2;
    return [svg("path", { class: `branch ${kind}`, "stroke-width": width, d: `M${x},${y}H${middle}V${HALF.stream}` }),
        svg("text", { x: right, y: y - width / 2 - 22, "text-anchor": "middle", class: "strong" }, `+ rms ${short(size, 3)}`),
        svg("text", { x: right, y: y - width / 2 - 7, "text-anchor": "middle" }, svg("title", null, "angle between the branch and the stream that it joins"), words)];
}

const dashed = (d) => svg("path", { class: "thin", d });

// Tokens on the left, heads on the right, a ribbon for the weight of a token in a head; a head's
// size is the length of what it adds.
function headRibbons(x0, x1, y0, y1, layer, t) {
    const norms = numbers("headNorm"), weights = decodedBlocks.has("A" + layer), nodes = [];
    if (!weights) return nodes;
    const sizes = Array.from({ length: core.heads }, (_, h) => (norms ? finite(norms[(layer * tokens + t) * core.heads + h]) : 1));
    const total = sum(sizes) || 1, gap = Math.min(5, 40 / core.heads), tall = y1 - y0 - gap * (core.heads - 1);
    const flows = sizes.map((size, h) => { const w = headWeight(layer, h); return Array.from({ length: t + 1 }, (_, j) => finite((w(t, j) * size) / total)); });
    const perToken = Array.from({ length: t + 1 }, (_, j) => sum(flows.map((f) => f[j])));
    const space = Math.min(4, 40 / (t + 1)), scale = y1 - y0 - space * t;
    const tokenY = [];
    perToken.reduce((y, share, j) => { tokenY[j] = y; return y + share * scale + space; }, y0);
    const used = new Float64Array(t + 1);
    let y = y0;
    flows.forEach((flow, h) => {
        const here = h === chosen.head;
        flow.forEach((share, j) => {
            const a = tokenY[j] + used[j] * scale, wa = share * scale, wb = share * tall, m = (x0 + x1) / 2;
            if (share > 0.002) nodes.push(svg("path", { class: "ribbon" + (here ? " here" : ""), d: `M${x0},${a}C${m},${a} ${m},${y} ${x1},${y}V${y + wb}C${m},${y + wb} ${m},${a + wa} ${x0},${a + wa}Z` }));
            used[j] += share;
            y += wb;
        });
        const height = (sizes[h] / total) * tall;
        nodes.push(svg("rect", { class: "node" + (here ? " here" : ""), x: x1, y: y - height, width: 6, height: Math.max(1, height), onclick: () => choose({ head: h }) },
            svg("title", null, `head ${h}: ${percent(sizes[h] / total)} of the lengths of all heads`)));
        if (core.heads <= 16) nodes.push(svg("text", { x: x1 + 10, y: y - height / 2 + 4, class: here ? "here" : "" }, h));
        y += gap;
    });
    nodes.push(...tokenLabels(x0, tokenY, perToken, scale));
    return nodes;
}

// Labels of tokens, from the largest on, where there is room for one.
function tokenLabels(x, tops, shares, scale) {
    const taken = [], nodes = [];
    const order = shares.map((_, j) => j).sort((a, b) => shares[b] - shares[a]);
    for (const j of order) {
        const y = tops[j] + (shares[j] * scale) / 2;
        nodes.push(svg("rect", { class: "node", x: x - 6, y: tops[j], width: 6, height: Math.max(0.8, shares[j] * scale) }));
        if (taken.some((other) => Math.abs(other - y) < 12)) continue;
        taken.push(y);
        nodes.push(svg("text", { x: x - 10, y: y + 4, "text-anchor": "end" }, tokenLabel(j, 9)));
    }
    return nodes;
}

function attentionHalf(width, layer, t, unit) {
    const id = (name) => `${layer}.${name}`, join = width - 66, out = Math.min(width * 0.62, width - 190), y = 96;
    const before = flowOf(layer, t, "in"), rise = (finite(before) * unit) / 2, boxes = [["norm", "att_norm", 48], ["q", "q", 30], ["k", "k", 30], ["v", "v", 30]];
    const nodes = [streamBand(width, before, flowOf(layer, t, "mid"), join, unit),
        ...branchPath("att", out + 64, y, join, flowOf(layer, t, "att"), unit, "at " + degrees(flowOf(layer, t, "attCos"))),
        dashed(`M30,${HALF.stream - rise}V206`), dashed("M54,194H76"), dashed(`M91,182V170M131,182V170M171,182V170`), dashed(`M${out - 34},${y}H${out}`)];
    let x = 6;
    for (const [label, name, w] of boxes) { nodes.push(stageBox(x, 182, w, label, id(name))); x += w + 22 - (label === "norm" ? 0 : 12); }
    nodes.push(...headRibbons(96, out - 46, 24, 166, layer, t), svg("text", { x: 6, y: 12 }, "attends to"), svg("text", { x: out - 42, y: 12, "text-anchor": "middle" }, "heads"));
    nodes.push(stageBox(out - 4, y - 12, 68, "wo", id("att_out")), stageBox(x + 8, 182, 72, "heads", id("att_heads")));
    nodes.push(stageBox(4, HALF.stream - 12, 44, "in", streamBefore(layer)), stageBox(width - 40, HALF.stream - 12, 38, "mid", id("att_residual")),
        svg("text", { x: 4, y: HALF.height - 2 }, `rms ${short(before)}`));
    return halfSvg("attention half of the layer", width, nodes);
}

const halfSvg = (label, width, nodes) =>
    svg("svg", { width, height: HALF.height, viewBox: `0 0 ${width} ${HALF.height}`, role: "group", "aria-label": label }, nodes.filter((node) => node));

// The largest neurons as bars; what share of all squares they hold says how sparse the layer is.
function neuronBars(x0, x1, y0, y1, layer, t) {
    const stage = stageById.get(layer + ".ffn_activated");
    if (!stage || missingBlocks(stageBlocks(stage.id)).length) return [];
    const width = stageWidth(stage), row = stageValues(stage.id).subarray(t * width, (t + 1) * width);
    const size = (i) => (Number.isFinite(row[i]) ? Math.abs(row[i]) : Infinity); // a NaN comes first
    const order = Array.from(row.keys()).sort((a, b) => (size(a) === size(b) ? a - b : size(b) - size(a)));
    const count = Math.max(6, Math.min(40, Math.floor((x1 - x0) / 7))), shown = order.slice(0, count), middle = (y0 + y1) / 2;
    const most = size(order.find((i) => Number.isFinite(row[i]))) || 1, step = (x1 - x0) / count;
    const held = shown.reduce((a, i) => a + row[i] ** 2, 0) / (row.reduce((a, x) => a + x * x, 0) || 1);
    const nodes = shown.map((i, k) => {
        const whole = size(i) === Infinity, height = whole ? middle - y0 : Math.max(0.8, (size(i) / most) * (middle - y0));
        const value = isExact(stage) ? exact(row[i]) : about(row[i]);
        return svg("rect", { class: whole ? "neuron special" : "neuron", x: x0 + k * step, width: Math.max(1.5, step - 2), y: row[i] < 0 ? middle : middle - height, height,
            onpointermove: (event) => showTip(event, `neuron ${i}`, value), onpointerleave: hideTip, onclick: () => openTensor(stage.id, t, i) });
    });
    return [...nodes, svg("text", { x: x0, y: 12 }, `${count} largest of ${grouped(width)} neurons,`), svg("text", { x: x0, y: 26 }, `${percent(held)} of the sum of squares`)];
}

function ffnHalf(width, layer, t, unit) {
    const id = (name) => `${layer}.${name}`, join = width - 66, out = Math.min(width * 0.62, width - 190), y = 96;
    const before = flowOf(layer, t, "mid"), rise = (finite(before) * unit) / 2;
    const nodes = [streamBand(width, before, flowOf(layer, t, "out"), join, unit),
        ...branchPath("ffn", out + 64, y, join, flowOf(layer, t, "ffn"), unit, "at " + degrees(flowOf(layer, t, "ffnCos"))),
        dashed(`M30,${HALF.stream - rise}V206`), dashed("M54,194H76"), dashed("M98,182V166M146,182V166"), dashed(`M${out - 20},${y}H${out}`)];
    nodes.push(stageBox(6, 182, 48, "norm", id("ffn_norm")), stageBox(76, 182, 44, "gate", id("ffn_gate")), stageBox(128, 182, 36, "up", id("ffn_up")),
        stageBox(180, 182, 72, "activated", id("ffn_activated")));
    nodes.push(...neuronBars(20, out - 24, 36, 162, layer, t), stageBox(out - 4, y - 12, 68, "w_down", id("ffn_out")));
    nodes.push(stageBox(width - 40, HALF.stream - 12, 38, "out", id("layer_out")), svg("text", { x: 4, y: HALF.height - 2 }, `rms ${short(before)}`),
        svg("text", { x: width - 2, y: HALF.height - 2, "text-anchor": "end" }, `rms ${short(flowOf(layer, t, "out"))}`));
    return halfSvg("FFN half of the layer", width, nodes);
}

addView({
    id: "layer",
    follows: ["position", "layer", "head"],
    title: "Residual stream",
    says: "Attention and FFN read the stream and add to it; nothing else changes it. Above, root mean squares (rms) in all layers at the " +
        "chosen token, on a logarithmic axis. Below, one layer with widths in proportion to rms. A box opens its numbers.",
    present: () => Boolean(core.river) && hasBlock("flow"),
    needs: () => ["flow", "headNorm", "A" + chosen.layer, ...stageBlocks(chosen.layer + ".ffn_activated")],

    build(body) {
        const key = (kind, text) => el("span", { class: "key " + kind }, text);
        this.depth = el("div");
        this.heading = el("h3");
        this.halves = el("div", { class: "halves" });
        body.append(el("div", { class: "controls" }, key("stream", "stream"), key("att", "attention adds"), key("ffn", "FFN adds")),
            this.depth, this.heading, this.halves);
    },

    draw() {
        const room = roomIn(this.section.lastChild), { layer, position: t } = chosen;
        const width = room > 820 ? Math.floor(room / 2) : room;
        const most = Math.max(...["in", "att", "mid", "ffn", "out"].map((name) => flowOf(layer, t, name)).filter(Number.isFinite), 1e-30);
        this.depth.replaceChildren(depthChart(room, t, (l) => choose({ layer: l })));
        this.heading.textContent = `Layer ${layer} at “${tokenName(core.ids[t])}”`;
        this.halves.replaceChildren(attentionHalf(width, layer, t, HALF.band / most), ffnHalf(width, layer, t, HALF.band / most));
    },
});
