"use strict";
// Colours of pictures. Two hues, blue and orange, carry all meaning: they stay apart for people who
// do not tell red from green. A ramp is a table of 256 colours, for ImageData and for CSS.
const STOPS = {
    light: {
        heat: ["#f3f5f7", "#bdd1ea", "#6b9bd6", "#2461ad", "#0b2c60"],
        other: ["#f3f5f7", "#a3c1e6"],
        winner: ["#fcebd8", "#f2a04c"],
        signed: ["#0d4a94", "#5f97d6", "#f1f3f5", "#e79a54", "#b04a05"],
        surprise: ["#f5f3ef", "#f9dcb3", "#eea553", "#c8640f", "#8d3a02"],
    },
    dark: {
        heat: ["#1a2028", "#22436b", "#3d78bf", "#88b8f2", "#e3efff"],
        other: ["#1a2028", "#315e90"],
        winner: ["#3d2b18", "#bd6a1c"],
        signed: ["#9cc8ff", "#3f78bb", "#1b2129", "#b3682a", "#ffbd7d"],
        surprise: ["#1d2329", "#4a3720", "#8b5722", "#d4832f", "#ffc889"],
    },
};
const NAN_COLOR = "#d6249f"; // in no ramp
const INFINITY_COLOR = { light: "#000000", dark: "#ffffff" };

const darkSystem = window.matchMedia("(prefers-color-scheme: dark)");
const themeName = () => document.documentElement.dataset.theme || (darkSystem.matches ? "dark" : "light");

const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// ImageData holds R, G, B, A: little-endian ABGR as one number.
const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
const packedHex = (hex) => packed(channels(hex));

function makeRamp(stops) {
    const at = stops.map(channels);
    const css = [], words = new Uint32Array(256), bright = new Uint8Array(256);
    for (let i = 0; i < 256; i++) {
        const x = (i / 255) * (at.length - 1), low = Math.min(Math.floor(x), at.length - 2);
        const rgb = at[low].map((c, k) => Math.round(c + (x - low) * (at[low + 1][k] - c)));
        css.push(`rgb(${rgb})`);
        words[i] = packed(rgb);
        bright[i] = (rgb[0] * 299 + rgb[1] * 587 + rgb[2] * 114) / 1000;
    }
    return { css, words, bright };
}

const ramps = new Map();
function ramp(name) {
    const key = themeName() + name;
    if (!ramps.has(key)) ramps.set(key, makeRamp(STOPS[themeName()][name]));
    return ramps.get(key);
}

const shade = (x) => Math.max(0, Math.min(255, Math.round(x * 255) || 0)); // of NaN: 0
const inkOn = (table, i) => (table.bright[i] > 140 ? "#14181d" : "#f4f6f8");

// A colour of page.css. Asking for it makes the browser style the page anew, so each is asked once.
const cssColors = new Map();
function cssColor(name) {
    const key = themeName() + name;
    if (!cssColors.has(key)) cssColors.set(key, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
    return cssColors.get(key);
}

// The colour scale as a bar between the words of its ends.
function legend(name, low, high) {
    const stops = STOPS[themeName()][name].join(",");
    const bar = el("i", { class: "scale", style: `background:linear-gradient(90deg,${stops})` });
    return el("span", { class: "legend" }, low, bar, high);
}
