"use strict";
// The text, token by token, coloured by surprise: how many bits the model paid for it.
const MOST_BITS = 16; // the end of the colour scale; p = 1 / 65536

const hasSurprise = () => Array.isArray(core.surprise) && core.surprise.some((x) => x != null);

function meanSurprise() {
    const known = core.surprise.map(fromJson).filter((x) => Number.isFinite(x));
    return known.reduce((a, b) => a + b, 0) / known.length;
}

addView({
    id: "tokens",
    follows: ["position"],
    title: "Tokens and their surprise",
    says: hasSurprise()
        ? "Each token with its surprise, −log₂ p bits, p being the probability that the model gave it beforehand: 0 for a " +
          "certain one, one bit more for each halving. Click a token: all views below follow."
        : "The tokens of the run. Click one: all views below follow.",
    present: () => tokens > 0,

    build(body) {
        this.chips = core.ids.map((id, t) => this.chip(t));
        const list = el("div", { class: "tokens", role: "group", "aria-label": "tokens" }, this.chips);
        if (core.prompt && core.prompt < tokens)
            list.insertBefore(el("span", { class: "turn" }, "generated"), this.chips[core.prompt]);
        this.scale = el("div", { class: "scales" });
        this.facts = el("p", { class: "facts" });
        body.append(list, this.facts, this.scale);
    },

    chip(t) {
        const surprise = hasSurprise() ? fromJson(core.surprise[t]) : null;
        const below = !hasSurprise() ? "" : surprise == null ? "first" : bits(surprise);
        return el("button", {
            type: "button", class: "token", title: `position ${t}, id ${core.ids[t]}`,
            "aria-label": `position ${t}: ${tokenName(core.ids[t])}${surprise == null ? "" : `, ${bits(surprise)} bits`}`,
            onclick: () => choose({ position: t }),
        }, el("b", null, tokenLabel(t, 24)), below ? el("small", null, below) : null);
    },

    // Colours depend on the theme; they are set again only where that has changed.
    paint() {
        if (this.painted === themeName()) return;
        this.painted = themeName();
        const colors = ramp("surprise");
        this.chips.forEach((chip, t) => {
            const surprise = hasSurprise() ? fromJson(core.surprise[t]) : null;
            if (surprise == null) return;
            const i = shade(surprise / MOST_BITS);
            chip.style.background = colors.css[i];
            chip.style.color = inkOn(colors, i);
        });
        if (hasSurprise()) this.scale.replaceChildren(legend("surprise", "0", `${MOST_BITS} bits of surprise and more`));
    },

    draw() {
        this.paint();
        const t = chosen.position;
        this.chips.forEach((chip, i) => chip.setAttribute("aria-pressed", i === t));
        const surprise = hasSurprise() ? fromJson(core.surprise[t]) : null;
        const said = surprise == null ? "" : `; the model gave it p = ${percent(2 ** -surprise)}, ${surprise.toFixed(2)} bits`;
        const mean = hasSurprise() ? `  Mean ${meanSurprise().toFixed(2)} bits, perplexity ${short(2 ** meanSurprise())}.` : "";
        this.facts.replaceChildren(el("b", null, `“${tokenName(core.ids[t])}”`),
            ` is token ${t} (from 0) of ${tokens}, id ${core.ids[t]}${said}.${mean}`);
    },
});
