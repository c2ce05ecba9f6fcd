"use strict";
// The data of the page: `core` (JSON, all that the first paint needs) and blocks of numbers, which
// stand behind the scripts and are decoded when they are first looked at. pictures/page.h has the
// format.
const core = JSON.parse(document.getElementById("core").textContent);

const decodedBlocks = new Map(); // name -> Uint8Array
const comingBlocks = new Map(); // name -> Promise of it

const hasBlock = (name) => document.getElementById("b-" + name) !== null;

function bytesOfBase64(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
    return bytes;
}

// Byte b of number i stands at b * count + i.
function joinPlanes(bytes, planes) {
    if (planes === 1) return bytes;
    const count = bytes.length / planes;
    const joined = new Uint8Array(bytes.length);
    for (let b = 0; b < planes; b++)
        for (let i = 0, from = b * count; i < count; i++) joined[i * planes + b] = bytes[from + i];
    return joined;
}

async function inflate(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The element loses its base64, which would only hold memory from here on.
function takeBlock(name) {
    const element = document.getElementById("b-" + name);
    const { coding, planes } = element.dataset;
    const bytes = bytesOfBase64(element.textContent.trim());
    element.textContent = "";
    return { bytes, deflated: coding === "deflate", planes: Number(planes) };
}

function loadBlock(name) {
    if (comingBlocks.has(name)) return comingBlocks.get(name);
    const { bytes, deflated, planes } = takeBlock(name);
    const coming = (deflated ? inflate(bytes) : Promise.resolve(bytes)).then((raw) => {
        decodedBlocks.set(name, joinPlanes(raw, planes));
    });
    comingBlocks.set(name, coming);
    return coming;
}

// Those of the names that the page has and that are not decoded yet.
const missingBlocks = (names) =>
    names.filter((name) => !decodedBlocks.has(name) && hasBlock(name));

const loadBlocks = (names) => Promise.all(names.map(loadBlock));

const viewedBlocks = new Map(); // name -> typed array of all of it

// A decoded block as one typed array; null where the page has no such block.
function numbers(name, Type = Float32Array) {
    if (!decodedBlocks.has(name)) return null;
    if (!viewedBlocks.has(name)) viewedBlocks.set(name, new Type(decodedBlocks.get(name).buffer));
    return viewedBlocks.get(name);
}

// JSON has no NaN and no infinity: there they are strings.
const SPECIAL = { nan: NaN, inf: Infinity, "-inf": -Infinity };
const fromJson = (x) => (typeof x === "string" ? SPECIAL[x] : x);

// Decodes what the next steps may need while nothing else is to do, so that a change of the layer
// finds its blocks ready.
function decodeAhead(names) {
    const idle = window.requestIdleCallback || ((f) => setTimeout(f, 50));
    const next = missingBlocks(names)[0];
    if (next) idle(() => loadBlock(next).then(() => decodeAhead(names)));
}
