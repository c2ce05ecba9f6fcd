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
    if (stage.coding === "sum") for (const part of stage.of) stageBlocks(part, names);
    else names.add(stage.block);
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

function attentionBlocks(layer) {
    const blocks = ["A" + layer, "scoreLse"];
    for (const stage of [queryStage(layer), keyStage(layer)]) if (stage) blocks.push(...stageBlocks(stage.id));
    return blocks;
}

// Scores are computed from exact queries and keys; where those are pictures of 8 bits, from the
// weights and the log-sum-exp of the scores of each row.
const hasExactQK = (layer) => [queryStage(layer), keyStage(layer)].every((stage) => stage && isExact(stage));
// Of weights that are rounded to 8 bits the logarithm says less than 8 bits of q and k do.
const fromWeights = (layer) => hasBlock("scoreLse") && areWeightsExact(layer);
const hasRaw = (layer) => Boolean(hasBlock("scoreLse") || (queryStage(layer) && keyStage(layer)));
const hasScaled = (layer) => Boolean(hasRaw(layer) && core.attention.scale); // a trace does not have the scale

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

// Scores of a head: (i, j) -> q . k; scaled: times the scale, through the soft cap where the model
// has one. -infinity where the weight is 0: the key is hidden, by a window for instance.
function headScore(layer, head, scaled) {
    const score = visibleScore(layer, head, scaled);
    if (!areWeightsExact(layer)) return score;
    const weight = headWeight(layer, head);
    return (i, j) => (weight(i, j) === 0 ? -Infinity : score(i, j));
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
