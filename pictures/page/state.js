"use strict";
// What is chosen, once for all views, and the views: each draws itself when it comes near the
// window and something that it shows has changed.
const chosen = { position: core.ids.length - 1, layer: 0, head: 0, stage: null, cell: null };
const views = [];

// view: {id, title, says, present(), build(body), needs(), draw()}
//   present  whether the page has its data; asked when all blocks have arrived
//   build    makes its elements once
//   needs    the names of blocks that draw reads
//   follows  what it shows of `chosen`; a change of something else does not redraw it
//   draw     shows what is chosen
function addView(view) {
    view.stale = true;
    views.push(view);
}

// The nearest of 0 .. count - 1: a field may hold a fraction.
const clamp = (x, count) => Math.max(0, Math.min(count - 1, Math.round(x)));

function choose(change) {
    const before = { ...chosen };
    Object.assign(chosen, change);
    chosen.position = clamp(chosen.position, tokens);
    chosen.layer = clamp(chosen.layer, core.layers || 1);
    chosen.head = clamp(chosen.head, core.heads || 1);
    const changed = Object.keys(chosen).filter((key) => chosen[key] !== before[key]);
    redraw((view) => view.follows.some((key) => changed.includes(key)));
    drawBar();
}

// Of all views, or of those: what is in sight at once, what is near in the pauses after that, the rest
// when it comes near.
function redraw(those = () => true) {
    for (const view of views.filter(those)) {
        view.stale = true;
        if (view.visible) drawView(view);
    }
    setTimeout(drawNear, 0);
}

function drawNear() {
    const view = views.find((v) => v.near && v.stale && !v.waits);
    if (!view) return;
    drawView(view);
    setTimeout(drawNear, 0);
}

// A view whose blocks are still to be decoded is drawn when they are, as what is chosen then.
function drawView(view) {
    const missing = view.needs ? missingBlocks(view.needs()) : [];
    view.waits = missing.length > 0;
    if (view.waits) {
        loadBlocks(missing).then(() => { if (view.near) drawView(view); else view.waits = false; });
        return;
    }
    view.stale = false;
    view.draw();
}

const viewOf = (entry) => views.find((view) => view.section === entry.target);

const sight = new IntersectionObserver((entries) => {
    for (const entry of entries) viewOf(entry).visible = entry.isIntersecting;
});

const nearness = new IntersectionObserver((entries) => {
    for (const entry of entries) {
        const view = viewOf(entry);
        view.near = entry.isIntersecting;
        if (view.near && view.stale) drawView(view);
    }
}, { rootMargin: "400px" });

function buildView(view) {
    const body = el("div", { class: "body" });
    view.section = el("section", { id: view.id, "aria-labelledby": view.id + "-title" },
        el("h2", { id: view.id + "-title" }, view.title), el("p", { class: "says" }, view.says), body);
    document.getElementById("page").append(view.section);
    view.build(body);
    sight.observe(view.section);
    nearness.observe(view.section);
}

// Pixels across that a view may use. Measuring lays the page out, so each node is measured once for
// a width of the window.
const rooms = new Map();
function roomIn(node) {
    if (!rooms.has(node)) rooms.set(node, Math.max(240, Math.floor(node.clientWidth)));
    return rooms.get(node);
}
