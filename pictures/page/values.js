"use strict";
// Stages as numbers: what is stored, what is the sum of two others, and what follows from others
// (scores from queries and keys, heads from weights and values). All functions here need decoded
// blocks: views name theirs with stageBlocks and attentionBlocks.
const stageById = new Map((core.stages || []).map((stage) => [stage.id, stage]));
const stageCache = new Map(); // id -> Float32Array (rows, width)
const tokens = core.ids.length;

const stageWidth = (stage) => stage.shape.reduce((a, b) => a * b, 1);
// A sum is as exact as its parts.
const isExact = (stage) => stage.exact ?? (stage.coding !== "i8" && (stage.of || []).every((id) => isExact(stageById.get(id))));
// What `chosen.stage` holds: a kind of stage, which every layer has, or the id of an unknown tensor.
const stageKey = (stage) => stage.stage || stage.id;

function stageBlocks(id, names = new Set()) {
    const stage = stageById.get(id);
    if (!stage) return [];
    if (stage.of) for (const part of stage.of) stageBlocks(part, names);
    if (stage.coding === "heads") names.add("A" + stage.layer);
    if (stage.block) names.add(stage.block);
    return [...names];
}

function floatsAt(block, offset, count) {
    const bytes = decodedBlocks.get(block);
    const begin = bytes.byteOffset + offset;
    return new Float32Array(bytes.buffer.slice(begin, begin + 4 * count));
}

// Per row its largest |x|, then sign(q) largest (q / 127)^2: small numbers keep more digits.
function decodeI8(stage, width) {
    const largest = floatsAt(stage.block, stage.offset, stage.rows);
    const from = stage.offset + 4 * stage.rows;
    const bytes = decodedBlocks.get(stage.block);
    const q = new Int8Array(bytes.buffer, bytes.byteOffset + from, stage.rows * width);
    const out = new Float32Array(stage.rows * width);
    for (let i = 0; i < out.length; i++) {
        const root = q[i] / 127;
        out[i] = Math.sign(root) * root * root * largest[Math.floor(i / width)];
    }
    return out;
}

function sumOf(a, b) {
    const out = new Float32Array(a.length);
    for (let i = 0; i < out.length; i++) out[i] = a[i] + b[i]; // the array rounds to float32
    return out;
}

// (rows, width) of a stage.
function stageValues(id) {
    if (stageCache.has(id)) return stageCache.get(id);
    const stage = stageById.get(id);
    const width = stageWidth(stage);
    const values =
        stage.coding === "sum" ? sumOf(...stage.of.map(stageValues))
        : stage.coding === "heads" ? headsFrom(stage, stageValues(stage.of[0]))
        : stage.coding === "i8" ? decodeI8(stage, width)
        : floatsAt(stage.block, stage.offset, stage.rows * width);
    stageCache.set(id, values);
    return values;
}

// ---- attention ----

// Rows of the lower triangle one behind the other.
const triangle = (n) => (n * (n + 1)) / 2;

// What attention takes: the last step of q or k, in the order of computation.
const lastOf = (layer, steps) => (core.stages || []).filter((s) => s.layer === layer && steps.test(s.stage)).pop() || null;
const queryStage = (layer) => lastOf(layer, /^q(_norm|_rotated)?$/);
const keyStage = (layer) => lastOf(layer, /^k(_norm|_rotated)?$/);

// Whether a row of the stage is so many heads. The sizes of a trace are what its metadata says.
const hasWidth = (stage, heads) => Boolean(stage && core.headDim) && stageWidth(stage) === heads * core.headDim;

function attentionBlocks(layer) {
    const blocks = ["A" + layer, "scoreLse", "hidden"];
    for (const stage of [queryStage(layer), keyStage(layer)]) if (stage) blocks.push(...stageBlocks(stage.id));
    return blocks;
}

// Scores are computed from exact queries and keys; where those are pictures of 8 bits, from the
// weights and the log-sum-exp of the scores of each row.
const hasExactQK = (layer) => [queryStage(layer), keyStage(layer)].every((stage) => stage && isExact(stage));
// Of weights that are rounded to 8 bits the logarithm says less than 8 bits of q and k do.
const fromWeights = (layer) => hasBlock("scoreLse") && areWeightsExact(layer);
const hasRaw = (layer) => hasWidth(queryStage(layer), core.heads) && hasWidth(keyStage(layer), core.kvHeads);
const hasScaled = (layer) => Boolean(hasRaw(layer) && core.attention.scale); // a trace does not have the scale

// Digits that hold of what is computed here from keys and values as they were projected: a cache of
// 16 bits rounds them before attention sees them.
const cacheDigits = () => (core.run && core.run.kv === "f32" ? 5 : 3);

// How the weights of a layer are stored: floats, or the weight times 255.
function attentionWeights(layer) {
    const bytes = decodedBlocks.get("A" + layer);
    if (!bytes) return null;
    return bytes.length === core.heads * triangle(tokens) ? bytes : numbers("A" + layer);
}

const areWeightsExact = (layer) => !(attentionWeights(layer) instanceof Uint8Array);

// Softmax weights of a head: (i, j) -> number, for j <= i.
function headWeight(layer, head) {
    const all = attentionWeights(layer);
    const unit = all instanceof Uint8Array ? 1 / 255 : 1;
    const from = head * triangle(tokens);
    return (i, j) => all[from + triangle(i) + j] * unit;
}

function softcapOf(layer) {
    const caps = core.attention.softcap;
    return fromJson(Array.isArray(caps) ? caps[layer] : caps) || 0;
}

// ln(weight) + log-sum-exp of the row is what the softmax took; raw: the soft cap and scale undone.
function scoreFromWeight(layer, head, scaled) {
    const weight = headWeight(layer, head), lse = numbers("scoreLse"), row = (layer * core.heads + head) * tokens;
    const scale = fromJson(core.attention.scale[layer]), cap = softcapOf(layer);
    return (i, j) => {
        const score = Math.log(weight(i, j)) + lse[row + i];
        if (scaled) return score;
        return (cap ? cap * Math.atanh(Math.max(-1, Math.min(1, score / cap))) : score) / scale;
    };
}

// (i, j) -> whether a window or pattern hides the key from the query. A trace does not say which;
// there a weight of 0 counts.
function isHidden(layer, head) {
    const bits = decodedBlocks.get("hidden"), from = layer * Math.ceil(triangle(tokens) / 8);
    if (bits) return (i, j) => Boolean((bits[from + ((triangle(i) + j) >> 3)] >> ((triangle(i) + j) & 7)) & 1);
    if (core.kind === "model") return () => false;
    const weight = headWeight(layer, head);
    return (i, j) => weight(i, j) === 0;
}

// Scores of a head: (i, j) -> q . k; scaled: times the scale, through the soft cap where the model
// has one. -infinity where the key is hidden.
function headScore(layer, head, scaled) {
    const score = visibleScore(layer, head, scaled), hidden = isHidden(layer, head);
    return (i, j) => (hidden(i, j) ? -Infinity : score(i, j));
}

function visibleScore(layer, head, scaled) {
    if (!hasExactQK(layer) && fromWeights(layer)) return scoreFromWeight(layer, head, scaled);
    const queries = stageValues(queryStage(layer).id), keys = stageValues(keyStage(layer).id);
    const { headDim } = core, qWidth = headDim * core.heads, kWidth = headDim * core.kvHeads;
    const q0 = head * headDim, k0 = core.attention.kvOf[head] * headDim;
    const scale = scaled ? fromJson(core.attention.scale[layer]) : 1;
    const cap = scaled ? softcapOf(layer) : 0;
    return (i, j) => {
        let sum = 0;
        for (let c = 0; c < headDim; c++) sum += queries[i * qWidth + q0 + c] * keys[j * kWidth + k0 + c];
        sum *= scale;
        return cap ? cap * Math.tanh(sum / cap) : sum;
    };
}

// ---- heads that are not stored ----

// (rows, heads, head_dim): sums of values, weighted.
function headsFrom(stage, values) {
    const { heads, headDim, kvHeads } = core, out = new Float32Array(tokens * heads * headDim);
    for (let h = 0; h < heads; h++) {
        const weight = headWeight(stage.layer, h), from = core.attention.kvOf[h] * headDim;
        for (let i = 0; i < tokens; i++) for (let j = 0; j <= i; j++) {
            const w = weight(i, j), at = (i * heads + h) * headDim, v = j * kvHeads * headDim + from;
            if (w !== 0) for (let c = 0; c < headDim; c++) out[at + c] += w * values[v + c];
        }
    }
    return out;
}

// Digits that hold of a stage that is not exact: heads are as good as weights and values.
function stageDigits(stage) {
    return stage.coding === "heads" && areWeightsExact(stage.layer) && isExact(stageById.get(stage.of[0])) ? cacheDigits() : 2;
}

// Heads that a run changes are not what weights and values give. The page of a model has these as
// they were; a trace says only that something was changed.
const areHeadsComputable = () => core.kind === "model" || !core.run || !core.run.interventions;

// att_heads of each layer that has weights and values, but not them. Their name is that of another
// layer's, with the number of this one.
function addComputedHeads() {
    const stored = (core.stages || []).find((stage) => stage.stage === "att_heads");
    if (!stored || !core.attention || !areHeadsComputable()) return;
    for (let layer = 0; layer < core.layers; layer++) {
        const id = `${layer}.att_heads`, values = `${layer}.v`;
        if (stageById.has(id) || !hasWidth(stageById.get(values), core.kvHeads) || !hasBlock("A" + layer)) continue;
        const stage = { id, stage: "att_heads", layer, name: stored.name.replace(`.${stored.layer}.`, `.${layer}.`), rows: tokens,
            shape: [core.heads, core.headDim], coding: "heads", of: [values], exact: false };
        stageById.set(id, stage);
        core.stages.splice(core.stages.findIndex((other) => other.id === values) + 1, 0, stage);
    }
}

// min, max, rms and the ten largest of a stage: from the JSON, or counted here.
function summarize(stage) {
    if (stage.stats) return;
    const values = stageValues(stage.id), width = stageWidth(stage);
    const order = Array.from(values.keys()).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, 10);
    const count = (holds) => values.reduce((n, x) => n + holds(x), 0), special = (x) => !Number.isFinite(x);
    const squares = values.reduce((a, x) => a + x * x, 0), nans = count(Number.isNaN);
    stage.stats = [values.reduce((a, x) => Math.min(a, x), Infinity), values.reduce((a, x) => Math.max(a, x), -Infinity), Math.sqrt(squares / values.length), nans, count(special) - nans];
    stage.extremes = order.map((i) => [Math.floor(i / width), i % width, values[i]]);
}
