"use strict";
// The sampler: the rule of `sample` (kernels/kernels.h) on the logits of the chosen position. The
// page has the 512 largest logits, and of all others the log-sum-exp at each temperature of the
// slider, so that probabilities are those over the whole vocabulary.
const TOP_K = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 64, 80, 100, 150, 200, 300, 400, 512];
const UNIT = 2 ** 40; // a weight is an integer: floor(exp((logit - largest) / temperature) * 2^40)
const SHOWN = 20;
const CUT_BY = { k: "top-k", p: "top-p", m: "min-p" };

const candidateCount = () => core.candidates.count;

function candidateLogits(t) {
    const count = candidateCount();
    return numbers("topLogits").subarray(t * count, (t + 1) * count);
}
const candidateId = (t, i) => numbers("topIds", Uint32Array)[t * candidateCount() + i];

// Weights of the candidates, and of the rest together, at a temperature of the slider (index from 0).
function weightsAt(t, step) {
    const logits = candidateLogits(t), temperature = Math.fround(core.candidates.temperatures[step]);
    const weights = Float64Array.from(logits, (logit) =>
        Math.floor(Math.fround(Math.exp(Math.fround(Math.fround(logit - logits[0]) / temperature))) * UNIT));
    const all = numbers("restLse", Float64Array);
    const rest = all ? Math.exp(all[t * core.candidates.temperatures.length + step] - logits[0] / temperature) * UNIT : 0;
    return { weights, rest };
}

const sum = (list) => list.reduce((a, b) => a + b, 0);

// The cuts in the order of `sample`; `rest` is the weight of all tokens beyond the candidates.
// -> kept: Uint8Array, 1 where the candidate stays; by: the letter of the cut that took it.
function applyCuts(weights, rest, rule) {
    const by = new Array(weights.length).fill("");
    let count = weights.length, restKept = rest;
    if (rule.topK > 0) { // keeps a number
        for (let i = rule.topK; i < count; i++) by[i] = "k";
        count = Math.min(count, rule.topK);
        restKept = 0;
    }
    if (rule.topP < 1) { // the shortest prefix with that share of what top-k left
        const wanted = Math.fround(rule.topP) * (sum(weights.subarray(0, count)) + restKept);
        let held = weights[0], kept = 1;
        while (kept < count && held < wanted) held += weights[kept++];
        for (let i = kept; i < count; i++) by[i] = "p";
        if (held >= wanted) restKept = 0;
        else restKept = Math.min(restKept, wanted - held);
        count = kept;
    }
    if (rule.minP > 0) { // at least that share of the largest
        const least = Math.fround(rule.minP) * UNIT;
        for (let i = 1; i < count; i++) if (weights[i] < least) by[i] = "m";
        if (weights[weights.length - 1] < least) restKept = 0;
    }
    return { by, rest: restKept };
}

// What can be drawn at position t: p of each candidate, of the rest, and who cut what.
function sampled(t, rule) {
    const { weights, rest } = weightsAt(t, Math.max(0, rule.step));
    if (rule.step < 0) { // greedy: the largest logit, the lowest id among equals
        const by = Array.from(weights, (_, i) => (i ? "t" : ""));
        return { p: Array.from(weights, (_, i) => (i ? 0 : 1)), by, restP: 0 };
    }
    const after = applyCuts(weights, rest, rule);
    const total = after.rest + weights.reduce((a, w, i) => (after.by[i] ? a : a + w), 0);
    return { p: Array.from(weights, (w, i) => (after.by[i] ? 0 : w / total)), by: after.by, restP: after.rest / total };
}

addView({
    id: "sampler",
    follows: ["position"],
    title: "The next token, and the sampler",
    says: "The distribution after the chosen token, and what temperature, top-k, top-p and min-p make of it, in the order in " +
        "which the program applies them. The tick is p at temperature 1 without cuts.",
    present: () => Boolean(core.candidates) && hasBlock("topIds"),
    needs: () => ["topIds", "topLogits", "restLse"],

    build(body) {
        this.rule = { step: this.stepOf(1), topK: 0, topP: 1, minP: 0 };
        this.sliders = {};
        this.outcome = el("p", { class: "facts", role: "status" });
        this.heading = el("h3");
        const steps = core.candidates.temperatures;
        const panel = el("div", { class: "sliders" }, this.heading,
            this.slider("temperature", "temperature", 0, steps.length, this.rule.step + 1,
                (v) => { this.rule.step = v - 1; return v ? steps[v - 1].toFixed(2) : "0, greedy"; }),
            this.slider("topK", "1. top-k", 0, TOP_K.length - 1, 0, (v) => { this.rule.topK = TOP_K[v]; return TOP_K[v] || "off"; }),
            this.slider("topP", "2. top-p", 1, 100, 100, (v) => { this.rule.topP = v / 100; return v < 100 ? (v / 100).toFixed(2) : "off"; }),
            this.slider("minP", "3. min-p", 0, 100, 0, (v) => { this.rule.minP = v / 200; return v ? (v / 200).toFixed(3) : "off"; }),
            el("button", { type: "button", class: "plain", onclick: () => this.reset() }, "as the model gave it"), this.outcome);
        this.rows = Array.from({ length: SHOWN + 1 }, () => this.bar());
        body.append(el("div", { class: "split sampler" }, panel, el("div", { class: "bars", role: "list", "aria-label": "candidates" },
            this.rows.map((row) => row.node))));
    },

    stepOf(temperature) {
        return core.candidates.temperatures.findIndex((x) => Math.abs(x - temperature) < 1e-6);
    },

    slider(name, label, min, max, value, set) {
        const output = el("output", null, String(set(value)));
        const input = el("input", { type: "range", min, max, value, "data-name": name, "aria-label": label });
        const act = () => {
            output.textContent = set(Number(input.value));
            input.setAttribute("aria-valuetext", output.textContent);
            if (this.ready) this.show();
        };
        input.addEventListener("input", act);
        this.sliders[name] = { input, act };
        return el("label", null, el("span", null, label, output), input);
    },

    reset() {
        const start = { temperature: this.stepOf(1) + 1, topK: 0, topP: 100, minP: 0 };
        for (const [name, { input, act }] of Object.entries(this.sliders)) { input.value = start[name]; act(); }
    },

    bar() {
        const parts = { name: el("span", { class: "name" }), bar: el("i"), tick: el("u"), value: el("span", { class: "value" }), note: el("em") };
        const track = el("span", { class: "track" }, parts.bar, parts.tick);
        parts.node = el("div", { class: "bar", role: "listitem" }, parts.name, track, parts.value, parts.note);
        return parts;
    },

    draw() {
        this.ready = true;
        const t = chosen.position, next = core.ids[t + 1];
        this.heading.textContent = `After “${tokenName(core.ids[t])}”`;
        this.plain = sampled(t, { step: this.stepOf(1), topK: 0, topP: 1, minP: 0 });
        this.ids = Array.from({ length: candidateCount() }, (_, i) => candidateId(t, i));
        this.next = next === undefined ? -1 : this.ids.indexOf(next);
        this.show();
    },

    show() {
        const after = sampled(chosen.position, this.rule);
        const most = Math.max(after.p[0], this.plain.p[0], 1e-9);
        for (let i = 0; i < this.rows.length; i++) {
            const last = i === SHOWN; // the token that followed, where it is not among the first
            const at = last ? (this.next >= SHOWN ? this.next : -1) : i;
            this.rows[i].node.hidden = at < 0 || at >= this.ids.length;
            if (!this.rows[i].node.hidden) this.showBar(this.rows[i], at, after, most);
        }
        const kept = after.by.filter((by) => !by).length, open = after.restP > 0;
        const entropy = -after.p.reduce((a, p) => a + (p > 0 ? p * Math.log2(p) : 0), 0);
        const cutAny = after.by.some((by) => by);
        this.outcome.textContent = open && !cutAny
            ? `No token is cut; those beyond the ${kept} that this page lists have ${percent(after.restP)} together.`
            : `${kept} token${kept > 1 ? "s" : ""} left to draw from, entropy ${entropy.toFixed(2)} bits.`;
    },

    showBar(row, i, after, most) {
        const gone = after.by[i] !== "";
        row.node.className = "bar" + (gone ? " cut" : "") + (i === this.next ? " next" : "");
        row.name.textContent = tokenName(this.ids[i]);
        row.name.title = `id ${this.ids[i]}, logit ${exact(candidateLogits(chosen.position)[i])}`;
        row.bar.style.transform = `scaleX(${after.p[i] / most})`;
        row.tick.style.left = `${(100 * this.plain.p[i]) / most}%`;
        row.value.textContent = gone ? "" : percent(after.p[i]);
        const rank = i >= SHOWN ? `rank ${i + 1}, ` : "";
        row.note.textContent = gone ? (after.by[i] === "t" ? "not the largest" : `cut by ${CUT_BY[after.by[i]]}`)
            : i === this.next ? rank + "followed" : "";
        row.node.dataset.p = after.p[i];
    },
});
