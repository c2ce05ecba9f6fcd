"use strict";
// The head of the page, the bar that stays, the keyboard; and the order in which all is drawn: the
// tokens at once, from the JSON alone, the rest a view at a time when the blocks have arrived.
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

const KEYS = [["← →", "token before, after"], ["↑ ↓", "layer above, below"], ["h, H", "next head, head before"], ["l, L", "next layer, layer before"],
    ["t", "dark or light"], ["?", "this help"], ["Esc", "close it"]];

function runFacts() {
    const { model, run } = core, facts = [];
    const add = (name, value) => { if (value != null && value !== "") facts.push(el("span", null, el("small", null, name + " "), String(value))); };
    if (model) { add("model", model.name); add("family", model.family); add("parameters", model.parameters && grouped(model.parameters)); }
    if (core.layers) add("shape", `${core.layers} layers${core.heads ? ` × ${core.heads} heads` : ""}, dim ${core.dim}, ${grouped(core.vocab)} tokens`);
    if (run) { add("precision", run.precision); add("cache", run.kv); add("pattern", run.pattern); add("changed by", run.interventions); add("backend", [run.backend, run.isa].filter((x) => x).join(", ")); }
    add("limpid", core.limpid);
    return facts;
}

function pageHead() {
    const prompt = core.prompt || tokens, text = (from, to) => core.ids.slice(from, to).map(pieceOf).join("");
    const known = core.pieces && core.ids.some((id) => core.pieces[id] !== undefined);
    if (!known) return el("header", null, el("h1", null, `${core.kind === "diff" ? "Two traces" : "A trace"} of ${tokens} tokens`), el("p", { class: "run" }, runFacts()));
    return el("header", null,
        el("h1", { dir: "auto" }, cut(text(0, prompt).trim(), 240), prompt < tokens ? el("span", { class: "own" }, cut(text(prompt, tokens), 240)) : null),
        el("p", { class: "run" }, runFacts()));
}

// ---- the bar ----

const bar = { items: {} };

// ‹ 13 “dog” ›
function stepper(name, count) {
    const now = el("b");
    const step = (by) => choose({ [name]: (chosen[name] + by + count) % count });
    const button = (sign, by, word) => el("button", { type: "button", "aria-label": `${name === "position" ? "token" : name} ${word}`, onclick: () => step(by) }, sign);
    bar.items[name] = now;
    return el("span", { class: "stepper" }, el("small", null, name === "position" ? "token" : name), button("‹", -1, "before"), now, button("›", 1, "after"));
}

function buildBar() {
    const spoken = el("span", { class: "spoken", role: "status", "aria-live": "polite" });
    bar.spoken = spoken;
    return el("nav", { id: "bar", "aria-label": "what is chosen" }, stepper("position", tokens),
        core.layers ? stepper("layer", core.layers) : null, core.heads ? stepper("head", core.heads) : null, el("span", { class: "free" }),
        el("button", { type: "button", "aria-label": "dark or light", title: "dark or light (t)", onclick: switchTheme }, "◐"),
        el("button", { type: "button", "aria-label": "keys", title: "keys (?)", onclick: () => showHelp() }, "?"), spoken);
}

function drawBar() {
    const { position, layer, head } = chosen;
    bar.items.position.textContent = `${position} “${tokenLabel(position, 10)}”`;
    if (bar.items.layer) bar.items.layer.textContent = layer;
    if (bar.items.head) bar.items.head.textContent = head;
    bar.spoken.textContent = `token ${position} ${tokenLabel(position)}, layer ${layer}, head ${head}`;
}

function switchTheme() {
    document.documentElement.dataset.theme = themeName() === "dark" ? "light" : "dark";
    redraw();
}

// ---- keys ----

const help = el("dialog", { "aria-label": "keys" }, el("h2", null, "Keys"), table("keys", null, KEYS.map(([key, does]) => [el("kbd", null, key), does])),
    el("button", { type: "button", class: "plain", onclick: () => help.close() }, "close"));
const showHelp = () => (help.open ? help.close() : help.showModal());

const STEPS = {
    ArrowLeft: ["position", -1], ArrowRight: ["position", 1], ArrowUp: ["layer", -1], ArrowDown: ["layer", 1],
    h: ["head", 1], H: ["head", -1], l: ["layer", 1], L: ["layer", -1],
};

// A slider, a list or a field keeps its own keys; a box that scrolls keeps the arrows while it has
// the focus itself, and not a button in it.
const scrolls = (box) => box.matches(".scroll") && (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight);
function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key.startsWith("Arrow") && scrolls(event.target)) return;
    if (event.key === "?") showHelp();
    else if (event.key === "t") switchTheme();
    else if (STEPS[event.key] && !help.open) {
        const [name, by] = STEPS[event.key];
        const counts = { position: tokens, layer: core.layers || 1, head: core.heads || 1 };
        const next = chosen[name] + by;
        choose({ [name]: name === "head" ? (next + counts.head) % counts.head : clamp(next, counts[name]) });
    } else return;
    event.preventDefault();
}

// ---- start ----

// Where the page opens: what the writer found worth a look, else the last token in the middle.
function openAt() {
    Object.assign(chosen, { layer: Math.floor((core.layers || 1) / 2) }, core.open || {});
}

// One view in a frame, so that none of them delays the first paint or a scroll.
function buildNext(list) {
    if (!list.length) return decodeAhead(allBlocks());
    buildView(list.shift());
    requestAnimationFrame(() => buildNext(list));
}

// Layers around the chosen one first.
function allBlocks() {
    const near = Array.from({ length: core.layers || 0 }, (_, l) => l).sort((a, b) => Math.abs(a - chosen.layer) - Math.abs(b - chosen.layer));
    return ["S", ...near.flatMap((l) => ["A" + l, "L" + l])];
}

function startRest() {
    const first = views.find((view) => view.id === "tokens");
    addComputedHeads();
    buildNext(views.filter((view) => view !== first && view.present()));
}

function start() {
    openAt();
    const page = document.getElementById("page");
    document.title = `${cut(core.ids.map(pieceOf).join("").trim(), 60)} · limpid`;
    page.before(buildBar());
    page.append(pageHead());
    document.body.append(tip, help);
    const first = views.find((view) => view.id === "tokens");
    buildView(first);
    first.near = first.visible = true;
    drawView(first);
    drawBar();
    document.addEventListener("keydown", onKey);
    // A mouse that goes elsewhere leaves what the tip is of, a finger does not.
    document.addEventListener("pointerdown", (event) => { if (event.pointerType !== "mouse") hideTip(); });
    darkSystem.addEventListener("change", () => redraw());
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
        if (window.innerWidth === width) return;
        width = window.innerWidth;
        rooms.clear();
        redraw();
    });
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startRest);
    else startRest();
}
start();
