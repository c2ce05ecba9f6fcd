"use strict";
// Any stage of the run as a picture and as numbers.
const STAGE_WORDS = {
    token_embedding: "embedding of the tokens", embedding: "what enters the first layer", att_norm: "norm before attention", q: "queries", k: "keys", v: "values",
    q_norm: "queries, after their norm", k_norm: "keys, after their norm", q_rotated: "queries, rotated", k_rotated: "keys, rotated", att_heads: "heads: weighted sums of values",
    att_projected: "after wo", att_out: "what attention adds", att_residual: "stream after attention", ffn_norm: "norm before the FFN", ffn_gate: "gate", ffn_up: "up",
    ffn_activated: "neurons, after the activation", ffn_projected: "after w_down", ffn_out: "what the FFN adds", layer_out: "stream after the layer",
    final_norm: "after the final norm", uncapped: "logits before the soft cap", logits: "logits",
};

// Opens a stage in this view, from anywhere; row and column where they are given.
function openTensor(id, row, column) {
    const stage = stageById.get(id);
    if (!stage) return;
    hideTip();
    const change = { stage: stageKey(stage), cell: column === undefined ? null : column };
    if (stage.layer >= 0) change.layer = stage.layer;
    if (row !== undefined) change.position = positionOfRow(stage, row);
    choose(change);
    const view = views.find((v) => v.id === "tensor");
    view.section.scrollIntoView({ behavior: calm.matches ? "auto" : "smooth", block: "start" });
}

// Logits may be there for the last positions only.
const positionOfRow = (stage, row) => tokens - stage.rows + row;
const rowOfPosition = (stage, t) => clamp(t - (tokens - stage.rows), stage.rows);

addView({
    id: "tensor",
    follows: ["position", "layer", "stage", "cell"],
    title: "Every number",
    says: "Any stage as a picture: a row for each token, a column for each channel. The colour scale ends at the 99th percentile of |x|, " +
        "since a few channels are far larger than the rest; the list has the ten largest. Click a cell for its neighbours.",
    present: () => Boolean(core.stages && core.stages.length),
    needs() { const stage = this.current(); return stage ? stageBlocks(stage.id) : []; },

    build(body) {
        this.chips = el("div", { class: "chips", role: "group", "aria-label": "stage" });
        this.heading = el("h3");
        this.facts = el("p", { class: "facts" });
        this.picture = new MatrixPicture("the stage as a picture", (row, column) => choose({ position: positionOfRow(this.current(), row), cell: column }));
        this.spikes = el("canvas", { role: "img", "aria-label": "the row of the chosen token, channel by channel" });
        this.spikeBox = el("div", null, this.spikes);
        this.extremes = el("div", { class: "panel" });
        this.rowHeading = el("h3");
        body.append(this.chips, this.heading, this.facts, this.picture.scroll, this.picture.scale,
            el("div", { class: "split tensor" }, el("div", null, this.rowHeading, this.spikeBox, this.picture.fields, this.picture.grid), this.extremes));
        onPointer(this.spikes, (x, y, event) => this.hoverSpike(x, event), hideTip);
    },

    // The chosen kind of stage in the chosen layer; else the last that this layer has.
    current() {
        const name = chosen.stage || "layer_out";
        return stageById.get(name) || stageById.get(`${chosen.layer}.${name}`) || core.stages.filter((s) => s.layer === chosen.layer).pop() || core.stages[0];
    },

    draw() {
        const stage = this.current(), width = stageWidth(stage), row = rowOfPosition(stage, chosen.position);
        const column = clamp(chosen.cell == null ? this.largestIn(stage, row) : chosen.cell, width);
        summarize(stage);
        this.drawChips(stage);
        this.showFacts(stage);
        this.picture.show({
            values: stageValues(stage.id), rows: stage.rows, columns: width, exact: isExact(stage), digits: stageDigits(stage),
            rowName: (r, most) => `“${tokenLabel(positionOfRow(stage, r), most)}”`, columnName: (c) => this.headOf(stage, c),
        }, row, column);
        this.drawSpikes(stage, row, width);
        this.showExtremes(stage);
    },

    largestIn(stage, row) {
        const width = stageWidth(stage), values = stageValues(stage.id).subarray(row * width, (row + 1) * width);
        return values.reduce((best, x, c) => (Math.abs(x) > Math.abs(values[best]) ? c : best), 0);
    },

    headOf(stage, c) {
        return stage.shape.length < 2 ? "" : `, head ${Math.floor(c / stage.shape[1])}, channel ${c % stage.shape[1]}`;
    },

    drawChips(current) {
        const button = (stage) => el("button", {
            type: "button", "aria-pressed": String(stage === current), "data-value": stageKey(stage), title: STAGE_WORDS[stage.stage] || stage.id,
            onclick: () => choose({ stage: stageKey(stage), cell: null }),
        }, stage.stage || stage.id.split(".").slice(-2).join("."));
        const outside = core.stages.filter((s) => s.layer < 0), inside = core.stages.filter((s) => s.layer === chosen.layer);
        refill(this.chips, ...inside.map(button), el("span", { class: "soft" }, inside.length && outside.length ? "outside the layers" : ""), ...outside.map(button));
    },

    showFacts(stage) {
        const [low, high, rms, nans, infinities] = stage.stats.map(fromJson);
        const show = stage.coding === "heads" ? (x) => short(x, stageDigits(stage)) : exact;
        const where = stage.layer >= 0 ? `Layer ${stage.layer}: ` : "";
        this.heading.textContent = where + (STAGE_WORDS[stage.stage] || stageKey(stage));
        const inexact = stage.coding === "heads" ? "computed here from weights and values" : "8 bits per number: a picture; the ten largest are exact";
        const coding = !isExact(stage) ? inexact : stage.coding === "sum" ? "the float32 sum of two stages, exact" : "float32, exact";
        const special = nans || infinities ? ` · ${nans} NaN, ${infinities} infinite` : "";
        this.facts.replaceChildren(`${stage.rows} × ${stage.shape.join(" × ")} · min ${show(low)} · max ${show(high)} · rms ${short(rms, 6)}`,
            special ? el("b", { class: "alarm" }, special) : "", ` · ${coding}`, el("br"), el("code", null, stage.name || stage.id));
    },

    // The row as bars from a zero line, the four largest with their channel.
    drawSpikes(stage, row, width) {
        const values = stageValues(stage.id).subarray(row * width, (row + 1) * width), room = roomIn(this.spikeBox), height = 110;
        const context = fitCanvas(this.spikes, room, height), step = room / width;
        const limit = values.reduce((a, x) => (Number.isFinite(x) ? Math.max(a, Math.abs(x)) : a), 0) || 1;
        this.row = { stage, row, width, step };
        this.rowHeading.textContent = `The row of “${tokenName(core.ids[chosen.position])}”`;
        const high = ramp("signed").css[225], low = ramp("signed").css[30];
        for (let c = 0; c < width; c++) {
            const tall = (Math.abs(values[c]) / limit) * (height / 2 - 14);
            context.fillStyle = values[c] >= 0 ? high : low;
            context.fillRect(c * step, values[c] >= 0 ? height / 2 - tall : height / 2, Math.max(0.7, step * 0.8), tall);
        }
        const order = Array.from(values.keys()).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, 4);
        context.font = "11px system-ui, sans-serif";
        context.fillStyle = cssColor("soft");
        context.textAlign = "center";
        const taken = [];
        for (const c of order) {
            const x = Math.max(16, Math.min(room - 16, (c + 0.5) * step)), tall = (Math.abs(values[c]) / limit) * (height / 2 - 14);
            if (taken.some((other) => Math.abs(other - x) < 32)) continue;
            taken.push(x);
            context.fillText(c, x, values[c] >= 0 ? height / 2 - tall - 4 : height / 2 + tall + 11);
        }
    },

    hoverSpike(x, event) {
        const { stage, row, width, step } = this.row, c = clamp(Math.floor(x / step), width);
        showTip(event, `channel ${c}${this.headOf(stage, c)}`, this.picture.text(row, c));
    },

    showExtremes(stage) {
        const line = ([r, c, value], i) => [el("button", { type: "button", class: "plain", "data-value": i, onclick: () => choose({ position: positionOfRow(stage, r), cell: c }) }, String(c)),
            tokenLabel(positionOfRow(stage, r), 12), stage.coding === "heads" ? about(value, stageDigits(stage)) : exact(fromJson(value))];
        refill(this.extremes, table("ten largest", ["channel", "token", "value"], stage.extremes.map(line), ["", "", "n"]));
    },
});
