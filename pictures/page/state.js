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

const clamp = (x, count) => Math.max(0, Math.min(count - 1, x));

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

// Of all views, or of those; at once where one is in sight, else when it comes there.
function redraw(those = () => true) {
    for (const view of views.filter(those)) {
        view.stale = true;
        if (view.near) drawView(view);
    }
}

// A view whose blocks are still to be decoded is drawn when they are, as what is chosen then.
function drawView(view) {
    const missing = view.needs ? missingBlocks(view.needs()) : [];
    if (missing.length) {
        loadBlocks(missing).then(() => { if (view.near) drawView(view); });
        return;
    }
    view.stale = false;
    view.draw();
}

const sight = new IntersectionObserver((entries) => {
    for (const entry of entries) {
        const view = views.find((v) => v.section === entry.target);
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
}

// Pixels across that a view may use.
const roomIn = (node) => Math.max(240, Math.floor(node.clientWidth));
