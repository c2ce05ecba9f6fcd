"use strict";
// One head: its matrix, the same as lines between tokens, and its numbers.
const HEAD_STAGES = [["raw", "raw q · k"], ["scaled", "scaled"], ["weights", "softmax"]];

addView({
    id: "head",
    follows: ["position", "layer", "head"],
    title: "One head",
    says: "Left the matrix of the chosen head: a row attends to its columns. Right the same as lines, from the attending token to those " +
        "attended to. Scores come before the softmax: raw is q · k, scaled is what the softmax takes.",
    present: () => core.heads > 0 && core.attention && layersWithAttention().length > 0,
    needs: () => ["headStat", ...attentionBlocks(chosen.layer)],
    stage: "weights", left: 74, top: 10,

    build(body) {
        this.heading = el("h3");
        this.controls = choice("stage of attention", HEAD_STAGES, this.stage, (key) => { this.stage = key; this.draw(); });
        this.canvas = el("canvas", { role: "img", "aria-label": "attention matrix of the chosen head" });
        this.scale = el("div", { class: "scales" });
        this.lines = svg("svg", { role: "img", "aria-label": "lines from each token to those it attends to" });
        this.facts = el("div", { class: "panel" });
        this.scroll = el("div", { class: "scroll", tabindex: 0 }, this.canvas);
        this.lineBox = el("div", { class: "lines" }, this.lines);
        body.append(el("div", { class: "controls" }, this.heading, this.controls),
            el("div", { class: "split head" }, el("div", null, this.scroll, this.scale), this.lineBox, this.facts));
        onPointer(this.canvas, (x, y, event) => this.hover(x, y, event), hideTip, (x, y) => {
            const i = Math.floor((y - this.top) / this.cell);
            if (i >= 0 && i < tokens) choose({ position: i });
        });
    },

    // (i, j) -> number of the stage that is shown; false for exact: computed here or of 8 bits.
    source() {
        const { layer, head } = chosen;
        if (this.stage === "weights") return { at: headWeight(layer, head), exact: areWeightsExact(layer), digits: 3 };
        return { at: headScore(layer, head, this.stage === "scaled"), exact: false, digits: this.scoreDigits(layer) };
    },

    // Scores are offered where the page can compute them.
    offerStages() {
        const known = { raw: hasRaw(chosen.layer), scaled: hasScaled(chosen.layer), weights: true };
        for (const button of this.controls.children) button.disabled = !known[button.dataset.value];
        if (!known[this.stage]) { this.stage = "weights"; this.controls.press("weights"); }
    },

    scoreDigits(layer) {
        if (hasExactQK(layer)) return cacheDigits();
        return fromWeights(layer) ? 4 : 1; // products of pictures may cancel
    },

    draw() {
        const known = decodedBlocks.has("A" + chosen.layer);
        this.section.lastChild.classList.toggle("absent", !known);
        if (!known) return;
        this.offerStages();
        const { layer, head } = chosen, group = core.attention.kvOf[head];
        this.heading.textContent = `Layer ${layer}, head ${head}` + (core.kvHeads < core.heads ? ` (keys and values of group ${group})` : "");
        this.shown = this.source();
        this.drawMatrix();
        this.drawLines();
        this.showFacts();
    },

    // Row by row from the numbers; scores are computed once for the picture and kept for hovers.
    drawMatrix() {
        const room = Math.min(roomIn(this.scroll), 520);
        // At least 6 pixels, as long as all cells fit into a canvas: labels stay sharp.
        const least = Math.max(1, Math.min(6, Math.floor((Math.sqrt(MOST_PIXELS) - this.left - 4) / tokens)));
        this.cell = Math.max(least, Math.min(34, Math.floor((room - this.left) / tokens)));
        const values = (this.values = new Float64Array(triangle(tokens)));
        let low = Infinity, high = -Infinity;
        for (let i = 0, k = 0; i < tokens; i++) for (let j = 0; j <= i; j++, k++) {
            values[k] = this.shown.at(i, j);
            if (!Number.isFinite(values[k])) continue; // a hidden key has no score
            low = Math.min(low, values[k]);
            high = Math.max(high, values[k]);
        }
        const weights = this.stage === "weights", most = Math.max(-low, high) || 1;
        const colors = ramp(weights ? "heat" : "signed").words;
        const picture = pixels(tokens, tokens, (i, j) => {
            if (j > i) return 0;
            const x = values[triangle(i) + j];
            if (x === -Infinity) return 0;
            return Number.isFinite(x) ? colors[shade(weights ? Math.sqrt(x) : 0.5 + x / most / 2)] : packedHex(NAN_COLOR);
        });
        const side = tokens * this.cell, context = fitCanvas(this.canvas, this.left + side + 2, this.top + side + 4);
        context.drawImage(picture, this.left, this.top, side, side);
        this.drawLabels(context, side);
        this.scale.replaceChildren(weights ? legend("heat", "0", "1, by the square root") : legend("signed", short(-most, 3), short(most, 3)));
    },

    drawLabels(context, side) {
        context.font = "11px system-ui, sans-serif";
        context.textAlign = "right";
        context.textBaseline = "middle";
        const every = Math.ceil(11 / this.cell);
        for (let i = 0; i < tokens; i++) {
            const here = i === chosen.position;
            if (i % every && !here) continue;
            context.fillStyle = cssColor(here ? "accent" : "soft");
            context.fillText(tokenLabel(i, 10), this.left - 6, this.top + (i + 0.5) * this.cell);
        }
        context.strokeStyle = cssColor("accent");
        context.lineWidth = 1.5;
        context.strokeRect(this.left - 0.5, this.top + chosen.position * this.cell, (chosen.position + 1) * this.cell + 1, this.cell);
    },

    hover(x, y, event) {
        const i = Math.floor((y - this.top) / this.cell), j = Math.floor((x - this.left) / this.cell);
        if (i < 0 || j < 0 || i >= tokens || j > i) return hideTip();
        const value = this.values[triangle(i) + j];
        const stage = HEAD_STAGES.find(([key]) => key === this.stage)[1];
        const text = value === -Infinity ? (isHidden(chosen.layer, chosen.head)(i, j) ? "hidden: weight 0" : "weight 0") : `${stage} ${this.shown.exact ? exact(value) : about(value, this.shown.digits)}`;
        showTip(event, `${i} “${tokenName(core.ids[i])}” → ${j} “${tokenName(core.ids[j])}”`, text);
    },

    drawLines() {
        const step = Math.max(4, Math.min(22, 420 / tokens)), width = Math.min(300, roomIn(this.lineBox)), height = tokens * step + 8;
        const x0 = 84, x1 = width - 84, y = (i) => 4 + (i + 0.5) * step, nodes = [];
        const weight = headWeight(chosen.layer, chosen.head), every = Math.ceil(11 / step);
        const line = (i, j, here) => {
            const w = weight(i, j);
            if (!(w >= (here ? 0.004 : 0.03))) return; // NaN neither
            const d = `M${x0},${y(i)}C${(x0 + x1) / 2},${y(i)} ${(x0 + x1) / 2},${y(j)} ${x1},${y(j)}`;
            nodes.push(svg("path", { d, class: here ? "line here" : "line", "stroke-width": Math.max(0.6, w * Math.min(12, step * 0.7)).toFixed(2) }));
        };
        for (let i = 0; i < tokens; i++) if (i !== chosen.position) for (let j = 0; j <= i; j++) line(i, j, false);
        for (let j = 0; j <= chosen.position; j++) line(chosen.position, j, true);
        for (let i = 0; i < tokens; i++) {
            const here = i === chosen.position, w = i <= chosen.position ? weight(chosen.position, i) : 0;
            if (i % every === 0 || here) nodes.push(svg("text", { x: x0 - 6, y: y(i) + 4, "text-anchor": "end", class: here ? "here" : "" }, tokenLabel(i, 10)));
            if (i % every === 0 || w > 0.05)
                nodes.push(svg("text", { x: x1 + 6, y: y(i) + 4, class: w > 0.05 ? "strong" : "" }, tokenLabel(i, 8) + (w > 0.02 ? ` ${Math.round(100 * w)} %` : "")));
        }
        this.lines.setAttribute("viewBox", `0 0 ${width} ${height}`);
        this.lines.setAttribute("width", width);
        this.lines.setAttribute("height", height);
        this.lines.replaceChildren(...nodes);
    },

    showFacts() {
        if (!hasBlock("headStat")) return this.facts.replaceChildren();
        const { layer, head, position } = chosen;
        const row = (label, name, text) => {
            const mean = headMean(layer, head, name);
            return [label, orDash(headStat(layer, head, position, name), text), orDash(mean, text), orDash(mean, () => rankOfHead(layer, head, name))];
        };
        const inBits = (x) => x.toFixed(2) + " bits";
        this.facts.replaceChildren(table("numbers of the head", ["", `“${tokenLabel(position, 9)}”`, "mean", "rank"], [
            row("entropy", "entropy", inBits),
            row("share of the maximum", "share", percent),
            row("on the first token", "first", percent),
            row("mean distance", "distance", (x) => x.toFixed(2)),
        ], ["", "n", "n", "n"]), el("p", { class: "soft" }, `Rank: of the mean, among ${core.layers * core.heads} heads, the largest first.`));
    },
});
